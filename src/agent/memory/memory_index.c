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
 *
 * A session's row says how many of its messages were indexed and where the last of them ended. A
 * history only grows, so whatever stands behind is new; if that place is no longer the end of a
 * message, somebody rewrote the file, and the session is indexed again from its beginning. Indexing
 * goes in pieces, each a transaction that begins by reading the row again: two programs share the
 * work instead of doing it twice, and a search that is cancelled loses little.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "conversation.h"
#include "history_file.h"
#include "memory_db.h"
#include "thread.h"
#include "text.h"
#include "banned.h"

#define DB_VERSION  "1"
#define BUSY_MS     10000
#define CHUNK_MAX   3000
#define CHUNK_MIN   2000
#define INDEX_PIECE (4u << 20) /* bytes of text in one transaction */
#define PARTS_MAX   4096       /* of one message */
#define CALLS_MAX   64

static const char SCHEMA_SQL[] =
    "BEGIN IMMEDIATE;"
    "CREATE TABLE IF NOT EXISTS sessions (id INTEGER PRIMARY KEY, name TEXT UNIQUE NOT NULL,"
    " workspace TEXT, size INTEGER NOT NULL, written INTEGER NOT NULL, messages INTEGER NOT NULL,"
    " reached INTEGER NOT NULL);"
    "CREATE TABLE IF NOT EXISTS docs (id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " session INTEGER NOT NULL, message INTEGER NOT NULL, part INTEGER NOT NULL,"
    " at INTEGER NOT NULL, n INTEGER NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL,"
    " turn INTEGER NOT NULL, undone INTEGER NOT NULL);"
    "CREATE INDEX IF NOT EXISTS docs_place ON docs (session, message);"
    "CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, parts, content='',"
    " tokenize='porter unicode61 remove_diacritics 2');"
    "INSERT INTO words (words, rank) VALUES ('hashsize', 4194304);"
    "CREATE TABLE IF NOT EXISTS vectors (doc INTEGER PRIMARY KEY, embedder TEXT NOT NULL,"
    " vector BLOB NOT NULL);"
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

/* A statement without a result, with numbers for its parameters. */
static int memory_run_with(struct memory *m, const char *sql, const sqlite3_int64 *values, size_t n,
                           struct error *err)
{
    _cleanup_stmt_ sqlite3_stmt *s = memory_prepare(m, sql, err);
    if (!s)
        return -EIO;
    for (size_t i = 0; i < n; i++)
        sqlite3_bind_int64(s, (int)i + 1, values[i]);
    return sqlite3_step(s) == SQLITE_DONE ? 0 : memory_failed(m, err);
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
    const char *folder = o ? o->folder : NULL;
    struct memory *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "out of memory");
    m->folder = -1;
    pthread_mutex_init(&m->lock, NULL);
    m->embedder = o && o->model ? o->embedder : NULL;
    m->model = o ? o->model : NULL;
    int r = history_folder(folder, &m->folder, err);
    if (r == 0)
        r = history_folder_path(folder, &m->histories, err);
    m->path = r == 0 ? str_printf("%s/memory.db", m->histories) : NULL;
    if (r == 0 && !m->path)
        r = error_set(err, ENOMEM, "out of memory");
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
    free(m->histories);
    free(m->path);
    free(m);
    return NULL;
}

int memory_part(const json_t *message, size_t part, struct memory_part *ret, struct buf *text)
{
    const json_t *content = json_object_get(message, "content");
    const char *role = json_get_string(message, "role");
    const json_t *block = json_is_array(content) ? json_array_get(content, part) : NULL;
    *ret = (struct memory_part){.role = role ? role : ""};
    if (!block && (part > 0 || json_is_array(content)))
        return -ENOENT;
    if (block_is(block, "tool_result")) {
        ret->call = json_get_string(block, "tool_use_id");
        ret->role = "tool";
    } else if (block_is(block, "tool_use")) {
        ret->call = json_get_string(block, "id");
    }
    return history_text(block ? block : message, text);
}

/* Does a part of a name begin at i? */
static bool name_has_border(const char *s, size_t i, size_t n)
{
    unsigned char before = (unsigned char)s[i - 1], c = (unsigned char)s[i];
    if (isdigit(before) != 0 && isdigit(c) != 0)
        return false;
    if (isdigit(before) || isdigit(c))
        return true;
    if (islower(before) && isupper(c))
        return true;
    return isupper(before) && isupper(c) && i + 1 < n && islower((unsigned char)s[i + 1]);
}

/* The parts of names as words of their own: `HTTPServer2` gives `HTTP Server 2`. */
static int split_names(const char *text, size_t n, struct buf *ret)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        bool parts = false;
        while (end < n && isalnum((unsigned char)text[end]) && (unsigned char)text[end] < 0x80) {
            parts |= end > i && name_has_border(text, end, n);
            end++;
        }
        for (size_t k = i; parts && k < end && end - i <= 64; k++) {
            if (k == i || name_has_border(text, k, n))
                buf_append(ret, " ", 1);
            buf_append(ret, text + k, 1);
        }
        i = end > i ? end : i + 1;
    }
    return ret->failed ? -ENOBUFS : 0;
}

/* The bytes from the start that make one row: cut at the end of a line or at a blank, never in a
 * character. */
static size_t chunk_length(const char *text, size_t n)
{
    if (n <= CHUNK_MAX)
        return n;
    for (size_t i = CHUNK_MAX; i > CHUNK_MIN; i--)
        if (text[i - 1] == '\n')
            return i;
    for (size_t i = CHUNK_MAX; i > CHUNK_MIN; i--)
        if (text[i - 1] == ' ')
            return i;
    return CHUNK_MAX - utf8_cut_end((const uint8_t *)text, CHUNK_MAX);
}

/* Calls of `memory` in the last answer: neither they nor their results are remembered, or every
 * search would find itself. */
struct own_calls {
    char ids[CALLS_MAX][64];
    size_t count;
};

struct indexing {
    struct memory *m;
    struct history *h;
    sqlite3_int64 session;
    size_t messages; /* that are in */
    uint64_t reached;
    struct own_calls calls;
    size_t bytes; /* of this piece */
    sqlite3_stmt *doc, *words;
    struct error *err;
};

static void own_calls_note(struct own_calls *c, const json_t *message)
{
    size_t i;
    json_t *block;
    const char *role = json_get_string(message, "role");
    if (!role || strcmp(role, "assistant") != 0)
        return;
    c->count = 0;
    json_array_foreach(json_object_get(message, "content"), i, block)
    {
        const char *name = json_get_string(block, "name");
        const char *id = json_get_string(block, "id");
        if (name && id && strcmp(name, "memory") == 0 && c->count < CALLS_MAX)
            snprintf(c->ids[c->count++], sizeof c->ids[0], "%s", id);
    }
}

static int index_row(struct indexing *u, const char *text, size_t n, size_t message, size_t part,
                     size_t at, const struct history_entry *e)
{
    _cleanup_buf_ struct buf parts = BUF_INIT(16u << 10);
    split_names(text, n, &parts);
    const sqlite3_int64 values[] = {
        u->session,       (sqlite3_int64)message,   (sqlite3_int64)part, (sqlite3_int64)at,
        (sqlite3_int64)n, (sqlite3_int64)e->offset, e->length,           e->turn,
        e->undone};
    for (size_t i = 0; i < ARRAY_SIZE(values); i++)
        sqlite3_bind_int64(u->doc, (int)i + 1, values[i]);
    int done = sqlite3_step(u->doc);
    sqlite3_reset(u->doc);
    if (done == SQLITE_DONE) {
        sqlite3_bind_int64(u->words, 1, sqlite3_last_insert_rowid(u->m->db));
        sqlite3_bind_text(u->words, 2, text, (int)n, SQLITE_STATIC);
        sqlite3_bind_text(u->words, 3, parts.len ? (char *)parts.data : "", (int)parts.len,
                          SQLITE_STATIC);
        done = sqlite3_step(u->words);
        sqlite3_reset(u->words);
    }
    u->bytes += n;
    return done == SQLITE_DONE ? 0 : memory_failed(u->m, u->err);
}

static int index_message(struct indexing *u, size_t i, const struct history_entry *e)
{
    json_t *message = NULL;
    int r = history_read(u->h, i, &message, u->err);
    if (r == -EBADMSG)
        return 0; /* it cannot be shown either */
    if (r < 0)
        return r;
    own_calls_note(&u->calls, message);
    for (size_t part = 0; r == 0 && part < PARTS_MAX; part++) {
        _cleanup_buf_ struct buf text = BUF_INIT(HISTORY_MESSAGE_MAX);
        struct memory_part p;
        bool own = false;
        r = memory_part(message, part, &p, &text);
        for (size_t k = 0; r == 0 && p.call && k < u->calls.count; k++)
            own |= strncmp(u->calls.ids[k], p.call, sizeof u->calls.ids[k] - 1) == 0;
        for (size_t at = 0; r == 0 && !own && at < text.len;) {
            size_t n = chunk_length((char *)text.data + at, text.len - at);
            r = index_row(u, (char *)text.data + at, n, i, part, at, e);
            at += n;
        }
    }
    json_decref(message);
    return r == -ENOENT ? 0 : r;
}

static int session_forget(struct memory *m, sqlite3_int64 session, struct error *err)
{
    int r = memory_run_with(
        m, "DELETE FROM vectors WHERE doc IN (SELECT id FROM docs WHERE session = ?)", &session, 1,
        err);
    return r < 0 ? r : memory_run_with(m, "DELETE FROM docs WHERE session = ?", &session, 1, err);
}

static sqlite3_int64 stat_written(const struct stat *st)
{
    return (sqlite3_int64)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec;
}

/* How far the session is indexed, under the lock of the transaction. */
static int session_find_position(struct indexing *u)
{
    struct history_entry e;
    _cleanup_stmt_ sqlite3_stmt *row =
        memory_prepare(u->m, "SELECT id, messages, reached FROM sessions WHERE name = ?", u->err);
    if (!row)
        return -EIO;
    sqlite3_bind_text(row, 1, history_id(u->h), -1, SQLITE_STATIC);
    int r = 0, found = sqlite3_step(row);
    if (found == SQLITE_ROW) {
        u->session = sqlite3_column_int64(row, 0);
        u->messages = (size_t)sqlite3_column_int64(row, 1);
        u->reached = (uint64_t)sqlite3_column_int64(row, 2);
    } else if (found != SQLITE_DONE) {
        return memory_failed(u->m, u->err);
    } else {
        _cleanup_stmt_ sqlite3_stmt *s = memory_prepare(
            u->m,
            "INSERT INTO sessions (name, workspace, size, written, messages, reached) "
            "VALUES (?, ?, 0, 0, 0, 0)",
            u->err);
        if (!s)
            return -EIO;
        sqlite3_bind_text(s, 1, history_id(u->h), -1, SQLITE_STATIC);
        sqlite3_bind_text(s, 2, history_workspace(u->h), -1, SQLITE_STATIC);
        r = sqlite3_step(s) == SQLITE_DONE ? 0 : memory_failed(u->m, u->err);
        u->session = sqlite3_last_insert_rowid(u->m->db);
        u->messages = 0;
        u->reached = 0;
    }
    if (r < 0 || u->messages == 0)
        return r;
    if (!history_peek(u->h, u->messages - 1, &e) || e.offset + e.length != u->reached) {
        u->messages = 0;
        u->reached = 0;
        return session_forget(u->m, u->session, u->err);
    }
    json_t *last = NULL;
    if (history_read(u->h, u->messages - 1, &last, NULL) == 0)
        own_calls_note(&u->calls, last);
    json_decref(last);
    return 0;
}

/* 1: there is more. */
static int index_transaction(struct indexing *u, const struct stat *st)
{
    struct history_entry e;
    bool undo = false; /* one is among the messages */
    int r = memory_run(u->m, "BEGIN IMMEDIATE", u->err);
    if (r < 0)
        return r;
    r = session_find_position(u);
    u->bytes = 0;
    while (r == 0 && u->bytes < INDEX_PIECE && history_peek(u->h, u->messages, &e)) {
        r = index_message(u, u->messages, &e);
        undo |= e.kind == HISTORY_UNDO;
        u->messages++;
        u->reached = e.offset + e.length;
    }
    bool complete = u->messages >= history_count(u->h);
    /* An undo concerns messages that are indexed already. */
    for (size_t i = 0; r == 0 && undo && i < u->messages && history_peek(u->h, i, &e); i++)
        r = memory_run_with(
            u->m, "UPDATE docs SET undone = ? WHERE session = ? AND message = ? AND undone <> ?1",
            (sqlite3_int64[]){e.undone, u->session, (sqlite3_int64)i}, 3, u->err);
    const sqlite3_int64 values[] = {(sqlite3_int64)u->messages, (sqlite3_int64)u->reached,
                                    complete ? (sqlite3_int64)st->st_size : -1, stat_written(st),
                                    u->session};
    if (r == 0)
        r = memory_run_with(
            u->m,
            "UPDATE sessions SET messages = ?, reached = ?, size = ?, written = ? WHERE id = ?",
            values, ARRAY_SIZE(values), u->err);
    if (r == 0)
        r = memory_run(u->m, "COMMIT", u->err);
    if (r < 0) {
        bool damaged = memory_is_damaged(u->m);
        sqlite3_exec(u->m->db, "ROLLBACK", NULL, NULL, NULL);
        return damaged ? -EUCLEAN : r;
    }
    return !complete;
}

/* Indexes what is new in one session, whose file looked like `st` before it was opened. -EUCLEAN:
 * the database is damaged. */
static int session_index(struct memory *m, struct history *h, const struct stat *st, int cancel,
                         struct error *err)
{
    struct indexing u = {.m = m, .h = h, .err = err};
    u.doc = memory_prepare(m,
                           "INSERT INTO docs (session, message, part, at, n, start, length, turn,"
                           " undone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           err);
    u.words = memory_prepare(m, "INSERT INTO words (rowid, text, parts) VALUES (?, ?, ?)", err);
    int r = u.doc && u.words ? 1 : -EIO;
    while (r == 1) {
        r = cancel_check(cancel, err);
        if (r == 0)
            r = index_transaction(&u, st);
    }
    sqlite3_finalize(u.doc);
    sqlite3_finalize(u.words);
    return r;
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
    sqlite3_bind_int64(p->known, 3, stat_written(&st));
    bool known = sqlite3_step(p->known) == SQLITE_ROW;
    sqlite3_reset(p->known);
    if (known)
        return 0;
    if (p->own && strcmp(history_id(p->own), id) == 0)
        return session_index(p->m, p->own, &st, p->cancel, p->err);
    struct history *h = NULL;
    int r = history_open(p->m->histories, name, true, &h, NULL, NULL);
    if (r < 0)
        return 0; /* the file is not a session */
    r = session_index(p->m, h, &st, p->cancel, p->err);
    history_close(h);
    return r;
}

/* Sessions whose files are gone. */
static int update_forget_removed(struct memory *m, struct error *err)
{
    _cleanup_stmt_ sqlite3_stmt *all = memory_prepare(m, "SELECT id, name FROM sessions", err);
    int r = all ? 0 : -EIO;
    while (r == 0 && sqlite3_step(all) == SQLITE_ROW) {
        char name[HISTORY_ID_MAX + 8];
        struct stat st;
        sqlite3_int64 session = sqlite3_column_int64(all, 0);
        snprintf(name, sizeof name, "%s.json", (const char *)sqlite3_column_text(all, 1));
        if (fstatat(m->folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
            continue;
        r = session_forget(m, session, err);
        if (r == 0)
            r = memory_run_with(m, "DELETE FROM sessions WHERE id = ?", &session, 1, err);
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
