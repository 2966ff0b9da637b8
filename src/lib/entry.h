/*
 * The way into the library and out again; every function of hutch.h that can fail goes through it.
 *
 * The process belongs to another program. On the way in, the handle is checked: it must be ours,
 * of this kind and of this process (a fork has copies of all handles, which must not touch what
 * belongs to the parent). SIGPIPE is blocked, so that a command that does not read its input does
 * not end the program. On the way out the error goes to the caller, and the signal mask is
 * restored.
 */
#pragma once

#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "error.h"
#include "hutch.h"
#include "io.h"
#include "json.h"

/* What every handle begins with. */
enum handle_kind {
    HANDLE_BOX = 0x48b0,
    HANDLE_SNAPSHOT,
    HANDLE_ARENA,
    HANDLE_ENV,
    HANDLE_VECTOR,
};

struct handle {
    uint32_t kind; /* 0 once it is closed */
    pid_t owner;
    unsigned users; /* calls under way */
    pthread_mutex_t lock;
    pthread_cond_t left; /* one of them is over */
};

struct handle handle_new(enum handle_kind kind);

/* Marks a handle as closed, if it is an open one of this process; then no call uses it any more:
 * calls under way are interrupted (NULL: they end soon) and waited for. */
bool handle_close(void *handle, enum handle_kind kind, void (*interrupt)(void *handle));

struct entry {
    struct error error;
    struct handle *handle; /* that is used by the call; NULL: none */
    struct hutch_error *out;
    struct sigpipe sigpipe;
    locale_t locale;
};

/* Begins a call with this handle, or (the second) with none. If it fails, the call ends with
 * `return entry_end(&e, r)` all the same. */
int entry_begin(struct entry *e, void *handle, enum handle_kind kind, struct hutch_error *out);
void entry_begin_plain(struct entry *e, struct hutch_error *out);
int entry_end(struct entry *e, int r);

/* An argument that must not be NULL: 0, or -EINVAL with the text set. */
int entry_need(struct entry *e, const void *argument, const char *name);

/* JSON that the caller gave as `name`. NULL is *ret NULL; the second requires an object. */
int json_take(const char *name, const char *text, json_t **ret, struct error *err);
int json_take_object(const char *name, const char *text, json_t **ret, struct error *err);

/* The text of a value, which is consumed; NULL is no memory. */
int json_give(json_t *value, char **ret_text, struct error *err);
