/*
 * A session as one HTML file that needs nothing else: no script, no font, no picture from
 * elsewhere.
 *
 * All text in it is a stranger's. Whatever is no Markdown is escaped; Markdown is rendered without
 * raw HTML, and of what it links to only addresses of the web stay links. The page forbids itself
 * scripts and requests, too, should something have been overlooked.
 */
#include <errno.h>
#include <md4c-html.h>
#include <string.h>
#include <strings.h>

#include "buf.h"
#include "history_export.h"
#include "history_pieces.h"
#include "banned.h"

#define RENDERED_MAX (1u << 20) /* bytes of Markdown; what is longer is shown as it is */
#define HTML_MAX     (64u << 20)

static const char HEAD[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta name=\"referrer\" content=\"no-referrer\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
    "'unsafe-inline';"
    " img-src data:; base-uri 'none'; form-action 'none'\">\n<style>\n"
    ":root { color-scheme: light dark; --fg: #1f2328; --bg: #ffffff; --dim: #59636e; --soft: "
    "#f3f4f6;"
    " --line: #d1d9e0; --accent: #0a5dc2; --bad: #b42318; }\n"
    "@media (prefers-color-scheme: dark) { :root { --fg: #e6e9ee; --bg: #14171c; --dim: #9aa4b0; "
    "--soft: "
    "#1f242b;"
    " --line: #363d47; --accent: #74b0ff; --bad: #ff8a7d; } }\n"
    "body { font: 16px/1.55 system-ui, sans-serif; color: var(--fg); background: var(--bg); "
    "max-width: 52rem;"
    " margin: 0 auto; padding: 2rem 1rem 4rem; overflow-wrap: anywhere; }\n"
    "h1 { font-size: 1.4rem; line-height: 1.3; } a { color: var(--accent); } .meta, time { color: "
    "var(--dim);"
    " font-size: .875rem; }\n"
    ".you { background: var(--soft); border-left: 3px solid var(--accent); border-radius: 4px; "
    "margin: 2rem "
    "0 1rem;"
    " padding: .6rem 1rem; white-space: pre-wrap; }\n"
    "pre, code { font: .875rem/1.45 ui-monospace, monospace; } pre { background: var(--soft); "
    "border-radius: "
    "4px;"
    " padding: .7rem; overflow-x: auto; white-space: pre-wrap; }\n"
    "code { background: var(--soft); padding: .1em .3em; border-radius: 3px; } pre code { padding: "
    "0; }\n"
    "details { border: 1px solid var(--line); border-radius: 4px; margin: .5rem 0; padding: 0 "
    ".7rem; }\n"
    "summary { cursor: pointer; padding: .35rem 0; font: .875rem/1.45 ui-monospace, monospace; }\n"
    ".failed > summary { color: var(--bad); } .note, .thinking { color: var(--dim); } .note { "
    "white-space: "
    "pre-wrap; }\n"
    "table { border-collapse: collapse; } th, td { border: 1px solid var(--line); padding: .25rem "
    ".6rem; }\n"
    "img { max-width: 100%; } blockquote { border-left: 3px solid var(--line); margin-left: 0; "
    "padding-left: "
    "1rem;"
    " color: var(--dim); }\n</style>\n";

static void put_escaped(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++)
        switch (text[i]) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        case '\0':
            fputs("␀", out);
            break;
        default:
            fputc(text[i], out);
        }
}

static void put_string(FILE *out, const char *text)
{
    if (text)
        put_escaped(out, text, strlen(text));
}

static void take_html(const MD_CHAR *text, MD_SIZE n, void *data)
{
    buf_append(data, text, n);
}

static bool is_web(const char *url, size_t n)
{
    static const char *const good[] = {"https://", "http://", "mailto:"};
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        if (n > strlen(good[i]) && strncasecmp(url, good[i], strlen(good[i])) == 0)
            return true;
    return false;
}

/* The renderer's HTML with other addresses taken out of it: links that are none of the web's, and
 * all pictures. Text cannot look like an element here, since it was escaped. */
static void put_rendered(FILE *out, const char *html, size_t n)
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
            fputs(i == 0 && is_web(url, n_url) ? "<a rel=\"noopener noreferrer\" href=\""
                  : i == 0                     ? "<a title=\""
                                               : "<img title=\"",
                  out);
            html = url;
            break;
        }
        if (html == at && html < end)
            fputc(*html++, out);
    }
}

static void put_markdown(FILE *out, const char *text, size_t n)
{
    _cleanup_buf_ struct buf html = BUF_INIT(HTML_MAX);
    unsigned flags = MD_FLAG_NOHTML | MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS |
                     MD_FLAG_PERMISSIVEURLAUTOLINKS;
    if (n <= RENDERED_MAX && md_html(text, (MD_SIZE)n, take_html, &html, flags, 0) == 0 &&
        !html.failed) {
        put_rendered(out, (char *)html.data, html.len);
        return;
    }
    fputs("<pre>", out);
    put_escaped(out, text, n);
    fputs("</pre>\n", out);
}

static void put_call(FILE *out, const struct piece *p)
{
    fprintf(out, "<details class=\"call%s\"><summary>%s ", p->failed ? " failed" : "",
            !p->answered ? "…"
            : p->failed  ? "✗"
                         : "✓");
    fputs("<b>", out);
    put_string(out, p->name ? p->name : "?");
    fputs("</b> ", out);
    put_string(out, p->brief);
    fputs("</summary>\n", out);
    if (p->input) {
        fputs("<pre>", out);
        put_string(out, p->input);
        fputs("</pre>\n", out);
    }
    if (p->n) {
        fputs("<pre>", out);
        put_escaped(out, p->text, p->n);
        fputs("</pre>\n", out);
    }
    fputs("</details>\n", out);
}

/* Only the usual kinds, and only if it is base64 throughout. */
static void put_image(FILE *out, const struct piece *p)
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

static int put_piece(void *data, const struct piece *p)
{
    FILE *out = data;
    switch (p->kind) {
    case PIECE_PERSON:
        fputs("<section class=\"you\">", out);
        put_escaped(out, p->text, p->n);
        fputs("</section>\n<p><time>", out);
        put_string(out, p->time);
        fputs("</time></p>\n", out);
        break;
    case PIECE_ANSWER:
        fputs("<section class=\"answer\">\n", out);
        put_markdown(out, p->text, p->n);
        fputs("</section>\n", out);
        break;
    case PIECE_THINKING:
        fputs("<details class=\"thinking\"><summary>thinking</summary>\n", out);
        put_markdown(out, p->text, p->n);
        fputs("</details>\n", out);
        break;
    case PIECE_CALL:
        put_call(out, p);
        break;
    case PIECE_IMAGE:
        put_image(out, p);
        break;
    case PIECE_NOTE:
        if (p->n) {
            fputs("<p class=\"note\">", out);
            put_escaped(out, p->text, p->n);
            fputs("</p>\n", out);
        }
        break;
    }
    return ferror(out) ? -EIO : 0;
}

int history_write_html(struct history *h, FILE *out, struct error *err)
{
    _cleanup_free_ char *title = history_title(h);
    struct history_totals t;
    history_totals(h, &t);
    fputs(HEAD, out);
    for (int i = 0; i < 2; i++) {
        fputs(i ? "</head>\n<body>\n<h1>" : "<title>", out);
        put_string(out, title ? title : history_id(h));
        fputs(i ? "</h1>\n" : "</title>\n", out);
    }
    fprintf(out, "<p class=\"meta\">Session %s, %u turn%s", history_id(h), t.turns,
            t.turns == 1 ? "" : "s");
    if (t.model[0]) {
        fputs(", ", out);
        put_string(out, t.model);
    }
    if (t.cost >= 0)
        fprintf(out, ", $%.2f", t.cost);
    if (history_workspace(h)) {
        fputs(", in ", out);
        put_string(out, history_workspace(h));
    }
    fputs("</p>\n<main>\n", out);
    int r = history_pieces(h, false, &(struct piece_sink){put_piece, out}, err);
    fputs("</main>\n</body>\n</html>\n", out);
    return r;
}
