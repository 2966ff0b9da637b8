#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask_show.h"
#include "io.h"
#include "say.h"
#include "utf8.h"
#include "banned.h"

#define PIECE_MAX (4u << 20)
#define ABOUT_MAX 60
#define FILES_MAX 20

void ask_show_init(struct ask_show *s, bool json)
{
    *s = (struct ask_show){.json = json, .terminal = isatty(STDOUT_FILENO)};
}

void ask_show_free(struct ask_show *s)
{
    agent_changes_free(&s->changes);
    json_decref(s->attempts);
}

static void put_words(struct ask_show *s, const char *text, size_t n)
{
    _cleanup_buf_ struct buf out = BUF_INIT(PIECE_MAX);
    if (n == 0)
        return;
    s->middle = text[n - 1] != '\n';
    if (s->terminal && harmless_append(&s->pieces, text, n, &out) == 0)
        io_write_all(STDOUT_FILENO, out.data, out.len);
    else if (!s->terminal)
        io_write_all(STDOUT_FILENO, text, n);
}

static void end_line(struct ask_show *s)
{
    if (s->middle)
        put_words(s, "\n", 1);
}

/* The members that say best what a call is about. */
static const char *about(const json_t *input)
{
    static const char *const telling[] = {"command", "path", "pattern", "query", "url", "handle"};
    const char *name;
    json_t *value;
    for (size_t i = 0; i < ARRAY_SIZE(telling); i++) {
        const char *text = json_string_value(json_object_get(input, telling[i]));
        if (text)
            return text;
    }
    json_object_foreach((json_t *)input, name,
                        value) if (json_is_string(value)) return json_string_value(value);
    return "";
}

/* One line of it, cut to what fits. */
static void one_line(const char *text, size_t most, char *out, size_t size)
{
    size_t n = strcspn(text, "\r\n"), columns = 0, at = 0;
    while (at < n && columns < most) {
        size_t step = utf8_character((const uint8_t *)text + at, n - at);
        at += step ? step : 1;
        columns++;
    }
    char line[1024];
    bool cut = text[at] != 0 && (at < n || text[n + strspn(text + n, "\r\n")]);
    snprintf(line, sizeof line, "%.*s%s", (int)at, text, cut ? "…" : "");
    say_clean(line, out, size);
}

static void show_result(struct ask_show *s, unsigned attempt, const struct agent_event *e)
{
    char what[512], why[512] = "", number[16] = "", name[128];
    end_line(s);
    one_line(about(e->input), ABOUT_MAX, what, sizeof what);
    if (e->result->failed && e->result->text.len) {
        _cleanup_free_ char *text = strndup((const char *)e->result->text.data, e->result->text.len);
        one_line(text ? text : "", 2 * ABOUT_MAX, why, sizeof why);
    }
    if (attempt != ATTEMPT_NONE)
        snprintf(number, sizeof number, "[%u] ", attempt + 1);
    dprintf(STDERR_FILENO, "%s▸ %s  %s   %.1fs %s%s%s\n", number, say_clean(e->name, name, sizeof name), what,
            e->seconds, e->result->failed ? "✗" : "✓", why[0] ? " " : "", why);
}

static void show_text_event(struct ask_show *s, unsigned attempt, const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_TEXT:
        if (attempt == ATTEMPT_NONE)
            put_words(s, e->text, e->n);
        break;
    case AGENT_BACK:
        end_line(s);
        say("the answer broke off, and goes on differently from here");
        break;
    case AGENT_SAID:
        end_line(s);
        break;
    case AGENT_RESULT:
        show_result(s, attempt, e);
        break;
    case AGENT_WAIT:
        end_line(s);
        say("%.*s; asking again in %.1f s (attempt %d)", (int)e->n, e->text, e->wait_ms / 1000.0, e->attempt);
        break;
    default:
        break;
    }
}

static int copy_changes(const struct agent_changes *from, struct agent_changes *to)
{
    agent_changes_free(to);
    to->items = calloc(from->count + 1, sizeof *to->items);
    if (!to->items)
        return -1;
    for (size_t i = 0; i < from->count; i++) {
        to->items[i] = from->items[i];
        to->items[i].path = strdup(from->items[i].path);
        if (!to->items[i].path)
            return -1;
        to->count++;
    }
    to->added = from->added;
    to->deleted = from->deleted;
    return 0;
}

static void take(struct ask_show *s, unsigned attempt, const struct agent_event *e)
{
    if (e->kind == AGENT_NOTE) {
        end_line(s);
        say("%.*s", (int)e->n, e->text);
    } else if (e->kind == AGENT_CHANGES && attempt == ATTEMPT_NONE) {
        copy_changes(e->changes, &s->changes);
    } else if (e->kind == AGENT_DONE && attempt == ATTEMPT_NONE) {
        s->done = true;
        s->stop = e->stop;
        snprintf(s->why, sizeof s->why, "%s", e->why ? e->why : "");
    }
    if (s->json)
        ask_json_print(ask_json_event(e), attempt);
    else
        show_text_event(s, attempt, e);
}

void ask_show_event(void *data, const struct agent_event *e)
{
    take(data, ATTEMPT_NONE, e);
}

void ask_show_attempt(void *data, unsigned attempt, const struct agent_event *e)
{
    take(data, attempt, e);
}

void ask_show_session(struct ask_show *s, struct agent *a, bool resumed)
{
    struct agent_state state;
    agent_state(a, &state);
    if (s->json)
        ask_json_print(json_pack("{s:s, s:s, s:s, s:s*, s:b}", "type", "session", "session", state.session,
                                 "model", state.model, "workspace", state.workspace, "resumed", resumed),
                       ATTEMPT_NONE);
}

void ask_show_changes(struct ask_show *s)
{
    const struct agent_changes *c = &s->changes;
    char path[512];
    for (size_t i = 0; i < c->count && i < FILES_MAX; i++) {
        const struct agent_change *one = &c->items[i];
        say_clean(one->path, path, sizeof path);
        if (one->binary)
            dprintf(STDERR_FILENO, "  %-8s %s (binary)\n", one->kind, path);
        else
            dprintf(STDERR_FILENO, "  %-8s %s +%" PRIu64 " -%" PRIu64 "\n", one->kind, path, one->added,
                    one->deleted);
    }
    if (c->count > FILES_MAX)
        dprintf(STDERR_FILENO, "  and %zu more\n", c->count - FILES_MAX);
    if (c->count)
        say("%zu file%s changed, +%" PRIu64 " -%" PRIu64, c->count, c->count == 1 ? "" : "s", c->added,
            c->deleted);
}

/* What a person reads may have several lines (how to give a key). */
void ask_show_error(struct ask_show *s, const struct error *err)
{
    end_line(s);
    if (s->json)
        ask_json_print(json_pack("{s:s, s:s, s:b}", "type", "error", "text", err->text, "retrying", 0),
                       ATTEMPT_NONE);
    say_lines(err->text);
}

static json_t *end_event(const struct ask_show *s, const struct ask_end *e, const struct agent_state *state,
                         const char *box)
{
    json_t *cost = state->money.known ? json_real(state->money.cost) : json_null();
    json_t *attempts = s->attempts ? json_incref(s->attempts) : NULL;
    return json_pack("{s:s, s:s, s:s*, s:s*, s:s*, s:b, s:i, s:o, s:i, s:o*}", "type", "done", "session",
                     state->session, "stop", s->done ? model_stop_name(s->stop) : NULL, "why",
                     s->why[0] ? s->why : NULL, "box", box, "applied", e->applied, "conflicts", e->conflicts,
                     "cost", cost, "status", e->status, "attempts", attempts);
}

void ask_show_end(struct ask_show *s, const struct ask_end *e)
{
    struct agent_state state;
    const char *box = s->changes.count && !e->applied ? agent_box(e->agent) : NULL;
    agent_state(e->agent, &state);
    if (s->json)
        ask_json_print(end_event(s, e, &state, box), ATTEMPT_NONE);
    if (s->why[0])
        say("%s; 'hutch --resume %s' goes on from here", s->why, state.session);
    if (box && !s->json)
        say("nothing is applied yet: 'hutch box diff %s' shows the changes, 'hutch box apply %s' applies "
            "them, "
            "'hutch --resume %s' goes on",
            box, box, state.session);
}
