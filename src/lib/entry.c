#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "entry.h"
#include "hutch.h"
#include "banned.h"

const char *hutch_version(void)
{
    return HUTCH_VERSION;
}

int hutch_api_version(void)
{
    return HUTCH_API_VERSION;
}

void hutch_free(void *memory)
{
    free(memory);
}

static const char *handle_kind_name(enum handle_kind kind)
{
    static const char *const names[] = {"box", "snapshot", "arena", "environment", "vector"};
    return names[kind - HANDLE_BOX];
}

struct handle handle_new(enum handle_kind kind)
{
    return (struct handle){.kind = kind,
                           .owner = getpid(),
                           .lock = PTHREAD_MUTEX_INITIALIZER,
                           .left = PTHREAD_COND_INITIALIZER};
}

/* In a fork of the process a handle is left alone, memory and all: the parent's threads may have
 * held its locks. */
static bool handle_is_ours(const struct handle *h, enum handle_kind kind)
{
    return h && __atomic_load_n(&h->kind, __ATOMIC_ACQUIRE) == (uint32_t)kind &&
           h->owner == getpid();
}

bool handle_close(void *handle, enum handle_kind kind, void (*interrupt)(void *handle))
{
    struct handle *h = handle;
    if (!handle_is_ours(h, kind))
        return false;
    pthread_mutex_lock(&h->lock);
    bool first = h->kind == (uint32_t)kind;
    __atomic_store_n(&h->kind, 0, __ATOMIC_RELEASE);
    bool used = first && h->users > 0;
    pthread_mutex_unlock(&h->lock);
    if (used && interrupt)
        interrupt(handle);
    pthread_mutex_lock(&h->lock);
    while (first && h->users > 0)
        pthread_cond_wait(&h->left, &h->lock);
    pthread_mutex_unlock(&h->lock);
    return first;
}

/* True if it is open: then it stays so until handle_leave. */
static bool handle_enter(struct handle *h, enum handle_kind kind)
{
    pthread_mutex_lock(&h->lock);
    bool open = h->kind == (uint32_t)kind;
    h->users += open;
    pthread_mutex_unlock(&h->lock);
    return open;
}

/* With the lock given back the handle may be gone. */
static void handle_leave(struct handle *h)
{
    pthread_mutex_lock(&h->lock);
    if (--h->users == 0)
        pthread_cond_broadcast(&h->left);
    pthread_mutex_unlock(&h->lock);
}

static void sigpipe_block(struct entry *e)
{
    sigset_t pipe, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigpending(&pending);
    e->was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe, &e->mask);
}

/* One that came meanwhile was ours: a write of this thread raises it on this thread. */
static void sigpipe_restore(struct entry *e)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    while (!e->was_pending && sigtimedwait(&pipe, NULL, &(struct timespec){0}) < 0 &&
           errno == EINTR)
        ;
    pthread_sigmask(SIG_SETMASK, &e->mask, NULL);
}

void entry_begin_plain(struct entry *e, struct hutch_error *out)
{
    e->error.code = 0;
    e->error.text[0] = 0;
    e->handle = NULL;
    e->out = out;
    e->locale =
        uselocale(newlocale(LC_ALL_MASK, "C", NULL)); /* of this thread; one that always is there */
    sigpipe_block(e);
}

int entry_begin(struct entry *e, void *handle, enum handle_kind kind, struct hutch_error *out)
{
    struct handle *h = handle;
    entry_begin_plain(e, out);
    if (!h)
        return error_set(&e->error, EINVAL, "no %s was given", handle_kind_name(kind));
    if (__atomic_load_n(&h->kind, __ATOMIC_ACQUIRE) != (uint32_t)kind)
        return error_set(&e->error, EINVAL, "this is not an open %s", handle_kind_name(kind));
    if (h->owner != getpid())
        return error_set(
            &e->error, ECHILD,
            "this %s belongs to process %d, of which this one is a fork; open one here",
            handle_kind_name(kind), (int)h->owner);
    if (!handle_enter(h, kind))
        return error_set(&e->error, EINVAL, "this is not an open %s", handle_kind_name(kind));
    e->handle = h;
    return 0;
}

int entry_need(struct entry *e, const void *argument, const char *name)
{
    return argument ? 0 : error_set(&e->error, EINVAL, "'%s' must not be NULL", name);
}

int entry_end(struct entry *e, int r)
{
    if (e->handle)
        handle_leave(e->handle);
    sigpipe_restore(e);
    uselocale(e->locale);
    if (!e->out)
        return r;
    if (r < 0 && !e->error.code)
        error_errno(&e->error, -r, "the call failed");
    e->out->code = r < 0 ? -r : 0;
    snprintf(e->out->text, sizeof e->out->text, "%s", r < 0 ? e->error.text : "");
    return r;
}

int json_take(const char *name, const char *text, json_t **ret, struct error *err)
{
    json_error_t why;
    if (!text) {
        *ret = NULL;
        return 0;
    }
    json_t *value = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &why);
    if (!value)
        return error_set(err, EINVAL, "'%s' is not JSON: line %d, column %d: %s", name, why.line,
                         why.column, why.text);
    *ret = value;
    return 0;
}

int json_take_object(const char *name, const char *text, json_t **ret, struct error *err)
{
    json_t *value = NULL;
    int r = json_take(name, text, &value, err);
    if (r < 0)
        return r;
    if (value && !json_is_object(value)) {
        json_decref(value);
        return error_set(err, EINVAL, "'%s' is not a JSON object", name);
    }
    *ret = value;
    return 0;
}

int json_give(json_t *value, char **ret_text, struct error *err)
{
    char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(value);
    if (!text)
        return error_set(err, ENOMEM, "no memory for the result");
    *ret_text = text;
    return 0;
}
