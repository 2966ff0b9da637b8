/* `hutch history show`: a session on the terminal, or as JSON. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "harmless.h"
#include "command_options.h"
#include "say.h"
#include "history_export.h"
#include "banned.h"

#define LINES_SHOWN 8
#define TEXT_MAX    (HARMLESS_GROWTH * HISTORY_MESSAGE_MAX)

struct show {
    bool full, colours;
    unsigned turn;
};

static const char *colour(const struct show *s, const char *code)
{
    return s->colours ? code : "";
}

/* Text of a stranger, with something in front of each line; at most so many lines (0: all). */
static int put_lines(const char *text, size_t n, const char *front, size_t max)
{
    _cleanup_buf_ struct buf clean = BUF_INIT(TEXT_MAX);
    struct harmless h = {0};
    if (harmless_append(&h, text, n, &clean) < 0)
        return -ENOMEM;
    const char *at = (char *)clean.data, *end = at + clean.len;
    size_t lines = 0;
    for (; at < end && (max == 0 || lines < max); lines++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((line_end ? line_end : end) - at);
        printf("%s%.*s\n", front, (int)length, at);
        at += length + 1;
    }
    size_t more = 0;
    for (; at < end; more++) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        at = line_end ? line_end + 1 : end;
    }
    if (more)
        printf("%s… %zu more line%s (--full)\n", front, more, more == 1 ? "" : "s");
    return 0;
}

static int show_call(const struct show *s, const struct piece *p)
{
    char name[256], brief[1024];
    printf("%s▸ %s%s  %s  %s\n", colour(s, "\033[36m"),
           say_clean(p->name ? p->name : "?", name, sizeof name), colour(s, "\033[0m"),
           say_clean(p->brief ? p->brief : "", brief, sizeof brief),
           !p->answered ? "(no result)"
           : p->failed  ? "✗"
                        : "✓");
    if (s->full && p->input)
        put_lines(p->input, strlen(p->input), "    ", 0);
    return put_lines(p->text, p->n, "    ", s->full ? 0 : LINES_SHOWN);
}

static int show_note(const struct show *s, const struct piece *p)
{
    char name[64];
    bool wanted = p->name && (strcmp(p->name, "note") == 0 || strcmp(p->name, "summary") == 0);
    if (!s->full && !wanted)
        return 0;
    printf("%s· %s%s\n", colour(s, "\033[2m"), say_clean(p->name ? p->name : "", name, sizeof name),
           colour(s, "\033[0m"));
    return put_lines(p->text, p->n, "    ", s->full ? 0 : LINES_SHOWN);
}

static int show_piece(void *data, const struct piece *p)
{
    struct show *s = data;
    if (!p->counts)
        printf("%s(%s)%s ", colour(s, "\033[2m"), p->undone ? "undone" : "cleared",
               colour(s, "\033[0m"));
    switch (p->kind) {
    case PIECE_PERSON:
        printf("\n%s", colour(s, "\033[1m"));
        put_lines(p->text, p->n, "> ", 0);
        printf("%s\n", colour(s, "\033[0m"));
        return 0;
    case PIECE_ANSWER:
        put_lines(p->text, p->n, "", 0);
        printf("\n");
        return 0;
    case PIECE_THINKING:
        return s->full ? put_lines(p->text, p->n, "  ~ ", 0) : 0;
    case PIECE_CALL:
        return show_call(s, p);
    case PIECE_IMAGE:
        printf("    [image, %zu bytes of base64]\n", p->n);
        return 0;
    case PIECE_NOTE:
        return show_note(s, p);
    }
    return 0;
}

static void show_head(struct history *h, const struct show *s)
{
    char workspace[4096];
    struct history_totals t;
    history_totals(h, &t);
    const char *folder = history_workspace(h);
    printf("%s%s%s  %u turn%s, %zu messages%s%s", colour(s, "\033[1m"), history_id(h),
           colour(s, "\033[0m"), t.turns, t.turns == 1 ? "" : "s", t.messages,
           t.model[0] ? ", " : "", t.model);
    if (t.cost >= 0)
        printf(", $%.2f", t.cost);
    if (folder)
        printf(", %s", say_clean(folder, workspace, sizeof workspace));
    printf("\n");
}

/* One message after the other: a session may be larger than memory should be. */
static int show_json(struct history *h, struct error *err)
{
    json_t *head = json_deep_copy(history_head(h));
    json_object_set_new(head, "session", json_string(history_id(h)));
    _cleanup_free_ char *text = json_dumps(head, JSON_COMPACT);
    json_decref(head);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    printf("%.*s,\"messages\":[", (int)strlen(text) - 1, text);
    for (size_t i = 0; i < history_count(h); i++) {
        json_t *message = NULL;
        int r = history_read(h, i, &message, err);
        if (r < 0)
            return r;
        json_object_set_new(message, "message", json_integer((json_int_t)i));
        json_object_set_new(message, "counts", json_boolean(history_entry(h, i)->counts));
        printf("%s", i ? ",\n" : "\n");
        json_dumpf(message, stdout, JSON_COMPACT);
        json_decref(message);
    }
    printf("\n]}\n");
    return 0;
}

static int show(struct history *h, const struct history_show_options *o, struct error *err)
{
    struct show s = {.full = o->full, .colours = say_colours(STDOUT_FILENO)};
    struct piece_sink sink = {show_piece, &s};
    if (o->json)
        return show_json(h, err);
    show_head(h, &s);
    return history_pieces(h, o->full, &sink, err);
}

int command_history_show(const struct command *self, int argc, char **argv)
{
    struct history_show_options o = {0};
    struct error err = {0};
    struct history *h = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    int r = history_open(argv[0], true, &h, NULL, &err);
    if (r == 0 && history_trouble(h))
        say("%s", history_trouble(h));
    if (r == 0)
        r = show(h, &o, &err);
    history_close(h);
    return r < 0 ? say_failure(&err) : 0;
}
