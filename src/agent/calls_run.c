/*
 * Calls while they run. Whoever watches is told from the thread of the turn only: calls that run in
 * threads leave word in a list, which that one reads.
 */
#include <string.h>

#include "calls.h"
#include "clock.h"
#include "banned.h"

void call_tell(const struct call *c)
{
    agent_tell(
        c->calls->agent,
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

void call_tell_result(const struct call *c)
{
    agent_tell(c->calls->agent,
               &(struct agent_event){.kind = AGENT_RESULT,
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
    c->progress =
        (struct tool_progress){.say = together ? progress_together : progress_alone, .data = c};
    c->request = (struct tool_request){.name = c->name,
                                       .tool = c->tool,
                                       .input = c->input,
                                       .cancel = c->calls->agent->cancel,
                                       .progress = &c->progress};
    c->began = clock_now();
    c->made = true;
}

void call_run(struct call *c)
{
    prepare(c, false);
    call_tell(c);
    tool_call(c->calls->agent->tools, &c->request, &c->result);
    c->ended = clock_now();
    call_tell_result(c);
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

/* Passes on what the threads left, until all have ended. The sink is never called under the lock.
 */
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
            call_tell_result(&seen);
        else
            tell_progress(&seen, seen.seconds, seen.word);
        pthread_mutex_lock(&s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

void calls_run_together(struct calls *s, struct call *first, size_t n)
{
    pthread_t threads[CALLS_TOGETHER_MAX];
    bool started[CALLS_TOGETHER_MAX] = {0};
    for (size_t i = 0; i < n; i++) {
        prepare(&first[i], true);
        call_tell(&first[i]);
        if (tool_begin(s->agent->tools, &first[i].request, &first[i].place) < 0)
            first[i].place = NULL;
    }
    for (size_t i = 0; i < n; i++)
        started[i] =
            first[i].place && pthread_create(&threads[i], NULL, run_thread, &first[i]) == 0;
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
