/*
 * The tool calls of one answer. Calls that follow each other and only read run in parallel, any
 * other runs alone; results are in the order of the calls. Every call gets a result: one that
 * cannot be made says why and what to do, one that the person interrupted says so.
 *
 * Events are emitted by the thread of the turn only: parallel calls leave their news in struct
 * call, under the lock, and that thread passes it on.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent_session.h"
#include "encoding.h"
#include "prompt.h"
#include "text.h"
#include "thread.h"
#include "banned.h"

#define PARALLEL_MAX 16
#define PROGRESS_MAX 256
#define INTERRUPTED  "interrupted by the person"

struct call {
    struct calls *calls;
    const char *id;
    const char *given, *name; /* the tool, as the model wrote it, and as the table has it */
    json_t *input;
    const struct tool *tool;    /* NULL: it cannot be called */
    struct tool_turn *position; /* in the order of calls */
    struct tool_request request;
    struct tool_progress progress;
    struct tool_result result;
    int64_t began, ended;
    bool made; /* there is a result */
    /* News from the thread of a parallel call, under the lock: */
    bool has_progress, finished, reported;
    double seconds;
    char text[PROGRESS_MAX];
};

struct calls {
    struct agent *agent;
    struct call *all;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t news;
};

/* A result as a block of the history. Of a text that is too long both ends, whole characters;
 * providers refuse an empty one. */
json_t *result_block(const char *id, const struct tool_result *r)
{
    json_t *content = json_array();
    bool image = r->mime && r->image.len;
    if (r->text.len > RESULT_BLOCK_TEXT) {
        _cleanup_buf_ struct buf b = BUF_INIT(RESULT_BLOCK_TEXT + 256);
        size_t head = RESULT_BLOCK_TEXT / 3 * 2, tail = r->text.len - RESULT_BLOCK_TEXT / 3;
        head -= utf8_cut_end(r->text.data, head);
        tail += utf8_cut_start(r->text.data + tail, r->text.len - tail);
        buf_append(&b, r->text.data, head);
        buf_printf(&b, "\n[%zu bytes left out here; ask for less at a time to see them]\n",
                   tail - head);
        buf_append(&b, r->text.data + tail, r->text.len - tail);
        json_array_append_new(content,
                              json_pack("{s:s, s:s%}", "type", "text", "text", b.data, b.len));
    } else if (r->text.len > 0) {
        json_array_append_new(
            content, json_pack("{s:s, s:s%}", "type", "text", "text", r->text.data, r->text.len));
    } else if (!image) {
        json_array_append_new(content, text_block("(no output)"));
    }
    if (image && r->image.len > RESULT_BLOCK_IMAGE) {
        json_array_append_new(content,
                              text_block("[the image is too large to be shown; make it smaller]"));
    } else if (image) {
        _cleanup_buf_ struct buf b = BUF_INIT(RESULT_BLOCK_IMAGE / 3 * 4 + 16);
        if (base64_append(&b, r->image.data, r->image.len) == 0)
            json_array_append_new(content, json_pack("{s:s, s:s, s:s%}", "type", "image", "mime",
                                                     r->mime, "data", b.data, b.len));
    }
    return json_pack("{s:s, s:s, s:o, s:b}", "type", "tool_result", "tool_use_id", id, "content",
                     content, "is_error", r->failed);
}

static void call_emit_started(const struct call *c)
{
    agent_emit(
        c->calls->agent,
        &(struct agent_event){.kind = AGENT_CALL, .id = c->id, .name = c->name, .input = c->input});
}

/* From the thread of the turn. */
static void call_emit_progress(void *data, double seconds, const char *text)
{
    const struct call *c = data;
    agent_emit(c->calls->agent, &(struct agent_event){.kind = AGENT_PROGRESS,
                                                      .id = c->id,
                                                      .name = c->name,
                                                      .seconds = seconds,
                                                      .text = text,
                                                      .n = strlen(text)});
}

static void call_emit_finished(const struct call *c)
{
    agent_emit(c->calls->agent,
               &(struct agent_event){.kind = AGENT_RESULT,
                                     .id = c->id,
                                     .name = c->name,
                                     .input = c->input,
                                     .result = &c->result,
                                     .seconds = (double)(c->ended - c->began) / NS_PER_S});
}

void explain_unknown_tool(const json_t *tools, const char *given, struct buf *text)
{
    struct nearest near = nearest_to(given, strlen(given));
    size_t i;
    json_t *tool;
    json_array_foreach(tools, i, tool) nearest_offer(&near, json_get_string(tool, "name"));
    buf_printf(text, "there is no tool '%.100s'", given);
    if (near.best)
        buf_printf(text, "; did you mean '%s'?", near.best);
    buf_append_str(text, " The tools are:");
    json_array_foreach(tools, i, tool)
        buf_printf(text, "%s %s", i ? "," : "", json_get_string(tool, "name"));
}

/* Finds the tool, or makes a failed result that says what is wrong with the call itself. `cut`: the
 * answer ended at its maximum length. */
static void call_resolve(struct call *c, const json_t *block, bool cut)
{
    _cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
    struct error err = {0};
    struct agent *a = c->calls->agent;
    const char *bad = json_get_string(block, "bad_input");
    if (bad && cut)
        buf_printf(&text,
                   "Nothing was done: your answer reached its maximum length in the middle of this "
                   "call of %s. Make smaller calls: write a long file in several pieces, for "
                   "example.",
                   c->given);
    else if (bad)
        buf_printf(&text,
                   "Nothing was done: the input of %s is not a JSON object. It begins: %.200s",
                   c->given, bad);
    else if ((c->tool = tool_session_find(a->tools, c->name, &err)))
        return;
    else if (err.code == ENOENT)
        explain_unknown_tool(tool_schemas_list(a->schemas), c->given, &text);
    else
        buf_append_str(&text, err.text);
    c->made = true;
    c->began = c->ended = clock_now();
    c->result.failed = true;
    text_append(&c->result.text, text.data, text.len);
    call_emit_started(c);
    call_emit_finished(c);
}

/* From the thread of a parallel call. Only the latest progress counts. */
static void call_on_parallel_progress(void *data, double seconds, const char *message)
{
    struct call *c = data;
    LOCKED(&c->calls->lock);
    c->has_progress = true;
    c->seconds = seconds;
    snprintf(c->text, sizeof c->text, "%s", message);
    pthread_cond_signal(&c->calls->news);
}

static void call_start(struct call *c, bool parallel)
{
    c->progress = (struct tool_progress){
        .say = parallel ? call_on_parallel_progress : call_emit_progress, .data = c};
    c->request = (struct tool_request){.name = c->name,
                                       .tool = c->tool,
                                       .input = c->input,
                                       .cancel = c->calls->agent->cancel,
                                       .progress = &c->progress};
    c->began = clock_now();
    c->made = true;
    call_emit_started(c);
}

/* A call that has no position in the order of calls is made as any other. */
static void *call_thread(void *data)
{
    struct call *c = data;
    if (c->position)
        tool_finish(c->position, &c->result);
    else
        tool_call(c->calls->agent->tools, &c->request, &c->result);
    LOCKED(&c->calls->lock);
    c->ended = clock_now();
    c->finished = true;
    pthread_cond_signal(&c->calls->news);
    return NULL;
}

/* A call that gets no thread runs in this one. Then passes on the news of the threads until all
 * have ended; the sink is never called under the lock. */
static void calls_run_parallel(struct calls *s, struct call *first, size_t n)
{
    pthread_t threads[PARALLEL_MAX];
    bool started[PARALLEL_MAX] = {0};
    size_t open = n;
    for (size_t i = 0; i < n; i++) {
        call_start(&first[i], true);
        if (tool_begin(s->agent->tools, &first[i].request, &first[i].position) < 0)
            first[i].position = NULL;
    }
    for (size_t i = 0; i < n; i++)
        started[i] =
            first[i].position && pthread_create(&threads[i], NULL, call_thread, &first[i]) == 0;
    for (size_t i = 0; i < n; i++)
        if (!started[i])
            call_thread(&first[i]);

    pthread_mutex_lock(&s->lock);
    while (open > 0) {
        struct call *c = first;
        while (c < first + n && !c->has_progress && (!c->finished || c->reported))
            c++;
        if (c == first + n) {
            pthread_cond_wait(&s->news, &s->lock);
            continue;
        }
        struct call seen = *c;
        c->has_progress = false;
        c->reported = c->finished;
        open -= c->finished;
        pthread_mutex_unlock(&s->lock);
        if (seen.finished)
            call_emit_finished(&seen);
        else
            call_emit_progress(&seen, seen.seconds, seen.text);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
    for (size_t i = 0; i < n; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}

/* Runs them in order. If the state before a change cannot be kept, the turn ends before anything
 * changes. */
static int calls_run_all(struct calls *s, struct error *err)
{
    struct agent *a = s->agent;
    for (size_t i = 0, n; i < s->n && !agent_is_interrupted(a); i += n) {
        struct call *c = &s->all[i];
        n = 1;
        if (c->made)
            continue;
        bool changes = c->tool->flags & (TOOL_CHANGES | TOOL_RUNS);
        int r = changes ? turn_snapshot(a, err) : 0;
        if (r == 0 && c->tool->flags & TOOL_HOST)
            r = history_sync(a->history, err);
        if (r < 0)
            return r;
        for (n = 0; i + n < s->n && n < PARALLEL_MAX && c[n].tool; n++)
            if (!(c[n].tool->flags & TOOL_READS))
                break;
        if (n > 1) {
            calls_run_parallel(s, c, n);
        } else {
            n = 1;
            call_start(c, false);
            tool_call(a->tools, &c->request, &c->result);
            c->ended = clock_now();
            call_emit_finished(c);
        }
        /* What is not noted is a conflict when it is applied; box_exec noted what code changed. */
        if ((c->tool->flags & TOOL_CHANGES) && a->box->mode == BOX_COW)
            box_note_seen(a->box->box, NULL);
    }
    return 0;
}

int calls_run(struct agent *a, const struct model_reply *reply, json_t **ret_results,
              struct error *err)
{
    size_t i;
    json_t *block;
    struct calls s = {
        .agent = a, .lock = PTHREAD_MUTEX_INITIALIZER, .news = PTHREAD_COND_INITIALIZER};
    s.all = calloc(json_array_size(reply->content) + 1, sizeof *s.all);
    if (!s.all)
        return error_set(err, ENOMEM, "out of memory");
    json_array_foreach(reply->content, i, block)
    {
        if (!block_is(block, "tool_use"))
            continue;
        struct call *c = &s.all[s.n++];
        *c = (struct call){.calls = &s,
                           .id = json_get_string(block, "id"),
                           .given = json_get_string_or(block, "name", ""),
                           .input = json_object_get(block, "input"),
                           .result = TOOL_RESULT_INIT};
        c->name = tool_schemas_real(a->schemas, c->given);
        call_resolve(c, block, reply->stop == MODEL_MAX_TOKENS);
    }
    int r = calls_run_all(&s, err);
    json_t *results = s.n > 0 ? json_array() : NULL;
    for (struct call *c = s.all; c < s.all + s.n; c++) {
        const char *command = json_get_string(c->input, "command");
        json_int_t handle = json_get_integer(c->result.data, "handle");
        if (!c->made) {
            c->result.failed = true;
            buf_append_str(&c->result.text, a->turn.interrupted ? INTERRUPTED " before it ran"
                                                                : "this call was not made");
        } else if (c->result.failed && agent_is_interrupted(a)) {
            buf_append_str(&c->result.text, "\n[" INTERRUPTED "]");
        } else if (c->result.lingers && !c->result.failed && handle > 0 && command) {
            agent_add_background(a, (uint64_t)handle, command);
            agent_append(a,
                         message_of_hutch("background", "{s:s, s:I, s:s}", "box",
                                          workbox_id(a->box), "handle", handle, "command", command),
                         NULL);
        }
        json_array_append_new(results, result_block(c->id, &c->result));
        tool_result_free(&c->result);
    }
    *ret_results = results;
    free(s.all);
    return r;
}
