/*
 * Loading a session's file: from any number of bytes to its index, through a window that holds one
 * message; and repairing it.
 *
 * The outer object is read member by member, wherever its messages stand in it. Where something is
 * wrong, the reader looks for the next line that begins a whole message. If there is one, the file
 * was damaged in the middle, which no crash of hutch does, and the place is counted; if there is
 * none, what is left is the torn last write.
 *
 * Of a torn write, the beginning may be followed by the end of what it was written over, the
 * totals. Together they can look like a message: `{"time": …, "role": "user", "tu` and `rns": 1,
 * "cost": 0.2}}`. The brace behind it gives such a mixture away: no message has one there, and the
 * totals hold no other brace or bracket.
 *
 * Repair cuts a torn last write off in place. Anything else means another file: the readable
 * messages are copied to a new one, the original keeps its bytes under another name, and the new
 * one takes its place.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "history_file.h"
#include "io.h"
#include "json.h"
#include "banned.h"

#define WINDOW_MIN (64u << 10)
#define WINDOW_ONE (4u << 10) /* where only the first message is wanted */
#define WINDOW_MAX (HISTORY_MESSAGE_MAX + 4096)
#define TOKEN_MAX                                                                                  \
    16 /* jansson may fail so many bytes before the end in a token that is cut there */
#define NAME_BYTES 32
#define MEMBER_MAX (64u << 10)
#define HEAD_MAX   64
#define KEPT_MAX   100

struct reader {
    int fd;
    char *data;
    size_t at, len, cap;
    uint64_t base;     /* where data[0] stands in the file */
    uint64_t patience; /* bytes that the search for the next message may still read */
    int failed;
    struct index_mark before; /* the last message that was taken */
    uint64_t end_before;
    struct loaded *l;
};

/* Reads more, and keeps what is from `at` on. False at the end of the file, and on a failure. */
static bool reader_more(struct reader *r)
{
    memmove(r->data, r->data + r->at, r->len - r->at);
    r->base += r->at;
    r->len -= r->at;
    r->at = 0;
    if (r->len > r->cap / 2) {
        size_t cap = r->cap >= WINDOW_MAX / 2 ? WINDOW_MAX : r->cap * 2;
        char *data = r->len < WINDOW_MAX ? realloc(r->data, cap) : NULL;
        if (!data) {
            r->failed = r->len < WINDOW_MAX ? -ENOMEM : 0;
            return false;
        }
        r->data = data;
        r->cap = cap;
    }
    ssize_t n = io_read_at(r->fd, r->data + r->len, r->cap - r->len, r->base + r->len);
    if (n < 0)
        r->failed = (int)n;
    r->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* Skips white space and returns the next byte, without consuming it; -1 at the end. */
static int reader_peek(struct reader *r)
{
    do {
        while (r->at < r->len && is_space(r->data[r->at]))
            r->at++;
        if (r->at < r->len)
            return (uint8_t)r->data[r->at];
    } while (reader_more(r));
    return -1;
}

static int reader_expect(struct reader *r, char c)
{
    if (reader_peek(r) != c)
        return r->failed ? r->failed : -EBADMSG;
    r->at++;
    return 0;
}

/* The value at `at`, which does not move. *ret_n is its length, or how far a failure got. */
static int reader_value(struct reader *r, json_t **ret, size_t *ret_n)
{
    for (reader_peek(r);;) {
        size_t left = r->len - r->at;
        json_error_t where = {.position = 0};
        json_t *value =
            json_loadb(r->data + r->at, left,
                       JSON_DISABLE_EOF_CHECK | JSON_DECODE_ANY | JSON_ALLOW_NUL, &where);
        *ret_n = (size_t)where.position;
        /* A number at the end of the window may continue behind it. */
        if (value && (*ret_n < left || !json_is_number(value))) {
            *ret = value;
            return 0;
        }
        json_decref(value);
        if (*ret_n + TOKEN_MAX < left || !reader_more(r))
            return r->failed ? r->failed : -EBADMSG;
    }
}

static int reader_member_name(struct reader *r, char ret[NAME_BYTES])
{
    size_t n;
    _cleanup_json_ json_t *name = NULL;
    int rc = reader_peek(r) == '"' ? reader_value(r, &name, &n) : -EBADMSG;
    if (rc < 0)
        return r->failed ? r->failed : rc;
    const char *text = json_string_value(name);
    snprintf(ret, NAME_BYTES, "%s", strlen(text) < NAME_BYTES ? text : "");
    r->at += n;
    return reader_expect(r, ':');
}

/* A member of the file beside its messages. Skips those that are too large or have too long a name,
 * and a second list of messages. */
static int reader_other_member(struct reader *r, const char *name)
{
    size_t n;
    _cleanup_json_ json_t *value = NULL;
    int rc = reader_value(r, &value, &n);
    if (rc < 0)
        return rc;
    if (name[0] && strcmp(name, "totals") != 0 && strcmp(name, "messages") != 0 &&
        n <= MEMBER_MAX && json_object_size(r->l->head) < HEAD_MAX)
        json_object_set(r->l->head, name, value);
    r->at += n;
    return 0;
}

/* One message at `at`; if there is none, `at` does not move. */
static int reader_message(struct reader *r, size_t *ret_looked)
{
    struct index_mark before = index_mark(&r->l->index);
    _cleanup_json_ json_t *message = NULL;
    int rc = reader_value(r, &message, ret_looked);
    if (rc == 0)
        rc = index_add(&r->l->index, message, r->base + r->at, *ret_looked);
    if (rc < 0)
        return rc;
    r->before = before;
    r->end_before = r->l->end;
    r->at += *ret_looked;
    r->l->end = r->base + r->at;
    return 0;
}

static bool reader_has_first(const struct loaded *l)
{
    return l->only_first && l->index.count > 0 && l->index.entries[l->index.count - 1].begins_turn;
}

/* From behind the opening bracket, or (`after`) from behind a message, to behind the closing
 * bracket. */
static int reader_messages(struct reader *r, bool after)
{
    size_t looked;
    if (!after && reader_peek(r) == ']')
        return reader_expect(r, ']');
    for (;; after = false) {
        int rc = after                   ? 0
                 : reader_peek(r) == '{' ? reader_message(r, &looked)
                 : r->failed             ? r->failed
                                         : -EBADMSG;
        if (rc < 0 || reader_has_first(r->l))
            return rc;
        if (reader_peek(r) == ']')
            return reader_expect(r, ']');
        rc = reader_expect(r, ',');
        if (rc < 0)
            return rc;
    }
}

/* From behind the closing bracket to the end of the file. */
static int reader_tail(struct reader *r)
{
    char name[NAME_BYTES];
    while (reader_peek(r) == ',') {
        r->at++;
        int rc = reader_member_name(r, name);
        if (rc == 0)
            rc = reader_other_member(r, name);
        if (rc < 0)
            return rc;
        r->l->members |= strcmp(name, "totals") != 0;
    }
    int rc = reader_expect(r, '}');
    return rc == 0 && reader_peek(r) >= 0 ? -EBADMSG : rc;
}

/* Finds and indexes the next message that begins a line: 1; 0 if there is none. */
static int reader_resync(struct reader *r)
{
    uint64_t from = r->l->end;
    for (;;) {
        const char *newline = memchr(r->data + r->at, '\n', r->len - r->at);
        r->at = newline ? (size_t)(newline - r->data) + 1 : r->len;
        if (!newline && !reader_more(r))
            return r->failed;
        if (!newline || reader_peek(r) != '{')
            continue;
        size_t looked;
        uint64_t start = r->base + r->at;
        int rc = reader_message(r, &looked);
        if (rc == 0) {
            if (r->l->gaps++ == 0)
                r->l->gap = from;
            r->l->gap_bytes += start - from;
            return 1;
        }
        if (rc != -EBADMSG || looked > r->patience)
            return rc == -EBADMSG ? 0 : rc;
        r->patience -= looked;
    }
}

static int reader_document(struct reader *r)
{
    char name[NAME_BYTES] = "";
    int rc = reader_expect(r, '{');
    while (rc == 0 && (rc = reader_member_name(r, name)) == 0 && strcmp(name, "messages") != 0) {
        rc = reader_other_member(r, name);
        if (rc == 0)
            rc = reader_expect(r, ',');
    }
    if (rc == 0)
        rc = reader_expect(r, '[');
    r->l->end = r->base + r->at;
    if (rc < 0)
        return rc;
    for (bool after = false;; after = true) {
        rc = reader_messages(r, after);
        if (rc == 0 && !reader_has_first(r->l))
            rc = reader_tail(r);
        if (rc != -EBADMSG)
            return rc;
        rc = reader_resync(r);
        if (rc <= 0)
            break;
        if (reader_has_first(r->l))
            return 0;
    }
    /* Nothing follows the last message that is one: was it a mixture itself? */
    char c = 0;
    uint64_t at = r->l->end;
    r->l->torn = true;
    while (pread(r->fd, &c, 1, (off_t)at) == 1 && is_space(c))
        at++;
    if (c == '}' && r->l->index.count > 0) {
        index_go_back(&r->l->index, &r->before);
        r->l->end = r->end_before;
    }
    return rc;
}

int history_load(int fd, const char *name, struct loaded *l, struct error *err)
{
    size_t cap = l->only_first ? WINDOW_ONE : WINDOW_MIN;
    struct reader r = {.fd = fd, .data = malloc(cap), .cap = cap, .l = l};
    off_t size = lseek(fd, 0, SEEK_END);
    l->head = json_object();
    l->index = INDEX_INIT;
    r.patience = 8 * (uint64_t)(size > 0 ? size : 0) + (1u << 20);
    int rc = r.data && l->head ? reader_document(&r) : -ENOMEM;
    free(r.data);
    index_settle(&l->index);
    if (rc == -EBADMSG)
        return error_set(err, EBADMSG,
                         "%s is not a session of hutch: expected {…, \"messages\": […]}", name);
    return rc < 0 ? error_errno(err, -rc, "cannot read %s", name) : 0;
}

void loaded_free(struct loaded *l)
{
    json_decref(l->head);
    free(l->index.entries);
    l->head = NULL;
}

/* Writes the readable messages to another file. */
static int repair_copy(struct history *h, int fd)
{
    _cleanup_buf_ struct buf head = BUF_INIT(8u << 20);
    int r = history_put_head(h->head, &head);
    uint64_t at = head.len;
    if (r == 0)
        r = io_write_at(fd, head.data, head.len, 0);
    for (size_t i = 0; r == 0 && i < h->index.count; i++) {
        struct history_entry *e = &h->index.entries[i];
        r = io_write_at(fd, i ? ",\n" : "\n", i ? 2 : 1, at);
        at += i ? 2 : 1;
        _cleanup_free_ char *text = malloc(e->length);
        if (r == 0 && !text)
            r = -ENOMEM;
        if (r == 0 && io_read_at(h->fd, text, e->length, e->offset) != (ssize_t)e->length)
            r = -ESTALE;
        if (r == 0)
            r = io_write_at(fd, text, e->length, at);
        e->offset = at;
        at += e->length;
    }
    if (r < 0)
        return r;
    int old = h->fd;
    h->fd = fd;
    h->end = at;
    r = history_close_file(h);
    h->fd = old;
    return r == 0 && fsync(fd) < 0 ? -errno : r;
}

static int repair_rewrite(struct history *h, char *ret_kept, size_t size, struct error *err)
{
    char fresh[HISTORY_ID_MAX + 16];
    bool kept = false;
    snprintf(fresh, sizeof fresh, ".%s.rewrite", h->id);
    unlinkat(h->folder, fresh, 0); /* of an attempt that a crash ended: the lock is ours */
    _cleanup_fd_ int fd =
        openat(h->folder, fresh, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : repair_copy(h, fd);
    for (int i = 1; r == 0 && !kept && i < KEPT_MAX; i++) { /* the original, under an unused name */
        snprintf(ret_kept, size, i == 1 ? "%s.kept" : "%s.kept-%d", h->name, i);
        kept = linkat(h->folder, h->name, h->folder, ret_kept, 0) == 0;
        if (!kept && errno != EEXIST)
            r = -errno;
    }
    if (r == 0 && !kept)
        r = -EEXIST;
    if (r == 0 && (renameat(h->folder, fresh, h->folder, h->name) < 0 || fsync(h->folder) < 0))
        r = -errno;
    if (r < 0) {
        if (fd >= 0)
            unlinkat(h->folder, fresh, 0);
        return error_errno(err, -r, "%s is damaged and cannot be rewritten", h->path);
    }
    close(h->fd);
    h->fd = TAKE_FD(fd);
    return 0;
}

/* Sets what history_trouble() returns. */
static int repair_describe(struct history *h, const struct loaded *l, uint64_t cut,
                           const char *kept)
{
    struct buf b = BUF_INIT(2048);
    if (l->gaps)
        buf_printf(&b,
                   "%s was damaged: %" PRIu64 " bytes in %u place%s, the first at byte %" PRIu64
                   ", are unreadable and left out",
                   h->path, l->gap_bytes, l->gaps, l->gaps == 1 ? "" : "s", l->gap);
    if (l->torn)
        buf_printf(&b,
                   "%s%s%" PRIu64
                   " bytes of a message that was being written when hutch or the machine stopped"
                   " %s left out",
                   l->gaps ? "; also " : h->path, l->gaps ? "" : ": ", cut,
                   h->read_only ? "are" : "were");
    if (!l->gaps && !l->torn)
        buf_printf(&b, "%s was laid out by another program and is rewritten", h->path);
    if (kept[0])
        buf_printf(&b, "; the original file is kept as %s beside it", kept);
    free(h->trouble);
    h->trouble = buf_cstr(&b);
    if (!h->trouble)
        buf_free(&b);
    return h->trouble ? 0 : -ENOMEM;
}

int history_repair(struct history *h, const struct loaded *l, struct error *err)
{
    char kept[HISTORY_ID_MAX + 64] = "";
    struct stat st;
    bool rewritten = l->gaps || l->members;
    if (!rewritten && !l->torn)
        return 0;
    if (fstat(h->fd, &st) < 0)
        return error_errno(err, errno, "cannot stat %s", h->path);
    uint64_t cut = (uint64_t)st.st_size > l->end ? (uint64_t)st.st_size - l->end : 0;
    if (h->read_only) {
        /* What looks torn is only unfinished while a program that has the session writes to it. */
        bool busy = flock(h->fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        if (!busy)
            flock(h->fd, LOCK_UN);
        return (l->gaps || l->torn) && !busy ? repair_describe(h, l, cut, kept) : 0;
    }
    int r = rewritten ? repair_rewrite(h, kept, sizeof kept, err) : history_close_file(h);
    if (r == 0 && fsync(h->fd) < 0)
        r = -errno;
    if (r < 0)
        return err && err->code ? r : error_errno(err, -r, "cannot repair %s", h->path);
    return repair_describe(h, l, cut, kept);
}
