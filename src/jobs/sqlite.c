/*
 * SQLite as the store's database: a write-ahead log that is flushed at every commit
 * (synchronous=FULL), so that readers never wait for the writer. A connection keeps its prepared
 * statements, found again by their text.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "encoding.h"
#include "store.h"
#include "banned.h"

#define BUSY_MS    10000 /* for `hutch key`, which writes from a process of its own */
#define STATEMENTS 128   /* kept by a connection; a power of two */

struct sqlite {
    struct db db;
    sqlite3 *handle;
    struct {
        sqlite3_stmt *statement;
        bool busy; /* its rows are being read */
    } cache[STATEMENTS];
};

static int sqlite_failed(struct sqlite *s, struct error *err)
{
    int last = errno, number = EIO;
    int code = s->handle ? sqlite3_extended_errcode(s->handle) : SQLITE_NOMEM;
    switch (code & 0xff) {
    case SQLITE_FULL:
        number = ENOSPC;
        break;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        number = EAGAIN;
        break;
    case SQLITE_NOMEM:
        number = ENOMEM;
        break;
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_CANTOPEN:
        number = EACCES;
        break;
    case SQLITE_CONSTRAINT:
        number = EEXIST;
        break;
    case SQLITE_IOERR:
        /* A file that may not grow (RLIMIT_FSIZE, a quota) counts as a full disk. */
        if (last == EFBIG || last == EDQUOT)
            number = ENOSPC;
    }
    return error_set(err, number, "the store: %s",
                     s->handle ? sqlite3_errmsg(s->handle) : "out of memory");
}

static void sqlite_close(struct db *db)
{
    struct sqlite *s = (struct sqlite *)db;
    for (size_t i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(s->cache[i].statement);
    sqlite3_close_v2(s->handle);
    free(s);
}

static int sqlite_open(const char *where, struct db **ret, struct error *err)
{
    /* SQLite would make it readable for others, and its other files have the same mode. */
    int fd = open(where, O_RDONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno != EEXIST)
        return error_errno(err, errno, "cannot create %s", where);
    if (fd >= 0)
        close(fd);
    struct sqlite *s = calloc(1, sizeof *s);
    if (!s)
        return error_set(err, ENOMEM, "out of memory");
    s->db.driver = &SQLITE;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    int r =
        sqlite3_open_v2(where, &s->handle, flags, NULL) == SQLITE_OK ? 0 : sqlite_failed(s, err);
    if (r == 0) {
        sqlite3_busy_timeout(s->handle, BUSY_MS);
        if (sqlite3_exec(s->handle,
                         "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                         "PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;"
                         "PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -16000;"
                         "PRAGMA journal_size_limit = 67108864; PRAGMA temp_store = MEMORY;",
                         NULL, NULL, NULL) != SQLITE_OK)
            r = sqlite_failed(s, err);
    }
    if (r < 0) {
        sqlite_close(&s->db);
        return error_wrap(err, "cannot open %s", where);
    }
    *ret = &s->db;
    return 0;
}

static int sqlite_begin(struct db *db, bool writer, struct error *err)
{
    struct sqlite *s = (struct sqlite *)db;
    int64_t r = db_run(&s->db, writer ? "BEGIN IMMEDIATE" : "BEGIN", NULL, 0, err);
    return r < 0 ? (int)r : 0;
}

static bool sqlite_in_transaction(struct db *db)
{
    return !sqlite3_get_autocommit(((struct sqlite *)db)->handle);
}

/* A statement that is not in use, at the text's place of the cache; another one there makes room. */
static int sqlite_prepare(struct sqlite *s, const char *sql, sqlite3_stmt **ret, struct error *err)
{
    size_t at = digest(DIGEST_BEGIN, sql, strlen(sql)) & (STATEMENTS - 1);
    sqlite3_stmt *kept = s->cache[at].statement;
    if (kept && !s->cache[at].busy && strcmp(sqlite3_sql(kept), sql) == 0) {
        s->cache[at].busy = true;
        *ret = kept;
        return 0;
    }
    sqlite3_stmt *fresh = NULL;
    if (sqlite3_prepare_v3(s->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &fresh, NULL) !=
        SQLITE_OK)
        return sqlite_failed(s, err);
    if (!s->cache[at].busy) {
        sqlite3_finalize(kept);
        s->cache[at].statement = fresh;
        s->cache[at].busy = true;
    }
    *ret = fresh;
    return 0;
}

static void sqlite_done(struct db_rows *rows)
{
    struct sqlite *s = (struct sqlite *)rows->db;
    sqlite3_stmt *statement = rows->statement;
    size_t at = digest(DIGEST_BEGIN, sqlite3_sql(statement), strlen(sqlite3_sql(statement))) &
                (STATEMENTS - 1);
    if (s->cache[at].statement != statement) {
        sqlite3_finalize(statement);
        return;
    }
    sqlite3_reset(statement);
    s->cache[at].busy = false;
}

static int sqlite_query(struct db *db, struct db_rows *ret, const char *sql,
                        const struct db_value *values, size_t n, struct error *err)
{
    struct sqlite *s = (struct sqlite *)db;
    sqlite3_stmt *statement = NULL;
    int r = sqlite_prepare(s, sql, &statement, err);
    if (r < 0)
        return r;
    ret->statement = statement;
    /* SQLite numbers "$7" by its first appearance, not by its name. */
    for (int at = 1; at <= sqlite3_bind_parameter_count(statement) && r == 0; at++) {
        size_t number = strtoul(sqlite3_bind_parameter_name(statement, at) + 1, NULL, 10);
        const struct db_value null = {0};
        const struct db_value *v = number >= 1 && number <= n ? &values[number - 1] : &null;
        int code = SQLITE_OK;
        if (v->type == DB_INT)
            code = sqlite3_bind_int64(statement, at, v->i);
        else if (v->type == DB_REAL)
            code = sqlite3_bind_double(statement, at, v->real);
        else if (v->type == DB_TEXT)
            code = sqlite3_bind_text64(statement, at, v->text, v->n, SQLITE_TRANSIENT, SQLITE_UTF8);
        else
            code = sqlite3_bind_null(statement, at);
        if (code != SQLITE_OK)
            r = sqlite_failed(s, err);
    }
    if (r < 0)
        db_rows_done(ret);
    return r;
}

static int sqlite_next(struct db_rows *rows, struct error *err)
{
    sqlite3_stmt *statement = rows->statement;
    int code = sqlite3_step(statement);
    if (code == SQLITE_DONE)
        return 0;
    if (code != SQLITE_ROW)
        return sqlite_failed((struct sqlite *)rows->db, err);
    rows->n = (unsigned)sqlite3_column_count(statement);
    if (rows->n > DB_COLUMNS_MAX)
        return error_set(err, E2BIG, "the store: a query has too many columns");
    for (unsigned i = 0; i < rows->n; i++) {
        int type = sqlite3_column_type(statement, (int)i);
        struct db_value *v = &rows->column[i];
        *v = (struct db_value){0};
        if (type == SQLITE_INTEGER)
            *v = db_int(sqlite3_column_int64(statement, (int)i));
        else if (type == SQLITE_FLOAT)
            *v = db_real(sqlite3_column_double(statement, (int)i));
        else if (type == SQLITE_TEXT)
            *v = db_text_n((const char *)sqlite3_column_text(statement, (int)i),
                           (size_t)sqlite3_column_bytes(statement, (int)i));
    }
    return 1;
}

static int64_t sqlite_changed(struct db *db)
{
    return sqlite3_changes64(((struct sqlite *)db)->handle);
}

const struct db_driver SQLITE = {
    .scheme = "sqlite:",
    .open = sqlite_open,
    .close = sqlite_close,
    .begin = sqlite_begin,
    .in_transaction = sqlite_in_transaction,
    .query = sqlite_query,
    .next = sqlite_next,
    .done = sqlite_done,
    .changed = sqlite_changed,
};
