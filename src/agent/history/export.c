/*
 * A session as a document: Markdown, or one HTML file that needs nothing else (no script, no font,
 * no picture from elsewhere). Both are a row of functions over the same pieces.
 *
 * All text in a session is untrusted. In HTML, whatever is no Markdown is escaped; Markdown is
 * rendered without raw HTML, and only web addresses stay links. The page forbids itself scripts and
 * requests, too. In Markdown, output of tools goes into fences that are longer than any in it.
 */
#include <errno.h>
#include <md4c-html.h>
#include <string.h>
#include <strings.h>

#include "cleanup.h"
#include "history_export.h"
#include "history_file.h"
#include "json.h"
#include "text.h"
#include "banned.h"

#define RENDERED_MAX (1u << 20) /* bytes of Markdown; longer text is shown as it is */
#define HTML_MAX     (64u << 20)

struct export_format {
    const char *opening; /* of the document */
    const char *title[2], *heading[2], *meta[2], *closing;
    const char *thinking; /* opens it */
    const char *call[2];  /* opens one that succeeded, failed */
    const char *details_end;
    void (*escaped)(FILE *out, const char *text, size_t n); /* within a line */
    void (*verbatim)(FILE *out, const char *text, size_t n, const char *language);
    void (*person)(FILE *out, const struct piece *p);
    void (*answer)(FILE *out, const struct piece *p, bool first); /* first of a turn */
    void (*thought)(FILE *out, const char *text, size_t n);
    void (*image)(FILE *out, const struct piece *p);
    void (*note)(FILE *out, const char *text, size_t n);
};

/* clang-format off */
static const char HTML_OPENING[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"referrer\" content=\"no-referrer\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none';"
    " style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; --fg: #1f2328; --bg: #ffffff; --dim: #59636e;"
    " --soft: #f3f4f6; --line: #d1d9e0; --accent: #0a5dc2; --bad: #b42318; }\n"
    "@media (prefers-color-scheme: dark) { :root { --fg: #e6e9ee; --bg: #14171c; --dim: #9aa4b0;"
    " --soft: #1f242b; --line: #363d47; --accent: #74b0ff; --bad: #ff8a7d; } }\n"
    "body { font: 16px/1.55 system-ui, sans-serif; color: var(--fg); background: var(--bg);"
    " max-width: 52rem; margin: 0 auto; padding: 2rem 1rem 4rem; overflow-wrap: anywhere; }\n"
    "h1 { font-size: 1.4rem; line-height: 1.3; } a { color: var(--accent); }\n"
    ".meta, time { color: var(--dim); font-size: .875rem; }\n"
    ".you { background: var(--soft); border-left: 3px solid var(--accent); border-radius: 4px;"
    " margin: 2rem 0 1rem; padding: .6rem 1rem; white-space: pre-wrap; }\n"
    "pre, code { font: .875rem/1.45 ui-monospace, monospace; }\n"
    "pre { background: var(--soft); border-radius: 4px; padding: .7rem; overflow-x: auto;"
    " white-space: pre-wrap; }\n"
    "code { background: var(--soft); padding: .1em .3em; border-radius: 3px; }"
    " pre code { padding: 0; }\n"
    "details { border: 1px solid var(--line); border-radius: 4px; margin: .5rem 0;"
    " padding: 0 .7rem; }\n"
    "summary { cursor: pointer; padding: .35rem 0; font: .875rem/1.45 ui-monospace, monospace; }\n"
    ".failed > summary { color: var(--bad); } .note, .thinking { color: var(--dim); }"
    " .note { white-space: pre-wrap; }\n"
    "table { border-collapse: collapse; }"
    " th, td { border: 1px solid var(--line); padding: .25rem .6rem; }\n"
    "img { max-width: 100%; } blockquote { border-left: 3px solid var(--line); margin-left: 0;"
    " padding-left: 1rem; color: var(--dim); }\n"
    "</style>\n";
/* clang-format on */

static void html_escaped(FILE *out, const char *text, size_t n)
{
    static const char *const entities[256] = {['<'] = "&lt;",   ['>'] = "&gt;",   ['&'] = "&amp;",
                                              ['"'] = "&quot;", ['\''] = "&#39;", [0] = "␀"};
    for (size_t i = 0; i < n; i++) {
        const char *entity = entities[(unsigned char)text[i]];
        if (entity)
            fputs(entity, out);
        else
            fputc(text[i], out);
    }
}

static void html_verbatim(FILE *out, const char *text, size_t n, const char *language)
{
    fputs("<pre>", out);
    html_escaped(out, text, n);
    fputs("</pre>\n", out);
}

static bool is_web_address(const char *url, size_t n)
{
    static const char *const good[] = {"https://", "http://", "mailto:"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        if (n > strlen(good[i]) && strncasecmp(url, good[i], strlen(good[i])) == 0)
            return true;
    return false;
}

/* The renderer's HTML without its pictures and its links to other than web addresses. Text cannot
 * look like an element here, since it was escaped. */
static void html_put_rendered(FILE *out, const char *html, size_t n)
{
    static const char *const elements[] = {"<a href=\"", "<img src=\""};
    const char *end = html + n;
    while (html < end) {
        const char *at = memchr(html, '<', (size_t)(end - html));
        at = at ? at : end;
        fwrite(html, 1, (size_t)(at - html), out);
        html = at;
        for (size_t i = 0; i < ARRAY_SIZE(elements); i++) {
            size_t length = strlen(elements[i]);
            if ((size_t)(end - html) < length || memcmp(html, elements[i], length) != 0)
                continue;
            const char *url = html + length, *quote = memchr(url, '"', (size_t)(end - url));
            size_t n_url = (size_t)((quote ? quote : end) - url);
            fputs(i == 0 && is_web_address(url, n_url) ? "<a rel=\"noopener noreferrer\" href=\""
                  : i == 0                             ? "<a title=\""
                                                       : "<img title=\"",
                  out);
            html = url;
            break;
        }
        if (html == at && html < end)
            fputc(*html++, out);
    }
}

static void html_take(const MD_CHAR *text, MD_SIZE n, void *data)
{
    buf_append(data, text, n);
}

static void html_markdown(FILE *out, const char *text, size_t n)
{
    _cleanup_buf_ struct buf html = BUF_INIT(HTML_MAX);
    unsigned flags = MD_FLAG_NOHTML | MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS |
                     MD_FLAG_PERMISSIVEURLAUTOLINKS;
    if (n <= RENDERED_MAX && md_html(text, (MD_SIZE)n, html_take, &html, flags, 0) == 0 &&
        !html.failed)
        html_put_rendered(out, (char *)html.data, html.len);
    else
        html_verbatim(out, text, n, "");
}

static void html_person(FILE *out, const struct piece *p)
{
    fputs("<section class=\"you\">", out);
    html_escaped(out, p->text, p->n);
    fputs("</section>\n<p><time>", out);
    html_escaped(out, p->time, p->time ? strlen(p->time) : 0);
    fputs("</time></p>\n", out);
}

static void html_answer(FILE *out, const struct piece *p, bool first)
{
    if (p->kind != PIECE_ANSWER)
        return;
    fputs("<section class=\"answer\">\n", out);
    html_markdown(out, p->text, p->n);
    fputs("</section>\n", out);
}

/* Only the usual kinds, and only if it is base64 throughout. */
static void html_image(FILE *out, const struct piece *p)
{
    static const char *const kinds[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};
    bool good =
        p->n && strspn(p->text,
                       "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") == p->n;
    for (size_t i = 0; good && i < ARRAY_SIZE(kinds); i++)
        if (p->name && strcmp(p->name, kinds[i]) == 0) {
            fprintf(out, "<p><img alt=\"picture\" src=\"data:%s;base64,%s\"></p>\n", kinds[i],
                    p->text);
            return;
        }
    fputs("<p class=\"note\">[a picture]</p>\n", out);
}

static void html_note(FILE *out, const char *text, size_t n)
{
    fputs("<p class=\"note\">", out);
    html_escaped(out, text, n);
    fputs("</p>\n", out);
}

static const struct export_format HTML = {
    .opening = HTML_OPENING,
    .title = {"<title>", "</title>\n"},
    .heading = {"</head>\n<body>\n<h1>", "</h1>\n"},
    .meta = {"<p class=\"meta\">", "</p>\n<main>\n"},
    .closing = "</main>\n</body>\n</html>\n",
    .thinking = "<details class=\"thinking\"><summary>thinking</summary>\n",
    .call = {"<details class=\"call\"><summary>", "<details class=\"call failed\"><summary>"},
    .details_end = "</details>\n",
    .escaped = html_escaped,
    .verbatim = html_verbatim,
    .person = html_person,
    .answer = html_answer,
    .thought = html_markdown,
    .image = html_image,
    .note = html_note,
};

/* For the few places where HTML stands in Markdown. */
static void md_escaped(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (text[i] && strchr("<>&`*_[]\\|", text[i]))
            fprintf(out, "&#%d;", text[i]);
        else
            fputc(text[i], out);
}

static void md_verbatim(FILE *out, const char *text, size_t n, const char *language)
{
    size_t longest = 2, run = 0;
    for (size_t i = 0; i < n; i++) {
        run = text[i] == '`' ? run + 1 : 0;
        longest = run > longest ? run : longest;
    }
    for (size_t i = 0; i <= longest; i++)
        fputc('`', out);
    fprintf(out, "%s\n", language);
    fwrite(text, 1, n, out);
    if (n == 0 || text[n - 1] != '\n')
        fputc('\n', out);
    for (size_t i = 0; i <= longest; i++)
        fputc('`', out);
    fputs("\n\n", out);
}

static void md_quoted(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || text[i - 1] == '\n')
            fputs("> ", out);
        fputc(text[i], out);
    }
    fputs("\n\n", out);
}

static void md_person(FILE *out, const struct piece *p)
{
    fprintf(out, "## You%s%s\n\n", p->time ? " · " : "", p->time ? p->time : "");
    fwrite(p->text, 1, p->n, out);
    fputs("\n\n", out);
}

static void md_answer(FILE *out, const struct piece *p, bool first)
{
    bool words = p->kind == PIECE_ANSWER;
    const char *name = words && p->name ? p->name : "Agent";
    if (first) {
        fputs("## ", out);
        md_escaped(out, name, strlen(name));
        fputs("\n\n", out);
    }
    if (words) {
        fwrite(p->text, 1, p->n, out);
        fputs("\n\n", out);
    }
}

static void md_image(FILE *out, const struct piece *p)
{
    fputs("*(an image)*\n\n", out);
}

static const struct export_format MARKDOWN = {
    .heading = {"# ", "\n\n"},
    .meta = {"", "\n\n"},
    .thinking = "<details><summary>Thinking</summary>\n\n",
    .call = {"<details><summary>", "<details><summary>"},
    .details_end = "</details>\n\n",
    .escaped = md_escaped,
    .verbatim = md_verbatim,
    .person = md_person,
    .answer = md_answer,
    .thought = md_quoted,
    .image = md_image,
    .note = md_quoted,
};

struct export
{
    const struct export_format *format;
    FILE *out;
    bool answering; /* the model's part of this turn has begun */
};

static int export_piece(void *data, const struct piece *p)
{
    struct export *x = data;
    const struct export_format *f = x->format;
    const char *name = p->name ? p->name : "?", *brief = p->brief ? p->brief : "";
    switch (p->kind) {
    case PIECE_PERSON:
        f->person(x->out, p);
        x->answering = false;
        break;
    case PIECE_ANSWER:
    case PIECE_CALL:
        f->answer(x->out, p, !x->answering);
        x->answering = true;
        if (p->kind != PIECE_CALL)
            break;
        fputs(f->call[p->failed], x->out);
        fputs(!p->answered ? "… " : p->failed ? "✗ " : "✓ ", x->out);
        f->escaped(x->out, name, strlen(name));
        fputs(" ", x->out);
        f->escaped(x->out, brief, strlen(brief));
        fputs("</summary>\n\n", x->out);
        if (p->input)
            f->verbatim(x->out, p->input, strlen(p->input), "json");
        if (p->n)
            f->verbatim(x->out, p->text, p->n, "");
        fputs(f->details_end, x->out);
        break;
    case PIECE_THINKING:
        fputs(f->thinking, x->out);
        f->thought(x->out, p->text, p->n);
        fputs(f->details_end, x->out);
        break;
    case PIECE_IMAGE:
        f->image(x->out, p);
        break;
    case PIECE_NOTE:
        if (p->n)
            f->note(x->out, p->text, p->n);
        break;
    }
    return ferror(x->out) ? -EIO : 0;
}

int history_export(struct history *h, bool html, FILE *out, struct error *err)
{
    const struct export_format *f = html ? &HTML : &MARKDOWN;
    struct export x = {.format = f, .out = out};
    _cleanup_free_ char *words = NULL; /* the first of the person */
    for (size_t i = 0; !words && i < history_count(h); i++) {
        _cleanup_json_ json_t *message = NULL;
        if (history_entry(h, i)->begins_turn && history_read(h, i, &message, NULL) == 0)
            words = history_title_of(message);
    }
    const char *title = words ? words : history_id(h), *folder = history_workspace(h);
    struct history_totals t;
    history_totals(h, &t);
    if (f->opening)
        fputs(f->opening, out);
    if (f->title[0]) {
        fputs(f->title[0], out);
        f->escaped(out, title, strlen(title));
        fputs(f->title[1], out);
    }
    fputs(f->heading[0], out);
    f->escaped(out, title, strlen(title));
    fprintf(out, "%s%sSession %s, %u turn%s", f->heading[1], f->meta[0], history_id(h), t.turns,
            t.turns == 1 ? "" : "s");
    if (t.model[0]) {
        fputs(", ", out);
        f->escaped(out, t.model, strlen(t.model));
    }
    if (t.cost >= 0)
        fprintf(out, ", $%.2f", t.cost);
    if (folder) {
        fputs(", in ", out);
        f->escaped(out, folder, strlen(folder));
    }
    fputs(f->meta[1], out);
    int r = history_pieces(h, false, &(struct piece_sink){export_piece, &x}, err);
    if (f->closing)
        fputs(f->closing, out);
    return r;
}
