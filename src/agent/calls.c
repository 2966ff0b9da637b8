/*
 * The calls of one answer. Calls that follow each other and only read run side by side, any other runs alone;
 * results are given in the order of the calls. Whatever happens, every call gets a result: one that cannot be
 * made is told why and what to do, one that the person interrupted says so.
 *
 * Whoever watches is told from this thread only: calls that run in threads leave word in a list, which this
 * one reads.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "agent_private.h"
#include "clock.h"
#include "banned.h"

#define TOGETHER_MAX 16
#define WORD_MAX     256
#define INTERRUPTED  "interrupted by the person"

struct calls;

struct call {
    struct calls *calls;
    const char *id, *said, *name;
    json_t *input;
    const struct tool *tool; /* NULL: it cannot be called */
    struct tool_turn *place; /* in the order of calls */
    struct tool_request request;
    struct tool_progress progress;
    struct tool_result result;
    int64_t began, ended;
    bool made; /* there is a result */
    /* Left for the thread that tells, under the lock: */
    bool has_word, finished, told;
    double seconds;
    char word[WORD_MAX];
};

struct calls {
    struct agent *agent;
    struct call *all;
    size_t n;
    pthread_mutex_t lock;
    pthread_cond_t news;
};

static void tell_call(const struct call *c)
{
    agent_tell(c->calls->agent,
               &(struct agent_event){.kind = AGENT_CALL, .id = c->id, .name = c->name, .input = c->input});
}

static void tell_progress(const struct call *c, double seconds, const char *word)
{
    agent_tell(c->calls->agent, &(struct agent_event){.kind = AGENT_PROGRESS,
                                                      .id = c->id,
                                                      .name = c->name,
                                                      .seconds = seconds,
                                                      .text = word,
                                                      .n = strlen(word)});
}

static void tell_result(const struct call *c)
{
    agent_tell(c->calls->agent, &(struct agent_event){.kind = AGENT_RESULT,
                                                      .id = c->id,
                                                      .name = c->name,
                                                      .input = c->input,
                                                      .result = &c->result,
                                                      .seconds = (double)(c->ended - c->began) / NS_PER_S});
}

/* From the thread of a call that runs alone: it is the one that tells. */
static void progress_alone(void *data, double seconds, const char *message)
{
    tell_progress(data, seconds, message);
}

/* From the thread of a call among others. Only the latest word counts. */
static void progress_together(void *data, double seconds, const char *message)
{
    struct call *c = data;
    pthread_mutex_lock(&c->calls->lock);
    c->has_word = true;
    c->seconds = seconds;
    snprintf(c->word, sizeof c->word, "%s", message);
    pthread_cond_signal(&c->calls->news);
    pthread_mutex_unlock(&c->calls->lock);
}

static void prepare(struct call *c, bool together)
{
    c->progress = (struct tool_progress){.say = together ? progress_together : progress_alone, .data = c};
    c->request = (struct tool_request){.name = c->name,
                                       .tool = c->tool,
                                       .input = c->input,
                                       .cancel = c->calls->agent->cancel,
                                       .progress = &c->progress};
    c->began = clock_now();
    c->made = true;
}

static void run_alone(struct call *c)
{
    prepare(c, false);
    tell_call(c);
    tool_call(c->calls->agent->tools, &c->request, &c->result);
    c->ended = clock_now();
    tell_result(c);
}

static void *run_thread(void *data)
{
    struct call *c = data;
    tool_finish(c->place, &c->result);
    pthread_mutex_lock(&c->calls->lock);
    c->ended = clock_now();
    c->finished = true;
    pthread_cond_signal(&c->calls->news);
    pthread_mutex_unlock(&c->calls->lock);
    return NULL;
}

/* Passes on what the threads left, until all have ended. The sink is never called under the lock. */
static void listen_to(struct calls *s, struct call *first, size_t n)
{
    size_t open = n;
    pthread_mutex_lock(&s->lock);
    while (open > 0) {
        struct call *c = first;
        while (c < first + n && !c->has_word && (!c->finished || c->told))
            c++;
        if (c == first + n) {
            pthread_cond_wait(&s->news, &s->lock);
            continue;
        }
        struct call seen = *c;
        c->has_word = false;
        c->told = c->finished;
        open -= c->finished;
        pthread_mutex_unlock(&s->lock);
        if (seen.finished)
            tell_result(&seen);
        else
            tell_progress(&seen, seen.seconds, seen.word);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static void run_together(struct calls *s, struct call *first, size_t n)
{
    pthread_t threads[TOGETHER_MAX];
    bool started[TOGETHER_MAX] = {0};
    for (size_t i = 0; i < n; i++) {
        prepare(&first[i], true);
        tell_call(&first[i]);
        if (tool_begin(s->agent->tools, &first[i].request, &first[i].place) < 0)
            first[i].place = NULL;
    }
    for (size_t i = 0; i < n; i++)
        started[i] = first[i].place && pthread_create(&threads[i], NULL, run_thread, &first[i]) == 0;
    for (size_t i = 0; i < n; i++)
        if (!started[i] && first[i].place)
            run_thread(&first[i]);
        else if (!started[i]) {
            tool_call(s->agent->tools, &first[i].request, &first[i].result);
            first[i].finished = true;
            first[i].ended = clock_now();
        }
    listen_to(s, first, n);
    for (size_t i = 0; i < n; i++)
        if (started[i])
            pthread_join(threads[i], NULL);
}

/* A call that is not made: its result says why. */
static void fail_call(struct call *c, const char *text)
{
    c->made = true;
    c->began = c->ended = clock_now();
    c->result.failed = true;
    text_append(&c->result.text, text, strlen(text));
    tell_call(c);
    tell_result(c);
}

static void explain_input(const struct call *c, const char *bad, bool cut, struct buf *text)
{
    if (cut)
        buf_printf(
            text,
            "Nothing was done: your answer reached its maximum length in the middle of this call of %s. "
            "Make smaller calls: write a long file in several pieces, for example.",
            c->said);
    else
        buf_printf(text, "Nothing was done: the input of %s is no JSON object. It begins: %.200s", c->said,
                   bad);
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
    while (first + n < s->n && n < TOGETHER_MAX && only_reads(&s->all[first + n]))
        n++;
    return n ? n : 1;
}

/* Runs them in order. A state to go back to that cannot be kept ends the turn before anything is changed. */
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
            run_alone(c);
        else
            run_together(s, c, n);
    }
    return 0;
}

static void after_call(struct agent *a, struct call *c)
{
    agent_watch_background(a, c->name, c->input, &c->result);
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
        json_array_append_new(blocks,
                              c->made ? result_block(c->id, &c->result) : result_block_text(c->id, unmade));
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

int calls_run(struct agent *a, const struct model_reply *reply, json_t **ret_results, struct error *err)
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
