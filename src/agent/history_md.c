/* A session as Markdown. The model's words are Markdown already; what tools gave goes into fences
 * that are longer than any in it. */
#include <errno.h>
#include <string.h>

#include "history_export.h"
#include "history_pieces.h"
#include "banned.h"

struct md {
    FILE *out;
    bool answering; /* the heading of the model stands already */
};

/* For the few places where HTML stands in Markdown. */
static void put_escaped(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '`' || *text == '*' ||
            *text == '_' || *text == '[' || *text == ']' || *text == '\\' || *text == '|')
            fprintf(out, "&#%d;", *text);
        else
            fputc(*text, out);
    }
}

static void put_fenced(FILE *out, const char *text, size_t n, const char *language)
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

static void put_call(FILE *out, const struct piece *p)
{
    fprintf(out, "<details><summary>%s ", !p->answered ? "…" : p->failed ? "✗" : "✓");
    put_escaped(out, p->name ? p->name : "?");
    fputs(" ", out);
    put_escaped(out, p->brief ? p->brief : "");
    fputs("</summary>\n\n", out);
    if (p->input)
        put_fenced(out, p->input, strlen(p->input), "json");
    if (p->n)
        put_fenced(out, p->text, p->n, "");
    fputs("</details>\n\n", out);
}

static void put_quoted(FILE *out, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || text[i - 1] == '\n')
            fputs("> ", out);
        fputc(text[i], out);
    }
    fputs("\n\n", out);
}

static void put_heading(struct md *m, const struct piece *p)
{
    bool person = p->kind == PIECE_PERSON,
         answer = p->kind == PIECE_ANSWER || p->kind == PIECE_CALL;
    if (person)
        fprintf(m->out, "## You%s%s\n\n", p->time ? " · " : "", p->time ? p->time : "");
    if (answer && !m->answering) {
        fputs("## ", m->out);
        put_escaped(m->out, p->kind == PIECE_ANSWER && p->name ? p->name : "Agent");
        fputs("\n\n", m->out);
    }
    m->answering = person ? false : m->answering || answer;
}

static int put_piece(void *data, const struct piece *p)
{
    struct md *m = data;
    put_heading(m, p);
    switch (p->kind) {
    case PIECE_PERSON:
    case PIECE_ANSWER:
        fwrite(p->text, 1, p->n, m->out);
        fputs("\n\n", m->out);
        break;
    case PIECE_THINKING:
        fputs("<details><summary>Thinking</summary>\n\n", m->out);
        put_quoted(m->out, p->text, p->n);
        fputs("</details>\n\n", m->out);
        break;
    case PIECE_CALL:
        put_call(m->out, p);
        break;
    case PIECE_IMAGE:
        fputs("*(an image)*\n\n", m->out);
        break;
    case PIECE_NOTE:
        if (p->n)
            put_quoted(m->out, p->text, p->n);
        break;
    }
    return ferror(m->out) ? -EIO : 0;
}

int history_write_md(struct history *h, FILE *out, struct error *err)
{
    struct md m = {.out = out};
    struct history_totals t;
    const char *folder = history_workspace(h);
    _cleanup_free_ char *title = history_title(h);
    history_totals(h, &t);
    fputs("# ", out);
    put_escaped(out, title ? title : history_id(h));
    fprintf(out, "\n\nSession %s, %u turn%s", history_id(h), t.turns, t.turns == 1 ? "" : "s");
    if (folder) {
        fputs(", in ", out);
        put_escaped(out, folder);
    }
    if (t.cost >= 0)
        fprintf(out, ", $%.2f", t.cost);
    fputs("\n\n", out);
    return history_pieces(h, false, &(struct piece_sink){put_piece, &m}, err);
}
