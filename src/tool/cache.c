#include <errno.h>
#include <pthread.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "session.h"
#include "banned.h"

#define BUCKETS  1024
#define LARGEST  4 /* one result takes at most this part of the cache */
#define OVERHEAD 512

struct cached_result {
    uint8_t key[CACHE_KEY_SIZE];
    struct tool_result result;
    size_t bytes;
    LIST_ENTRY(cached_result) bucket;
    TAILQ_ENTRY(cached_result) age;
};

LIST_HEAD(bucket, cached_result);
TAILQ_HEAD(ages, cached_result);

struct tool_cache {
    pthread_mutex_t lock;
    struct bucket buckets[BUCKETS];
    struct ages ages; /* the least recently used first */
    size_t bytes, max;
};

struct tool_cache *tool_cache_new(size_t max_bytes)
{
    struct tool_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    TAILQ_INIT(&c->ages);
    c->max = max_bytes;
    return c;
}

static void cache_drop(struct tool_cache *c, struct cached_result *e)
{
    LIST_REMOVE(e, bucket);
    TAILQ_REMOVE(&c->ages, e, age);
    c->bytes -= e->bytes;
    tool_result_free(&e->result);
    free(e);
}

struct tool_cache *tool_cache_free(struct tool_cache *c)
{
    if (!c)
        return NULL;
    while (!TAILQ_EMPTY(&c->ages))
        cache_drop(c, TAILQ_FIRST(&c->ages));
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

/* Each part with its length before it, so that no two triples give the same bytes. */
static void cache_key_add(SHA2_CTX *sha, const char *text)
{
    uint64_t n = strlen(text);
    SHA256Update(sha, (const uint8_t *)&n, sizeof n);
    SHA256Update(sha, (const uint8_t *)text, n);
}

int tool_cache_key(const char *snapshot, const char *tool, const json_t *input,
                   uint8_t ret[CACHE_KEY_SIZE])
{
    SHA2_CTX sha;
    char *text = json_dumps(input, JSON_COMPACT | JSON_SORT_KEYS);
    if (!text)
        return -ENOMEM;
    SHA256Init(&sha);
    cache_key_add(&sha, snapshot);
    cache_key_add(&sha, tool);
    cache_key_add(&sha, text);
    SHA256Final(ret, &sha);
    free(text);
    return 0;
}

static struct bucket *cache_bucket(struct tool_cache *c, const uint8_t *key)
{
    return &c->buckets[(key[0] | key[1] << 8) % BUCKETS];
}

static struct cached_result *cache_get(struct tool_cache *c, const uint8_t *key)
{
    struct cached_result *e;
    LIST_FOREACH(e, cache_bucket(c, key), bucket)
    if (memcmp(e->key, key, CACHE_KEY_SIZE) == 0)
        return e;
    return NULL;
}

bool tool_cache_find(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                     struct tool_result *ret)
{
    pthread_mutex_lock(&c->lock);
    struct cached_result *e = cache_get(c, key);
    bool found = e && tool_result_copy(&e->result, ret) == 0;
    if (found) {
        ret->cached = true;
        TAILQ_REMOVE(&c->ages, e, age);
        TAILQ_INSERT_TAIL(&c->ages, e, age);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

void tool_cache_add(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                    const struct tool_result *r)
{
    /* Roughly: JSON takes some four times as much memory as its text. */
    size_t data = r->data ? json_dumpb(r->data, NULL, 0, JSON_COMPACT) : 0;
    size_t bytes = OVERHEAD + r->text.len + r->image.len + 4 * data;
    struct cached_result *e = bytes <= c->max / LARGEST ? calloc(1, sizeof *e) : NULL;
    if (!e)
        return;
    if (tool_result_copy(r, &e->result) < 0) {
        free(e);
        return;
    }
    memcpy(e->key, key, CACHE_KEY_SIZE);
    e->bytes = bytes;
    pthread_mutex_lock(&c->lock);
    struct cached_result *old = cache_get(c, key);
    if (old)
        cache_drop(c, old);
    LIST_INSERT_HEAD(cache_bucket(c, key), e, bucket);
    TAILQ_INSERT_TAIL(&c->ages, e, age);
    c->bytes += bytes;
    while (c->bytes > c->max)
        cache_drop(c, TAILQ_FIRST(&c->ages));
    pthread_mutex_unlock(&c->lock);
}
