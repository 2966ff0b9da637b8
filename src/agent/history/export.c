/*
 * A session for people: the text of a message, a session's title, its pieces in order; and a
 * session as a document: Markdown, or one HTML file that needs nothing else (no script, no font, no
 * picture from elsewhere). Both documents are a row of functions over the same pieces.
 *
 * All text in a session is untrusted. In HTML, whatever is no Markdown is escaped; Markdown is
 * rendered without raw HTML, and only web addresses stay links. The page forbids itself scripts and
 * requests, too. In Markdown, output of tools goes into fences that are longer than any in it.
 */
#include <errno.h>
#include <md4c-html.h>
#include <string.h>
#include <strings.h>

#include "conversation.h"
#include "history_file.h"
#include "text.h"
#include "banned.h"

#define BRIEF_MAX    160
#define RENDERED_MAX (1u << 20) /* bytes of Markdown; longer text is shown as it is */
#define HTML_MAX     (64u << 20)

/* Each text begins on a line of its own. */
static void text_put(struct buf *b, const json_t *s)
{
    if (!json_is_string(s) || json_string_length(s) == 0)
        return;
    if (b->len > 0 && b->data[b->len - 1] != '\n')
        buf_append(b, "\n", 1);
    buf_append(b, json_string_value(s), json_string_length(s));
}

static void text_put_block(struct buf *b, const json_t *block)
{
    size_t i;
    json_t *part;
    if (block_is(block, "text") || block_is(block, "thinking")) {
        text_put(b, json_object_get(block, "text"));
    } else if (block_is(block, "tool_use")) {
        const json_t *input = json_object_get(block, "input");
        text_put(b, json_object_get(block, "name"));
        if (json_object_size(input) > 0) {
            buf_append(b, " ", 1);
            json_append(b, input, JSON_COMPACT | JSON_ENCODE_ANY);
        }
        text_put(b, json_object_get(block, "bad_input"));
    } else if (block_is(block, "tool_result")) {
        text_put(b, json_object_get(block, "content"));
        json_array_foreach(json_object_get(block, "content"), i, part)
        {
            if (!block_is(part, "tool_result"))
                text_put_block(b, part);
        }
    }
}

int history_text(const json_t *message, struct buf *ret)
{
    size_t i;
    json_t *one;
    const json_t *content = json_object_get(message, "content");
    if (json_object_get(message, "type")) {
        text_put_block(ret, message);
        return ret->failed ? -ENOBUFS : 0;
    }
    text_put(ret, content); /* a person may have written it so */
    json_array_foreach(content, i, one) text_put_block(ret, one);
    text_put(ret,
             json_object_get(message, "text")); /* of hutch's own: summaries, notes, the plan */
    json_array_foreach(json_object_get(message, "items"), i, one)
        text_put(ret, json_object_get(one, "text"));
    return ret->failed ? -ENOBUFS : 0;
}

void text_put_line(struct buf *b, const char *text, size_t n, size_t max)
{
    bool blank = false;
    for (size_t i = 0; i < n;) {
        size_t size = utf8_character((const uint8_t *)text + i, n - i);
        bool space =
            size == 0 || text[i] == ' ' || utf8_is_control((const uint8_t *)text + i, size);
        if (!space && b->len + size + 2 > max) {
            buf_append_str(b, "…");
            return;
        }
        if (!space && blank && b->len)
            buf_append(b, " ", 1);
        if (!space)
            buf_append(b, text + i, size);
        blank = space;
        i += size ? size : 1;
    }
}

char *history_title_of(const json_t *message)
{
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
    _cleanup_buf_ struct buf title = BUF_INIT(HISTORY_TITLE_MAX + 16);
    history_text(message, &text);
    text_put_line(&title, (const char *)text.data, text.len, HISTORY_TITLE_MAX);
    return title.len ? strndup((const char *)title.data, title.len) : NULL;
}

/* One pass over a session. */
struct walk {
    struct history *h;
    const struct piece_sink *sink;
    json_t *results; /* the message that answers the calls of the last answer; or NULL */
    size_t results_at;
};

static int walk_emit(struct walk *w, size_t i, struct piece p)
{
    const struct history_entry *e = history_entry(w->h, i);
    p.message = i;
    p.turn = e->turn;
    p.counts = e->counts;
    p.undone = e->undone;
    return w->sink->piece(w->sink->data, &p);
}

static int walk_emit_text(struct walk *w, size_t i, enum piece_kind kind, const char *time,
                          const char *name, const json_t *text)
{
    struct piece p = {.kind = kind, .time = time, .name = name, .text = json_string_value(text)};
    p.n = json_string_length(text);
    return p.n ? walk_emit(w, i, p) : 0;
}

static int walk_images(struct walk *w, size_t i, const json_t *content)
{
    size_t k;
    json_t *block;
    int r = 0;
    json_array_foreach(content, k, block)
    {
        if (r == 0 && block_is(block, "image"))
            r = walk_emit_text(w, i, PIECE_IMAGE, NULL, json_get_string(block, "mime"),
                               json_object_get(block, "data"));
    }
    return r;
}

/* A call and its result, either of which may be missing. */
static int walk_call(struct walk *w, size_t i, const char *time, const json_t *call,
                     const json_t *result)
{
    static const char *const telling[] = {"command", "path", "query", "pattern", "url", "text"};
    const json_t *input = json_object_get(call, "input");
    const char *bad = json_get_string(call, "bad_input"), *about = NULL;
    _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX), brief = BUF_INIT(BRIEF_MAX + 16);
    _cleanup_free_ char *dump = input ? json_dumps(input, JSON_INDENT(2) | JSON_ENCODE_ANY) : NULL;
    for (size_t k = 0; !about && k < ARRAY_SIZE(telling); k++)
        about = json_get_string(input, telling[k]);
    if (!about && json_object_size(input) > 0)
        about = dump;
    text_put_line(&brief, about ? about : "", about ? strlen(about) : 0, BRIEF_MAX);
    if (result)
        history_text(result, &text);
    if (!buf_cstr(&text))
        return -ENOMEM;
    struct piece p = {.kind = PIECE_CALL,
                      .time = time,
                      .name = json_get_string(call ? call : result, call ? "name" : "tool_use_id"),
                      .brief = buf_cstr(&brief),
                      .input = bad ? bad : dump,
                      .answered = result,
                      .failed = json_get_bool(result, "is_error"),
                      .text = (char *)text.data,
                      .n = text.len};
    int r = walk_emit(w, i, p);
    return r == 0 ? walk_images(w, i, json_object_get(result, "content")) : r;
}

static int walk_answer(struct walk *w, size_t i, const json_t *message)
{
    size_t k, n;
    json_t *block, *one;
    const char *time = json_get_string(message, "time"), *model = json_get_string(message, "model");
    /* The message behind it that has the results of its calls. */
    json_decref(w->results);
    w->results = NULL;
    for (k = i + 1; k < history_count(w->h) && history_entry(w->h, k)->role == HISTORY_HUTCH; k++)
        ;
    const struct history_entry *next = history_entry(w->h, k);
    if (next && next->role == HISTORY_USER && !next->begins_turn &&
        history_read(w->h, k, &w->results, NULL) == 0)
        w->results_at = k;
    json_array_foreach(json_object_get(message, "content"), k, block)
    {
        const json_t *text = json_object_get(block, "text"), *result = NULL;
        int r = 0;
        if (block_is(block, "text")) {
            r = walk_emit_text(w, i, PIECE_ANSWER, time, model, text);
        } else if (block_is(block, "thinking")) {
            r = walk_emit_text(w, i, PIECE_THINKING, time, model, text);
        } else if (block_is(block, "tool_use")) {
            const char *id = json_get_string_or(block, "id", "");
            json_array_foreach(json_object_get(w->results, "content"), n, one)
            {
                const char *its = json_get_string(one, "tool_use_id");
                if (!result && block_is(one, "tool_result") && its && strcmp(its, id) == 0)
                    result = one;
            }
            r = walk_call(w, i, time, block, result);
        }
        if (r < 0)
            return r;
    }
    return 0;
}

static int walk_user(struct walk *w, size_t i, const json_t *message)
{
    size_t k;
    json_t *block;
    const char *time = json_get_string(message, "time");
    const json_t *content = json_object_get(message, "content");
    bool answers = w->results && w->results_at == i; /* walk_answer had them */
    int r = json_is_string(content) ? walk_emit_text(w, i, PIECE_PERSON, time, NULL, content) : 0;
    json_array_foreach(content, k, block)
    {
        if (r == 0 && block_is(block, "text"))
            r = walk_emit_text(w, i, PIECE_PERSON, time, NULL, json_object_get(block, "text"));
        else if (r == 0 && block_is(block, "tool_result") && !answers)
            r = walk_call(w, i, time, NULL, block);
    }
    return r == 0 ? walk_images(w, i, content) : r;
}

int history_pieces(struct history *h, bool full, const struct piece_sink *sink, struct error *err)
{
    struct walk w = {.h = h, .sink = sink};
    int r = 0;
    for (size_t i = 0; r == 0 && i < history_count(h); i++) {
        const struct history_entry *e = history_entry(h, i);
        _cleanup_json_ json_t *message = NULL;
        if (!full && !e->counts)
            continue;
        r = history_read(h, i, &message, err);
        if (r < 0)
            break;
        if (e->role == HISTORY_ASSISTANT) {
            r = walk_answer(&w, i, message);
        } else if (e->role == HISTORY_USER) {
            r = walk_user(&w, i, message);
        } else {
            _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
            history_text(message, &text);
            struct piece p = {.kind = PIECE_NOTE,
                              .time = json_get_string(message, "time"),
                              .name = json_get_string(message, "kind"),
                              .text = buf_cstr(&text),
                              .n = text.len};
            r = p.text ? walk_emit(&w, i, p) : -ENOMEM;
        }
        if (r < 0)
            error_errno(err, -r, "message %zu of %s", i, history_id(h));
    }
    json_decref(w.results);
    return r;
}

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
