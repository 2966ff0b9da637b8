#include <errno.h>
#include <pthread.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "cache.h"
#include "banned.h"

#define BUCKETS  1024
#define LARGEST  4 /* one result takes at most this part of the cache */
#define OVERHEAD 512

struct entry {
    uint8_t key[CACHE_KEY_SIZE];
    struct tool_result result;
    size_t bytes;
    LIST_ENTRY(entry) bucket;
    TAILQ_ENTRY(entry) age;
};

LIST_HEAD(bucket, entry);
TAILQ_HEAD(ages, entry);

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

static void drop(struct tool_cache *c, struct entry *e)
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
        drop(c, TAILQ_FIRST(&c->ages));
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

/* Each part with its length before it, so that no two triples give the same bytes. */
static void add_part(SHA2_CTX *sha, const char *text)
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
    add_part(&sha, snapshot);
    add_part(&sha, tool);
    add_part(&sha, text);
    SHA256Final(ret, &sha);
    free(text);
    return 0;
}

static struct bucket *bucket_of(struct tool_cache *c, const uint8_t *key)
{
    return &c->buckets[(key[0] | key[1] << 8) % BUCKETS];
}

static struct entry *find(struct tool_cache *c, const uint8_t *key)
{
    struct entry *e;
    LIST_FOREACH(e, bucket_of(c, key), bucket)
    if (memcmp(e->key, key, CACHE_KEY_SIZE) == 0)
        return e;
    return NULL;
}

bool tool_cache_find(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                     struct tool_result *ret)
{
    pthread_mutex_lock(&c->lock);
    struct entry *e = find(c, key);
    bool found = e && tool_result_copy(&e->result, ret) == 0;
    if (found) {
        ret->cached = true;
        TAILQ_REMOVE(&c->ages, e, age);
        TAILQ_INSERT_TAIL(&c->ages, e, age);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

/* How much memory a result takes, roughly: JSON's as much again as its text. */
static size_t weigh(const struct tool_result *r)
{
    size_t data = r->data ? json_dumpb(r->data, NULL, 0, JSON_COMPACT) : 0;
    return OVERHEAD + r->text.len + r->image.len + 4 * data;
}

void tool_cache_add(struct tool_cache *c, const uint8_t key[CACHE_KEY_SIZE],
                    const struct tool_result *r)
{
    size_t bytes = weigh(r);
    struct entry *e = bytes <= c->max / LARGEST ? calloc(1, sizeof *e) : NULL;
    if (!e)
        return;
    if (tool_result_copy(r, &e->result) < 0) {
        free(e);
        return;
    }
    memcpy(e->key, key, CACHE_KEY_SIZE);
    e->bytes = bytes;
    pthread_mutex_lock(&c->lock);
    struct entry *old = find(c, key);
    if (old)
        drop(c, old);
    LIST_INSERT_HEAD(bucket_of(c, key), e, bucket);
    TAILQ_INSERT_TAIL(&c->ages, e, age);
    c->bytes += bytes;
    while (c->bytes > c->max)
        drop(c, TAILQ_FIRST(&c->ages));
    pthread_mutex_unlock(&c->lock);
}
