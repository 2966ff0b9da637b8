/*
 * Indexing what is new in a history.
 *
 * A session's row says how many of its messages were indexed and where the last of them ended. A
 * history only grows, so whatever stands behind is new; if that place is no longer the end of a
 * message, somebody rewrote the file, and the session is indexed again from its beginning.
 *
 * Indexing goes in pieces, each a transaction that begins by reading the row again: two programs
 * share the work instead of doing it twice, and a search that is cancelled loses little.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

#include "conversation.h"
#include "history_file.h"
#include "memory_db.h"
#include "text.h"
#include "banned.h"

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

#define CHUNK_MAX 3000
#define CHUNK_MIN 2000

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

#define INDEX_PIECE (4u << 20) /* bytes of text in one transaction */
#define PARTS_MAX   4096       /* of one message */
#define CALLS_MAX   64

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
    bool undo;    /* one was among the messages */
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

int memory_forget(struct memory *m, sqlite3_int64 session, struct error *err)
{
    _cleanup_stmt_ sqlite3_stmt *vectors = memory_prepare(
        m, "DELETE FROM vectors WHERE doc IN (SELECT id FROM docs WHERE session = ?)", err);
    _cleanup_stmt_ sqlite3_stmt *docs =
        memory_prepare(m, "DELETE FROM docs WHERE session = ?", err);
    if (!vectors || !docs)
        return -EIO;
    sqlite3_bind_int64(vectors, 1, session);
    sqlite3_bind_int64(docs, 1, session);
    bool done = sqlite3_step(vectors) == SQLITE_DONE && sqlite3_step(docs) == SQLITE_DONE;
    return done ? 0 : memory_failed(m, err);
}

static const char ADD_DOC[] = "INSERT INTO docs (session, message, part, at, n, start, length,"
                              " turn, undone) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";

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
        return memory_forget(u->m, u->session, u->err);
    }
    json_t *last = NULL;
    if (history_read(u->h, u->messages - 1, &last, NULL) == 0)
        own_calls_note(&u->calls, last);
    json_decref(last);
    return 0;
}

/* An undo concerns messages that are indexed already. */
static int session_mark_undone(struct indexing *u)
{
    struct history_entry e;
    _cleanup_stmt_ sqlite3_stmt *s = memory_prepare(
        u->m, "UPDATE docs SET undone = ? WHERE session = ? AND message = ? AND undone <> ?1",
        u->err);
    if (!s)
        return -EIO;
    for (size_t i = 0; i < u->messages && history_peek(u->h, i, &e); i++) {
        sqlite3_bind_int(s, 1, e.undone);
        sqlite3_bind_int64(s, 2, u->session);
        sqlite3_bind_int64(s, 3, (sqlite3_int64)i);
        if (sqlite3_step(s) != SQLITE_DONE)
            return memory_failed(u->m, u->err);
        sqlite3_reset(s);
    }
    return 0;
}

/* 1: there is more. */
static int index_transaction(struct indexing *u, const struct stat *st)
{
    struct history_entry e;
    int r = memory_run(u->m, "BEGIN IMMEDIATE", u->err);
    if (r < 0)
        return r;
    r = session_find_position(u);
    u->bytes = 0;
    while (r == 0 && u->bytes < INDEX_PIECE && history_peek(u->h, u->messages, &e)) {
        r = index_message(u, u->messages, &e);
        u->undo |= e.kind == HISTORY_UNDO;
        u->messages++;
        u->reached = e.offset + e.length;
    }
    bool complete = u->messages >= history_count(u->h);
    if (r == 0 && u->undo)
        r = session_mark_undone(u);
    u->undo = false;
    if (r == 0) {
        _cleanup_stmt_ sqlite3_stmt *s = memory_prepare(
            u->m,
            "UPDATE sessions SET messages = ?, reached = ?, size = ?, written = ? WHERE id = ?",
            u->err);
        const sqlite3_int64 values[] = {
            (sqlite3_int64)u->messages, (sqlite3_int64)u->reached,
            complete ? (sqlite3_int64)st->st_size : -1,
            (sqlite3_int64)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec, u->session};
        for (size_t i = 0; s && i < ARRAY_SIZE(values); i++)
            sqlite3_bind_int64(s, (int)i + 1, values[i]);
        r = s && sqlite3_step(s) == SQLITE_DONE ? 0 : memory_failed(u->m, u->err);
    }
    if (r == 0)
        r = memory_run(u->m, "COMMIT", u->err);
    if (r < 0) {
        int code = sqlite3_errcode(u->m->db);
        sqlite3_exec(u->m->db, "ROLLBACK", NULL, NULL, NULL);
        if ((code & 0xff) == SQLITE_CORRUPT)
            return -EUCLEAN;
        return r;
    }
    return !complete;
}

int memory_index(struct memory *m, struct history *h, const struct stat *st, int cancel,
                 struct error *err)
{
    struct indexing u = {.m = m, .h = h, .err = err};
    u.doc = memory_prepare(m, ADD_DOC, err);
    u.words = memory_prepare(m, "INSERT INTO words (rowid, text, parts) VALUES (?, ?, ?)", err);
    int r = u.doc && u.words ? 1 : -EIO;
    while (r == 1) {
        struct pollfd stop = {.fd = cancel, .events = POLLIN};
        r = cancel >= 0 && poll(&stop, 1, 0) > 0 ? error_set(err, ECANCELED, "cancelled")
                                                 : index_transaction(&u, st);
    }
    sqlite3_finalize(u.doc);
    sqlite3_finalize(u.words);
    return r;
}
