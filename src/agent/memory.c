/*
 * The database of memory.
 *
 *     sessions   one row per history: how much of it was taken in, and how the file looked then
 *     docs       one row per piece of text, as a place: session, message, part, byte. Words of a
 * doc that is gone stay in the index, which has no text to take them back by; searches join with
 * docs, and a number is never given twice words      the full-text index over the same row numbers;
 * it keeps no text vectors    of docs, where an embedding model is configured
 *
 * Whatever is wrong with the file, nothing is lost by beginning anew. So commits are not synced.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history_file.h"
#include "memory_private.h"
#include "banned.h"

#define VERSION "1"
#define BUSY_MS 10000

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
    "PRAGMA user_version = " VERSION ";"
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
                     m->db ? sqlite3_errmsg(m->db) : "no memory");
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

static int version_of(struct memory *m, struct error *err)
{
    _cleanup_stmt_ sqlite3_stmt *s = memory_prepare(m, "PRAGMA user_version", err);
    if (!s)
        return -(err ? err->code : EIO);
    return sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int(s, 0) : memory_failed(m, err);
}

static void close_db(struct memory *m)
{
    sqlite3_close_v2(m->db);
    m->db = NULL;
}

/*
 * An empty database that is the person's alone: SQLite would make one that everybody can read. It
 * is made under another name, because closing a file drops all locks that this process has on it,
 * those of SQLite in other threads as well: the one that SQLite uses is opened by nobody else.
 */
static int make_file(struct memory *m, struct error *err)
{
    struct stat st;
    if (fstatat(m->folder, "memory.db", &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISREG(st.st_mode) ? 0 : error_set(err, EINVAL, "%s is no file", m->path);
    unlinkat(m->folder, ".memory.new", 0); /* of an attempt that a crash ended: the lock is ours */
    int fd =
        openat(m->folder, ".memory.new", O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
    if (fd < 0 || renameat(m->folder, ".memory.new", m->folder, "memory.db") < 0)
        return error_errno(err, errno, "cannot make %s", m->path);
    return 0;
}

/* Held while a database is opened, made or set aside: two programs at once would find each other's
 * half-made one. */
static int take_lock(struct memory *m, int *ret_fd, struct error *err)
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

static int open_db(struct memory *m, struct error *err)
{
    int made = make_file(m, err);
    if (made < 0)
        return made;
    struct error why = {0};
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_FULLMUTEX;
    int r = sqlite3_open_v2(m->path, &m->db, flags, NULL) == SQLITE_OK ? 0 : memory_failed(m, &why);
    if (r == 0) {
        sqlite3_busy_timeout(m->db, BUSY_MS);
        r = memory_run(
            m, "PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF; PRAGMA trusted_schema = OFF;",
            &why);
    }
    if (r == 0)
        r = version_of(m, &why);
    if (r == 0)
        r = memory_run(m, SCHEMA_SQL, &why);
    else if (r > 0)
        r = r == atoi(VERSION) ? 0 : -ENOTUNIQ;
    if (r < 0 && err)
        *err = why;
    return r;
}

/* One whose tables are another hutch's is worth nothing; one that is damaged may be worth a look.
 */
static int begin_anew(struct memory *m, bool keep, struct error *err)
{
    static const char *const ends[] = {"", "-wal", "-shm"};
    close_db(m);
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        char from[32], to[48];
        snprintf(from, sizeof from, "memory.db%s", ends[i]);
        snprintf(to, sizeof to, "memory.db.damaged%s", ends[i]);
        int done = keep ? renameat(m->folder, from, m->folder, to) : unlinkat(m->folder, from, 0);
        if (done < 0 && errno != ENOENT)
            return error_errno(err, errno, "cannot set %s aside", m->path);
    }
    return open_db(m, err);
}

int memory_begin_anew(struct memory *m, struct error *err)
{
    _cleanup_fd_ int lock = -1;
    int r = take_lock(m, &lock, err);
    return r < 0 ? r : begin_anew(m, true, err);
}

static int open_or_begin(struct memory *m, struct error *err)
{
    _cleanup_fd_ int lock = -1;
    int r = take_lock(m, &lock, err);
    if (r == 0)
        r = open_db(m, err);
    if (r < 0 && (r == -ENOTUNIQ || memory_is_damaged(m)))
        r = begin_anew(m, r != -ENOTUNIQ, err);
    return r;
}

int memory_open(const struct memory_options *o, struct memory **ret, struct error *err)
{
    _cleanup_free_ char *folder = NULL;
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "no memory");
    m->folder = -1;
    pthread_mutex_init(&m->lock, NULL);
    m->embedder = o && o->model ? o->embedder : NULL;
    m->model = o ? o->model : NULL;
    int r = history_folder(&m->folder, err);
    if (r == 0)
        r = history_folder_path(&folder, err);
    if (r == 0 && asprintf(&m->path, "%s/memory.db", folder) < 0) {
        m->path = NULL;
        r = error_set(err, ENOMEM, "no memory");
    }
    if (r == 0)
        r = open_or_begin(m, err);
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
    close_db(m);
    cleanup_close(&m->folder);
    pthread_mutex_destroy(&m->lock);
    free(m->path);
    free(m);
    return NULL;
}
