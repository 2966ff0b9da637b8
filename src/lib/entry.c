#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "entry.h"
#include "hutch.h"
#include "io.h"
#include "box_host.h"
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

void entry_begin_plain(struct entry *e, struct hutch_error *out)
{
    e->error.code = 0;
    e->error.text[0] = 0;
    e->handle = NULL;
    e->out = out;
    e->locale =
        uselocale(newlocale(LC_ALL_MASK, "C", NULL)); /* of this thread; one that always is there */
    sigpipe_block(&e->sigpipe);
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
    pthread_mutex_lock(&h->lock);
    bool open = h->kind == (uint32_t)kind; /* then it stays so until entry_end */
    h->users += open;
    pthread_mutex_unlock(&h->lock);
    if (!open)
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
    if (e->handle) {
        pthread_mutex_lock(&e->handle->lock);
        if (--e->handle->users == 0)
            pthread_cond_broadcast(&e->handle->left);
        pthread_mutex_unlock(&e->handle->lock); /* from here on the handle may be gone */
    }
    sigpipe_restore(&e->sigpipe);
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

/*
 * Where hutch's programs are when the main program is not hutch: beside the library in a build
 * folder, in libexec/hutch of the same prefix when installed (with or without a folder for the
 * architecture between), or where $HUTCH_LIBEXEC says. They start as process 1 of a box with the
 * program's rights, so a setuid program ignores the variable.
 */
int libexec_folders(char folders[LIBEXEC_FOLDERS_MAX][LIBEXEC_PATH_MAX], size_t *ret_count,
                    struct error *err)
{
    const char *given = secure_getenv("HUTCH_LIBEXEC");
    if (given && given[0] == '/') {
        snprintf(folders[0], LIBEXEC_PATH_MAX, "%s", given);
        *ret_count = 1;
        return 0;
    }
    /* the loader made the path absolute: the program may have changed its folder since */
    Dl_info info;
    struct link_map *map = NULL;
    char origin[3 * PATH_MAX], named[4 * PATH_MAX], real[PATH_MAX];
    if (!dladdr1((const void *)hutch_version, &info, (void **)&map, RTLD_DL_LINKMAP) ||
        dlinfo(map, RTLD_DI_ORIGIN, origin) != 0)
        return error_errno(err, ENOENT, "cannot find out where libhutch is installed");
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(named, sizeof named, "%s/%s", origin, slash ? slash + 1 : info.dli_fname);
    if (!realpath(named, real))
        return error_errno(err, errno, "cannot find out where libhutch is installed");
    *strrchr(real, '/') = 0;
    snprintf(folders[0], LIBEXEC_PATH_MAX, "%s", real);
    snprintf(folders[1], LIBEXEC_PATH_MAX, "%.*s/../libexec/hutch", PATH_MAX, folders[0]);
    snprintf(folders[2], LIBEXEC_PATH_MAX, "%.*s/../../libexec/hutch", PATH_MAX, folders[0]);
    *ret_count = 3;
    return 0;
}
