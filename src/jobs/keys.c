/*
 * API keys: "hutch_ID_SECRET". The store has an Argon2id hash of the secret. A text that was checked
 * once is remembered by a keyed hash, so that requests stay cheap; every second its row is looked
 * at again, since another process may have removed it. Texts that were wrong are remembered too.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "jobs_internal.h"
#include "banned.h"

#define PREFIX       "hutch_"
#define SECRET_BYTES 32
#define SECRET_LEN   43 /* in base64 without padding */
#define CACHED       512
#define FRESH_NS     NS_PER_S

struct cached_key {
    unsigned char hash[crypto_generichash_BYTES];
    bool used, valid;
    int64_t checked_at;
    struct api_key key;
};

struct key_cache {
    pthread_mutex_t lock;
    pthread_mutex_t argon; /* one at a time: each takes 64 MiB */
    unsigned char secret[crypto_generichash_KEYBYTES];
    size_t next[2]; /* the place that is used next: of wrong texts, which come first, and of keys */
    struct cached_key keys[2 * CACHED];
};

static const char *const ROLE_NAMES[] = {[ROLE_NONE] = "none",
                                         [ROLE_READ] = "read-only",
                                         [ROLE_USER] = "user",
                                         [ROLE_ADMIN] = "admin",
                                         [ROLE_WORKER] = "worker"};

const char *role_name(enum role r)
{
    return ROLE_NAMES[r];
}

enum role role_of(const char *name)
{
    for (size_t i = ROLE_READ; i < ARRAY_SIZE(ROLE_NAMES); i++)
        if (strcmp(ROLE_NAMES[i], name) == 0)
            return (enum role)i;
    return ROLE_NONE;
}

void api_key_free(struct api_key *k)
{
    free(k->name);
    free(k->user);
    *k = (struct api_key){0};
}

static int api_key_copy(struct api_key *to, const struct api_key *from, struct error *err)
{
    struct api_key copy = *from;
    copy.name = strdup(from->name);
    copy.user = strdup(from->user);
    if (!copy.name || !copy.user) {
        api_key_free(&copy);
        return error_set(err, ENOMEM, "out of memory");
    }
    *to = copy;
    return 0;
}

struct key_cache *key_cache_new(void)
{
    struct key_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    pthread_mutex_init(&c->lock, NULL);
    pthread_mutex_init(&c->argon, NULL);
    randombytes_buf(c->secret, sizeof c->secret);
    return c;
}

struct key_cache *key_cache_free(struct key_cache *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < ARRAY_SIZE(c->keys); i++)
        api_key_free(&c->keys[i].key);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->argon);
    sodium_memzero(c->secret, sizeof c->secret);
    free(c);
    return NULL;
}

/* --- checking --- */

/* The row of a key that was not removed, with its user's limits. -ENOENT without a text. */
static int key_fetch(struct jobs *j, const char *id, struct api_key *ret,
                     char hash[crypto_pwhash_STRBYTES], struct error *err)
{
    struct db *db = store_reader(j->store, false, err);
    struct db_rows rows = {0};
    int r = db ? DB_QUERY(db, &rows, err,
                          "SELECT k.name, k.owner, k.role, k.hash, u.running_limit, u.live_limit,"
                          " u.second_limit, u.stored_limit FROM keys k LEFT JOIN users u"
                          " ON u.name = k.owner WHERE k.id = $1 AND k.removed_at = 0",
                          db_text(id))
               : -EIO;
    if (r == 0 && (r = db_next(&rows, err)) == 0)
        r = -ENOENT;
    if (r > 0) {
        struct api_key key = {
            .name = (char *)db_column_text(&rows, 0),
            .user = (char *)db_column_text(&rows, 1),
            .role = role_of(db_column_text(&rows, 2)),
            .limits = {.running = (uint64_t)db_column_int(&rows, 4),
                       .live = (uint64_t)db_column_int(&rows, 5),
                       .per_second = (uint64_t)db_column_int(&rows, 6),
                       .stored = (uint64_t)db_column_int(&rows, 7)},
        };
        snprintf(key.id, sizeof key.id, "%s", id);
        snprintf(hash, crypto_pwhash_STRBYTES, "%s", db_column_text(&rows, 3));
        r = api_key_copy(ret, &key, err);
    }
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    return r;
}

static struct cached_key *cache_find(struct key_cache *c, const unsigned char *hash)
{
    for (size_t i = 0; i < ARRAY_SIZE(c->keys); i++)
        if (c->keys[i].used && sodium_memcmp(c->keys[i].hash, hash, sizeof c->keys[i].hash) == 0)
            return &c->keys[i];
    return NULL;
}

/* Takes the key over; NULL: the text is not a key. */
static void cache_store(struct key_cache *c, const unsigned char *hash, struct api_key *key)
{
    LOCKED(&c->lock);
    struct cached_key *at = cache_find(c, hash);
    if (!at)
        at = &c->keys[(key ? CACHED : 0) + c->next[key != NULL]++ % CACHED];
    api_key_free(&at->key);
    memcpy(at->hash, hash, sizeof at->hash);
    at->used = true;
    at->valid = key != NULL;
    at->checked_at = clock_now();
    if (key)
        at->key = *key;
}

/* 1: *ret is the answer; -ENOENT: it is known not to be a key; 0: not known, or not freshly. */
static int cache_ask(struct key_cache *c, const unsigned char *hash, struct api_key *ret,
                     bool *ret_known, struct error *err)
{
    LOCKED(&c->lock);
    struct cached_key *at = cache_find(c, hash);
    *ret_known = at && at->valid;
    if (!at)
        return 0;
    if (!at->valid)
        return -ENOENT;
    if (clock_now() - at->checked_at > FRESH_NS)
        return 0;
    int r = api_key_copy(ret, &at->key, err);
    return r < 0 ? r : 1;
}

static int key_no(struct error *err)
{
    return error_set(err, ENOENT, "the API key is not valid");
}

/* Splits "hutch_ID_SECRET". */
static const char *key_parse(const char *text, char id[JOB_ID_LEN + 1])
{
    size_t n = strlen(PREFIX);
    if (strlen(text) != n + JOB_ID_LEN + 1 + SECRET_LEN || strncmp(text, PREFIX, n) != 0 ||
        text[n + JOB_ID_LEN] != '_')
        return NULL;
    memcpy(id, text + n, JOB_ID_LEN);
    id[JOB_ID_LEN] = 0;
    return job_id_is_valid(id) ? text + n + JOB_ID_LEN + 1 : NULL;
}

int keys_check(struct jobs *j, const char *text, struct api_key *ret, struct error *err)
{
    struct key_cache *cache = j->key_cache;
    unsigned char digest[crypto_generichash_BYTES];
    char id[JOB_ID_LEN + 1], hash[crypto_pwhash_STRBYTES];
    struct api_key key = {0}, copy;
    bool known;
    const char *secret = key_parse(text, id);
    if (!secret)
        return key_no(err);
    crypto_generichash(digest, sizeof digest, (const unsigned char *)text, strlen(text),
                       cache->secret, sizeof cache->secret);
    int r = cache_ask(cache, digest, ret, &known, err);
    if (r != 0)
        return r == -ENOENT ? key_no(err) : r < 0 ? r : 0;
    r = key_fetch(j, id, &key, hash, err);
    if (r < 0 && r != -ENOENT)
        return r;
    if (r == 0 && !known) {
        LOCKED(&cache->argon);
        if (crypto_pwhash_str_verify(hash, secret, strlen(secret)) != 0)
            r = -ENOENT;
    }
    /* An ID that does not exist costs nothing to look up again. */
    if (r == -ENOENT) {
        if (key.name || known)
            cache_store(cache, digest, NULL);
        api_key_free(&key);
        return key_no(err);
    }
    if (api_key_copy(&copy, &key, err) == 0)
        cache_store(cache, digest, &copy);
    *ret = key;
    return 0;
}

/* --- making, listing, removing --- */

struct key_change {
    struct job_change base;
    const char *id, *name, *user, *hash;
    enum role role;
    int64_t now;
};

static int key_new_run(struct db *db, struct job_change *change, struct error *err)
{
    struct key_change *c = (struct key_change *)change;
    int64_t r = DB_RUN(db, err,
                       "INSERT INTO keys (id, name, owner, role, hash, created_at)"
                       " VALUES ($1, $2, $3, $4, $5, $6)",
                       db_text(c->id), db_text(c->name), db_text(c->user),
                       db_text(role_name(c->role)), db_text(c->hash), db_int(c->now));
    if (r == -EEXIST)
        return error_set(err, EEXIST, "there is a key named '%s' already; remove it first",
                         c->name);
    if (r >= 0)
        r = DB_RUN(db, err, "INSERT INTO users (name) VALUES ($1) ON CONFLICT DO NOTHING",
                   db_text(c->user));
    return r < 0 ? (int)r : 0;
}

int keys_new(struct jobs *j, const char *name, const char *user, enum role role, char **ret_key,
             struct error *err)
{
    unsigned char random[SECRET_BYTES];
    char id[JOB_ID_LEN + 1], secret[SECRET_LEN + 1], hash[crypto_pwhash_STRBYTES];
    struct key_change c = {.base = JOB_CHANGE(key_new_run),
                           .id = id,
                           .name = name,
                           .user = user,
                           .hash = hash,
                           .role = role,
                           .now = jobs_now()};
    int r = user_name_check(user, err);
    if (r == 0 && user_name_check(name, NULL) < 0)
        r = error_set(err, EINVAL, "the name of a key has 1 to %d bytes", USER_NAME_MAX);
    if (r == 0 && role == ROLE_NONE)
        r = error_set(err, EINVAL, "a key needs a role: admin, user, read-only or worker");
    if (r < 0)
        return r;
    randombytes_buf(random, sizeof random);
    sodium_bin2base64(secret, sizeof secret, random, sizeof random,
                      sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    job_id_make(j, id);
    if (crypto_pwhash_str(hash, secret, strlen(secret), crypto_pwhash_OPSLIMIT_INTERACTIVE,
                          crypto_pwhash_MEMLIMIT_INTERACTIVE) != 0)
        return error_set(err, ENOMEM, "cannot hash the key: out of memory");
    _cleanup_free_ char *text = str_printf(PREFIX "%s_%s", id, secret);
    sodium_memzero(secret, sizeof secret);
    if (!text)
        return error_set(err, ENOMEM, "out of memory");
    if ((r = job_change_commit(j, &c.base, err)) < 0)
        return r;
    *ret_key = TAKE_PTR(text);
    return 0;
}

int keys_list(struct jobs *j, json_t **ret, struct error *err)
{
    _cleanup_json_ json_t *list = json_array();
    struct db *db = store_reader(j->store, false, err);
    struct db_rows rows = {0};
    int r = !list ? error_set(err, ENOMEM, "out of memory")
            : db  ? db_query(db, &rows,
                             "SELECT id, name, owner, role, created_at FROM keys"
                              " WHERE removed_at = 0 ORDER BY id",
                             NULL, 0, err)
                  : -EIO;
    while (r == 0 && (r = db_next(&rows, err)) > 0) {
        json_t *key = json_pack("{s:s, s:s, s:s, s:s, s:o}", "id", db_column_text(&rows, 0), "name",
                                db_column_text(&rows, 1), "user", db_column_text(&rows, 2), "role",
                                db_column_text(&rows, 3), "created_at",
                                jobs_time_json(db_column_int(&rows, 4)));
        r = json_array_append_new(list, key) < 0 ? error_set(err, ENOMEM, "out of memory") : 0;
    }
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}

static int key_remove_run(struct db *db, struct job_change *change, struct error *err)
{
    struct key_change *c = (struct key_change *)change;
    int64_t n = DB_RUN(db, err,
                       "UPDATE keys SET removed_at = $2 WHERE removed_at = 0 AND"
                       " (id = $1 OR name = $1)",
                       db_text(c->id), db_int(c->now));
    if (n == 0)
        return error_set(err, ENOENT, "there is no key '%.40s'", c->id);
    return n < 0 ? (int)n : 0;
}

int keys_remove(struct jobs *j, const char *id_or_name, struct error *err)
{
    struct key_change c = {.base = JOB_CHANGE(key_remove_run), .id = id_or_name, .now = jobs_now()};
    int r = job_change_commit(j, &c.base, err);
    if (r < 0)
        return r;
    LOCKED(&j->key_cache->lock);
    for (size_t i = 0; i < ARRAY_SIZE(j->key_cache->keys); i++)
        j->key_cache->keys[i].checked_at = 0;
    return 0;
}

bool keys_any(struct jobs *j)
{
    struct db *db = store_reader(j->store, false, NULL);
    struct db_rows rows = {0};
    int r = db ? db_query(db, &rows, "SELECT 1 FROM keys LIMIT 1", NULL, 0, NULL) : -EIO;
    if (r == 0)
        r = db_next(&rows, NULL);
    db_rows_done(&rows);
    store_reader_done(j->store, db);
    return r != 0; /* also when that cannot be known */
}
