/*
 * The calls of one answer. Calls that follow each other and only read run side by side, any other
 * runs alone; results are given in the order of the calls. Whatever happens, every call gets a
 * result: one that cannot be made is told why and what to do, one that the person interrupted says
 * so.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "clock.h"
#include "banned.h"

#define INTERRUPTED "interrupted by the person"

/* A call that is not made: its result says why. */
static void fail_call(struct call *c, const char *text)
{
    c->made = true;
    c->began = c->ended = clock_now();
    c->result.failed = true;
    text_append(&c->result.text, text, strlen(text));
    call_tell(c);
    call_tell_result(c);
}

static void explain_input(const struct call *c, const char *bad, bool cut, struct buf *text)
{
    if (cut)
        buf_printf(text,
                   "Nothing was done: your answer reached its maximum length in the middle of this "
                   "call of %s. "
                   "Make smaller calls: write a long file in several pieces, for example.",
                   c->said);
    else
        buf_printf(text, "Nothing was done: the input of %s is no JSON object. It begins: %.200s",
                   c->said, bad);
}

/* What is wrong with the call itself; true if it was answered. */
static bool refuse(struct calls *s, struct call *c, const json_t *block, bool cut)
{
    _cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
    struct error err = {0};
    const char *bad = json_string_value(json_object_get(block, "bad_input"));
    if (bad)
        explain_input(c, bad, cut, &text);
    else if (!(c->tool = tool_session_find(s->agent->tools, c->name, &err))) {
        if (err.code == ENOENT)
            explain_unknown(tool_schemas_list(s->agent->schemas), c->said, &text);
        else
            buf_append_str(&text, err.text);
    } else
        return false;
    fail_call(c, buf_cstr(&text) ? (const char *)text.data : "this call cannot be made");
    return true;
}

static bool only_reads(const struct call *c)
{
    return c->tool && (c->tool->flags & TOOL_READS);
}

/* The calls from `first` on that may run side by side; at least one. */
static size_t count_together(const struct calls *s, size_t first)
{
    size_t n = 0;
    while (first + n < s->n && n < CALLS_TOGETHER_MAX && only_reads(&s->all[first + n]))
        n++;
    return n ? n : 1;
}

/* Runs them in order. A state to go back to that cannot be kept ends the turn before anything is
 * changed. */
static int run_all(struct calls *s, const json_t *blocks, bool cut, struct error *err)
{
    for (size_t i = 0; i < s->n; i++)
        refuse(s, &s->all[i], json_array_get(blocks, i), cut);
    for (size_t i = 0, n; i < s->n && !agent_is_interrupted(s->agent); i += n) {
        struct call *c = &s->all[i];
        n = 1;
        if (c->made)
            continue;
        n = count_together(s, i);
        int r = c->tool->flags & (TOOL_CHANGES | TOOL_RUNS) ? turn_guard(s->agent, err) : 0;
        if (r == 0 && c->tool->flags & TOOL_HOST)
            r = history_settle(s->agent->history, err);
        if (r < 0)
            return r;
        if (n == 1)
            call_run(c);
        else
            calls_run_together(s, c, n);
        if (c->tool->flags & (TOOL_CHANGES | TOOL_RUNS))
            workbox_note(s->agent->box,
                         NULL); /* what is not noted is a conflict when it is applied */
    }
    return 0;
}

static void after_call(struct agent *a, struct call *c)
{
    agent_watch_background(a, c->input, &c->result);
    if (agent_is_interrupted(a) && c->result.failed)
        buf_append_str(&c->result.text, "\n[" INTERRUPTED "]");
}

static json_t *results_of(struct calls *s)
{
    json_t *blocks = json_array();
    for (size_t i = 0; i < s->n; i++) {
        struct call *c = &s->all[i];
        if (c->made)
            after_call(s->agent, c);
        const char *unmade =
            s->agent->turn.interrupted ? INTERRUPTED " before it ran" : "this call was not made";
        json_array_append_new(blocks, c->made ? result_block(c->id, &c->result)
                                              : result_block_text(c->id, unmade));
    }
    return blocks;
}

bool has_calls(const json_t *content)
{
    size_t i;
    json_t *block;
    json_array_foreach(content, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        if (type && strcmp(type, "tool_use") == 0)
            return true;
    }
    return false;
}

/* The tool_use blocks of an answer, borrowed. */
static json_t *find_calls(const json_t *content)
{
    size_t i;
    json_t *block, *found = json_array();
    json_array_foreach(content, i, block)
    {
        const char *type = json_string_value(json_object_get(block, "type"));
        if (type && strcmp(type, "tool_use") == 0)
            json_array_append(found, block);
    }
    return found;
}

static void fill(struct calls *s, const json_t *blocks)
{
    for (size_t i = 0; i < s->n; i++) {
        const json_t *block = json_array_get(blocks, i);
        const char *said = json_string_value(json_object_get(block, "name"));
        s->all[i] = (struct call){.calls = s,
                                  .id = json_string_value(json_object_get(block, "id")),
                                  .said = said ? said : "",
                                  .input = json_object_get(block, "input"),
                                  .result = TOOL_RESULT_INIT};
        s->all[i].name = tool_schemas_real(s->agent->schemas, s->all[i].said);
    }
}

int calls_run(struct agent *a, const struct model_reply *reply, json_t **ret_results,
              struct error *err)
{
    json_t *blocks = find_calls(reply->content);
    struct calls s = {.agent = a,
                      .n = json_array_size(blocks),
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .news = PTHREAD_COND_INITIALIZER};
    s.all = calloc(s.n + 1, sizeof *s.all);
    int r = s.all ? 0 : error_set(err, ENOMEM, "no memory");
    if (r == 0) {
        fill(&s, blocks);
        r = run_all(&s, blocks, reply->stop == MODEL_MAX_TOKENS, err);
        *ret_results = results_of(&s);
    }
    for (size_t i = 0; s.all && i < s.n; i++)
        tool_result_free(&s.all[i].result);
    free(s.all);
    json_decref(blocks);
    return r;
}
