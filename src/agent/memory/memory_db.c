/*
 * The database of memory, and keeping it up to date with the histories.
 *
 *     sessions   one row per history: how much of it was indexed, and how the file looked then
 *     docs       one row per piece of text, as a position: session, message, part, byte
 *     words      the full-text index over the same row numbers; it keeps no text, so words of a
 *                doc that is gone stay: searches join with docs, and a number is never reused
 *     vectors    of docs, where an embedding model is configured
 *
 * Whatever is wrong with the file, it can be made again from the histories. So commits are not
 * synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history_file.h"
#include "memory_db.h"
#include "banned.h"

#define DB_VERSION "1"
#define BUSY_MS    10000

static const char SCHEMA_SQL[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL, "
    "workspace TEXT,"
    " size INTEGER NOT NULL, written INTEGER NOT NULL, messages INTEGER NOT NULL, reached INTEGER "
    "NOT NULL);"
    "CREATE TABLE IF NOT EXISTS docs (id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT "
    "NULL, "
    "message INTEGER NOT NULL,"
    " part INTEGER NOT NULL, at INTEGER NOT NULL, n INTEGER NOT NULL, start INTEGER NOT NULL,"
    " length INTEGER NOT NULL, turn INTEGER NOT NULL, undone INTEGER NOT NULL);"
    "CREATE INDEX IF NOT EXISTS docs_place ON docs (session, message);"
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, parts, content='',"
    " tokenize='porter unicode61 remove_diacritics 2');"
    "INSERT INTO words (words, rank) VALUES ('hashsize', 4194304);"
    "CREATE TABLE IF NOT EXISTS vectors (doc INTEGER PRIMARY KEY, embedder TEXT NOT NULL, vector "
    "BLOB NOT "
    "NULL);"
    "PRAGMA user_version = " DB_VERSION ";"
    "COMMIT;";

void memory_finalize(sqlite3_stmt **s)
{
    sqlite3_finalize(*s);
}

int memory_failed(struct memory *m, struct error *err)
{
    int code = m->db ? sqlite3_errcode(m->db) & 0xff : SQLITE_NOMEM;
    int number = code == SQLITE_FULL                              ? ENOSPC
                 : code == SQLITE_BUSY || code == SQLITE_LOCKED   ? EBUSY
                 : code == SQLITE_NOMEM                           ? ENOMEM
                 : code == SQLITE_READONLY || code == SQLITE_PERM ? EACCES
                 : code == SQLITE_INTERRUPT                       ? ECANCELED
                                                                  : EIO;
    return error_set(err, number, "memory (%s): %s", m->path,
                     m->db ? sqlite3_errmsg(m->db) : "out of memory");
}

sqlite3_stmt *memory_prepare(struct memory *m, const char *sql, struct error *err)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(m->db, sql, -1, &s, NULL) != SQLITE_OK)
        memory_failed(m, err);
    return s;
}

int memory_run(struct memory *m, const char *sql, struct error *err)
{
    return sqlite3_exec(m->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : memory_failed(m, err);
}

bool memory_is_damaged(const struct memory *m)
{
    int code = m->db ? sqlite3_errcode(m->db) & 0xff : SQLITE_OK;
    return code == SQLITE_CORRUPT || code == SQLITE_NOTADB;
}

/* Held while a database is opened, made or removed, so that no other program finds it half-made. */
static int db_lock(struct memory *m, int *ret_fd, struct error *err)
{
    _cleanup_fd_ int fd =
        openat(m->folder, "memory.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -1 : 0;
    while (r == 0 && (r = flock(fd, LOCK_EX)) < 0 && errno == EINTR)
        r = 0;
    if (r < 0)
        return error_errno(err, errno, "cannot lock %s", m->path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int db_open(struct memory *m, struct error *err)
{
    struct stat st;
    struct error why = {0};
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX;
    bool exists = fstatat(m->folder, "memory.db", &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (exists && !S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%s is not a regular file", m->path);
    if (!exists) {
        /* An empty database that only its owner can read, which SQLite would not make. It gets
         * another name at first, because closing a file drops all locks that this process has on
         * it, those of SQLite in other threads as well: only SQLite itself may open memory.db. */
        unlinkat(m->folder, ".memory.new", 0); /* of an attempt that a crash ended: we lock */
        int fd = openat(m->folder, ".memory.new",
                        O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd >= 0)
            close(fd);
        if (fd < 0 || renameat(m->folder, ".memory.new", m->folder, "memory.db") < 0)
            return error_errno(err, errno, "cannot create %s", m->path);
    }
    int r = sqlite3_open_v2(m->path, &m->db, flags, NULL) == SQLITE_OK ? 0 : memory_failed(m, &why);
    if (r == 0) {
        sqlite3_busy_timeout(m->db, BUSY_MS);
        r = memory_run(
            m, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;",
            &why);
    }
    _cleanup_stmt_ sqlite3_stmt *s = r == 0 ? memory_prepare(m, "PRAGMA user_version", &why) : NULL;
    if (r == 0 && (!s || sqlite3_step(s) != SQLITE_ROW))
        r = memory_failed(m, &why);
    int version = r == 0 ? sqlite3_column_int(s, 0) : 0;
    if (r == 0 && version == 0) {
        sqlite3_reset(s);
        r = memory_run(m, SCHEMA_SQL, &why);
    } else if (r == 0) {
        r = version == atoi(DB_VERSION) ? 0 : -ENOTUNIQ;
    }
    if (r < 0 && err)
        *err = why;
    return r;
}

static int db_rebuild(struct memory *m, struct error *err)
{
    static const char *const files[] = {"memory.db", "memory.db-wal", "memory.db-shm"};
    sqlite3_close_v2(m->db);
    m->db = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (unlinkat(m->folder, files[i], 0) < 0 && errno != ENOENT)
            return error_errno(err, errno, "cannot remove %s", m->path);
    return db_open(m, err);
}

int memory_rebuild(struct memory *m, struct error *err)
{
    _cleanup_fd_ int lock = -1;
    int r = db_lock(m, &lock, err);
    return r < 0 ? r : db_rebuild(m, err);
}

int memory_open(const struct memory_options *o, struct memory **ret, struct error *err)
{
    _cleanup_free_ char *folder = NULL;
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "out of memory");
    m->folder = -1;
    pthread_mutex_init(&m->lock, NULL);
    m->embedder = o && o->model ? o->embedder : NULL;
    m->model = o ? o->model : NULL;
    int r = history_folder(&m->folder, err);
    if (r == 0)
        r = history_folder_path(&folder, err);
    if (r == 0 && asprintf(&m->path, "%s/memory.db", folder) < 0) {
        m->path = NULL;
        r = error_set(err, ENOMEM, "out of memory");
    }
    _cleanup_fd_ int lock = -1;
    if (r == 0)
        r = db_lock(m, &lock, err);
    if (r == 0) {
        r = db_open(m, err);
        if (r == -ENOTUNIQ || (r < 0 && memory_is_damaged(m)))
            r = db_rebuild(m, err);
    }
    if (r < 0) {
        memory_close(m);
        return r;
    }
    *ret = m;
    return 0;
}

struct memory *memory_close(struct memory *m)
{
    if (!m)
        return NULL;
    sqlite3_close_v2(m->db);
    cleanup_close(&m->folder);
    pthread_mutex_destroy(&m->lock);
    free(m->path);
    free(m);
    return NULL;
}

/* One pass over the histories, for those that changed since they were indexed. */
struct update {
    struct memory *m;
    const char *only;
    struct history *own;
    int cancel;
    sqlite3_stmt *known;
    struct error *err;
};

static int update_session(void *data, const char *name, size_t n_id)
{
    struct update *p = data;
    struct stat st;
    char id[HISTORY_ID_MAX] = "";
    memcpy(id, name, n_id);
    if ((p->only && strcmp(p->only, id) != 0) ||
        fstatat(p->m->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
        return 0;
    sqlite3_bind_text(p->known, 1, name, (int)n_id, SQLITE_STATIC);
    sqlite3_bind_int64(p->known, 2, (sqlite3_int64)st.st_size);
    sqlite3_bind_int64(p->known, 3,
                       (sqlite3_int64)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec);
    bool known = sqlite3_step(p->known) == SQLITE_ROW;
    sqlite3_reset(p->known);
    if (known)
        return 0;
    if (p->own && strcmp(history_id(p->own), id) == 0)
        return memory_index(p->m, p->own, &st, p->cancel, p->err);
    struct history *h = NULL;
    int r = history_open(name, true, &h, NULL, NULL);
    if (r < 0)
        return 0; /* the file is not a session */
    r = memory_index(p->m, h, &st, p->cancel, p->err);
    history_close(h);
    return r;
}

/* Sessions whose files are gone. */
static int update_forget_removed(struct memory *m, struct error *err)
{
    _cleanup_stmt_ sqlite3_stmt *all = memory_prepare(m, "SELECT id, name FROM sessions", err);
    _cleanup_stmt_ sqlite3_stmt *drop = memory_prepare(m, "DELETE FROM sessions WHERE id = ?", err);
    int r = all && drop ? 0 : -EIO;
    while (r == 0 && sqlite3_step(all) == SQLITE_ROW) {
        char name[HISTORY_ID_MAX + 8];
        struct stat st;
        snprintf(name, sizeof name, "%s.json", (const char *)sqlite3_column_text(all, 1));
        if (fstatat(m->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
            continue;
        sqlite3_int64 session = sqlite3_column_int64(all, 0);
        r = memory_forget(m, session, err);
        sqlite3_bind_int64(drop, 1, session);
        if (r == 0 && sqlite3_step(drop) != SQLITE_DONE)
            r = memory_failed(m, err);
        sqlite3_reset(drop);
    }
    return r;
}

static int update_all(struct memory *m, const char *session, struct history *own, int cancel,
                      struct error *err)
{
    struct update p = {.m = m, .only = session, .own = own, .cancel = cancel, .err = err};
    _cleanup_stmt_ sqlite3_stmt *known = memory_prepare(
        m, "SELECT 1 FROM sessions WHERE name = ? AND size = ? AND written = ?", err);
    _cleanup_stmt_ sqlite3_stmt *sparse = memory_prepare(
        m, "SELECT (SELECT count(*) FROM words_docsize) > 2 * (SELECT count(*) FROM docs) + 10000",
        err);
    if (!known || !sparse)
        return -EIO;
    p.known = known;
    int r = session ? 0 : update_forget_removed(m, err);
    if (r == 0 && !session) {
        if (sqlite3_step(sparse) != SQLITE_ROW)
            return memory_failed(m, err);
        bool rebuild =
            sqlite3_column_int(sparse, 0); /* most of the index is of docs that are gone */
        sqlite3_reset(sparse);
        if (rebuild)
            r = memory_run(m,
                           "BEGIN IMMEDIATE; INSERT INTO words (words) VALUES ('delete-all');"
                           " DELETE FROM docs; DELETE FROM vectors; DELETE FROM sessions; COMMIT;"
                           " VACUUM;",
                           err);
    }
    return r < 0 ? r : history_each(m->folder, update_session, &p);
}

int memory_update(struct memory *m, const char *session, struct history *own, int cancel,
                  struct error *err)
{
    pthread_mutex_lock(&m->lock);
    int r = update_all(m, session, own, cancel, err);
    if (r == -EUCLEAN || (r < 0 && memory_is_damaged(m))) {
        r = memory_rebuild(m, err);
        if (r == 0)
            r = update_all(m, session, own, cancel, err);
    }
    if (r == 0 && m->embedder)
        memory_embed_new(m, cancel);
    pthread_mutex_unlock(&m->lock);
    return r;
}
