/*
 * Syncing beside the work: with history_defer() a thread of the history's brings to the disk what
 * was written, while the caller goes on. What is written first is first on the disk, too;
 * history_settle() waits for all of it. A sync takes as long as several messages do: it begins a
 * moment after the first of them, and those that came by then share it.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "history_private.h"
#include "banned.h"

#define MOMENT_NS (5 * NS_PER_MS)

struct history_syncer {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t news, hurry;
    int file, folder;
    uint64_t asked, done; /* how many writes there were, and how many are safe */
    bool named;           /* the file has got its name: the folder is to be synced, too */
    bool awaited;         /* somebody waits: there is no moment to lose */
    bool ending;
    int failed; /* negative errno of a sync that failed; stays */
};

static int sync_once(const struct history_syncer *s, bool named)
{
    if (named ? fsync(s->file) < 0 : fdatasync(s->file) < 0)
        return -errno;
    return named && fsync(s->folder) < 0 ? -errno : 0;
}

/* Lets others write meanwhile. The lock is held. */
static void linger(struct history_syncer *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += MOMENT_NS;
    until.tv_sec += until.tv_nsec / NS_PER_S;
    until.tv_nsec %= NS_PER_S;
    while (!s->awaited && !s->ending && pthread_cond_timedwait(&s->hurry, &s->lock, &until) == 0)
        ;
}

static void *run(void *data)
{
    struct history_syncer *s = data;
    pthread_mutex_lock(&s->lock);
    while (s->done < s->asked || !s->ending) {
        if (s->done == s->asked) {
            pthread_cond_wait(&s->news, &s->lock);
            continue;
        }
        linger(s);
        uint64_t asked = s->asked;
        bool named = s->named;
        s->named = false;
        pthread_mutex_unlock(&s->lock);
        int r = sync_once(s, named);
        pthread_mutex_lock(&s->lock);
        s->done = asked;
        s->failed = r < 0 ? r : s->failed;
        pthread_cond_broadcast(&s->news);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* Without a thread everything is as it was: the caller waits for the disk. */
static struct history_syncer *start(const struct history *h)
{
    struct history_syncer *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct history_syncer){.file = h->fd, .folder = h->folder};
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->news, NULL);
    pthread_cond_init(&s->hurry, NULL);
    if (pthread_create(&s->thread, NULL, run, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

void history_defer(struct history *h)
{
    h->deferred = true;
}

int history_sync(struct history *h, bool named)
{
    if (h->deferred && !h->syncer)
        h->syncer = start(h);
    struct history_syncer *s = h->syncer;
    if (!s)
        return sync_once(&(struct history_syncer){.file = h->fd, .folder = h->folder}, named);
    pthread_mutex_lock(&s->lock);
    bool idle = s->done == s->asked++;
    s->named |= named;
    int r = s->failed;
    if (idle)
        pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&s->lock);
    return r;
}

int history_settle(struct history *h, struct error *err)
{
    struct history_syncer *s = h->syncer;
    if (!s)
        return 0;
    pthread_mutex_lock(&s->lock);
    s->awaited = true;
    pthread_cond_signal(&s->hurry);
    while (s->done < s->asked)
        pthread_cond_wait(&s->news, &s->lock);
    s->awaited = false;
    int r = s->failed;
    pthread_mutex_unlock(&s->lock);
    return r < 0 ? error_errno(err, -r, "cannot bring %s to the disk", h->path) : 0;
}

void history_end_sync(struct history *h)
{
    struct history_syncer *s = h->syncer;
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->news);
    pthread_cond_signal(&s->hurry);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->news);
    pthread_cond_destroy(&s->hurry);
    free(s);
    h->syncer = NULL;
}
