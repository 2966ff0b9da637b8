/*
 * Which histories have something new: those that look otherwise than when they were taken in
 * (memory_take.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "history_file.h"
#include "memory_private.h"
#include "banned.h"

struct pass {
    struct memory *m;
    const char *only;
    struct history *own;
    int cancel;
    sqlite3_stmt *known;
    struct error *err;
};

static bool is_known(struct pass *p, const char *name, size_t n, const struct stat *st)
{
    sqlite3_bind_text(p->known, 1, name, (int)n, SQLITE_STATIC);
    sqlite3_bind_int64(p->known, 2, (sqlite3_int64)st->st_size);
    sqlite3_bind_int64(p->known, 3,
                       (sqlite3_int64)st->st_mtim.tv_sec * 1000000000 + st->st_mtim.tv_nsec);
    bool known = sqlite3_step(p->known) == SQLITE_ROW;
    sqlite3_reset(p->known);
    return known;
}

static int update_one(void *data, const char *name, size_t n_id)
{
    struct pass *p = data;
    struct stat st;
    char id[HISTORY_ID_MAX] = "";
    memcpy(id, name, n_id);
    if ((p->only && strcmp(p->only, id) != 0) ||
        fstatat(p->m->folder, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
        is_known(p, name, n_id, &st))
        return 0;
    if (p->own && strcmp(history_id(p->own), id) == 0)
        return memory_take(p->m, p->own, &st, p->cancel, p->err);
    struct history *h = NULL;
    int r = history_open(name, true, &h, NULL, NULL);
    if (r < 0)
        return 0; /* whatever lies there, it is no session */
    r = memory_take(p->m, h, &st, p->cancel, p->err);
    history_close(h);
    return r;
}

/* Sessions whose files are gone. */
static int forget_removed(struct memory *m, struct error *err)
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

/* Once most of the index is of docs that are gone, it is made again. */
static int compact(struct memory *m, struct error *err)
{
    _cleanup_stmt_ sqlite3_stmt *s = memory_prepare(
        m, "SELECT (SELECT count(*) FROM words_docsize) > 2 * (SELECT count(*) FROM docs) + 10000",
        err);
    if (!s || sqlite3_step(s) != SQLITE_ROW)
        return memory_failed(m, err);
    if (!sqlite3_column_int(s, 0))
        return 0;
    sqlite3_reset(s);
    return memory_run(
        m,
        "BEGIN IMMEDIATE; INSERT INTO words (words) VALUES ('delete-all'); DELETE FROM docs;"
        " DELETE FROM vectors; DELETE FROM sessions; COMMIT; VACUUM;",
        err);
}

static int update_all(struct memory *m, const char *session, struct history *own, int cancel,
                      struct error *err)
{
    struct pass p = {.m = m, .only = session, .own = own, .cancel = cancel, .err = err};
    p.known = memory_prepare(
        m, "SELECT 1 FROM sessions WHERE name = ? AND size = ? AND written = ?", err);
    if (!p.known)
        return -EIO;
    int r = session ? 0 : forget_removed(m, err);
    if (r == 0 && !session)
        r = compact(m, err);
    if (r == 0)
        r = history_each(m->folder, update_one, &p);
    sqlite3_finalize(p.known);
    return r;
}

int memory_update(struct memory *m, const char *session, struct history *own, int cancel,
                  struct error *err)
{
    pthread_mutex_lock(&m->lock);
    int r = update_all(m, session, own, cancel, err);
    if (r == -EUCLEAN || (r < 0 && memory_is_damaged(m))) {
        r = memory_begin_anew(m, err);
        if (r == 0)
            r = update_all(m, session, own, cancel, err);
    }
    if (r == 0 && m->embedder)
        memory_embed_new(m, cancel);
    pthread_mutex_unlock(&m->lock);
    return r;
}
