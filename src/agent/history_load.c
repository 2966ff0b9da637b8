/*
 * Loading: from a file of any size to its index, through a window that holds one message.
 *
 * The outer object is read member by member, wherever its messages stand in it. Where something is
 * wrong, the next line that begins a whole message is looked for. If there is one, the file was
 * damaged in the middle, which no crash of ours does, and the place is counted; if there is none,
 * what is left is the torn last write.
 *
 * Of a torn write, the beginning may be followed by the end of what it was written over, the
 * totals. Together they can look like a message: `{"time": …, "role": "user", "tu` and `rns": 1,
 * "cost": 0.2}}`. Such a one is known by the brace behind it, which no message has there; the
 * totals hold no other brace or bracket.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "history_private.h"
#include "history_scan.h"
#include "banned.h"

#define WINDOW_MIN (64u << 10)
#define WINDOW_ONE (4u << 10) /* where only the first message is wanted */
#define WINDOW_MAX (HISTORY_MESSAGE_MAX + 4096)
#define NAME_MAX_  32
#define MEMBER_MAX (64u << 10)
#define HEAD_MAX   64

struct reader {
    int fd;
    char *data;
    size_t at, len, cap;
    uint64_t base;     /* where data[0] stands in the file */
    uint64_t patience; /* bytes that looking for the next message may still look at */
    int failed;
    struct index_mark before; /* the last message that was taken */
    uint64_t end_before;
    struct loaded *l;
};

/* Reads on, and keeps what is from `at` on. False at the end of the file, and when something
 * failed. */
static bool more(struct reader *r)
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
    ssize_t n;
    do
        n = pread(r->fd, r->data + r->len, r->cap - r->len, (off_t)(r->base + r->len));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        r->failed = -errno;
    r->len += n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* The next byte that is no white space, which `at` is then at; -1 at the end. */
static int peek(struct reader *r)
{
    do {
        while (r->at < r->len && scan_is_space(r->data[r->at]))
            r->at++;
        if (r->at < r->len)
            return (uint8_t)r->data[r->at];
    } while (more(r));
    return -1;
}

static int step(struct reader *r, char c)
{
    if (peek(r) != c)
        return r->failed ? r->failed : -EBADMSG;
    r->at++;
    return 0;
}

static uint64_t place(const struct reader *r)
{
    return r->base + r->at;
}

/* A whole value, in the window from `at` on. */
static int whole(struct reader *r, size_t *ret_n)
{
    bool doubt;
    int rc;
    peek(r);
    while ((rc = scan_value(r->data + r->at, r->len - r->at, NULL, 0, ret_n, &doubt)) == -EAGAIN)
        if (!more(r))
            return r->failed ? r->failed : -EBADMSG;
    return rc;
}

static int member_name(struct reader *r, char ret[NAME_MAX_])
{
    size_t n;
    int rc = peek(r) == '"' ? whole(r, &n) : -EBADMSG;
    if (rc < 0)
        return rc;
    json_t *name = n < MEMBER_MAX ? json_loadb(r->data + r->at, n, JSON_DECODE_ANY, NULL) : NULL;
    const char *text = json_string_value(name);
    snprintf(ret, NAME_MAX_, "%s", text && strlen(text) < NAME_MAX_ ? text : "");
    json_decref(name);
    r->at += n;
    return step(r, ':');
}

static bool is_reserved(const char *name)
{
    return strcmp(name, "totals") == 0 || strcmp(name, "messages") == 0;
}

/* A member of the file beside its messages. What is too large, or has too long a name, is nothing
 * of ours; and nothing is a second list of messages. */
static int other_member(struct reader *r, const char *name)
{
    size_t n;
    int rc = whole(r, &n);
    if (rc < 0)
        return rc;
    bool ours = name[0] && !is_reserved(name) && n <= MEMBER_MAX;
    json_t *value = ours ? json_loadb(r->data + r->at, n, JSON_DECODE_ANY, NULL) : NULL;
    if (value && json_object_size(r->l->head) < HEAD_MAX)
        json_object_set_new(r->l->head, name, value);
    else
        json_decref(value);
    r->at += n;
    return 0;
}

/* Up to behind the bracket that opens the messages. */
static int read_head(struct reader *r)
{
    char name[NAME_MAX_];
    int rc = step(r, '{');
    while (rc == 0 && (rc = member_name(r, name)) == 0) {
        if (strcmp(name, "messages") == 0) {
            rc = step(r, '[');
            r->l->end = place(r);
            return rc;
        }
        rc = other_member(r, name);
        if (rc == 0)
            rc = step(r, ',');
    }
    return rc;
}

/* One message at `at`. Nothing is moved if there is none. */
static int take_message(struct reader *r, size_t *ret_looked)
{
    struct index_mark before = index_mark(&r->l->index);
    int rc;
    *ret_looked = 0;
    while ((rc = index_take(&r->l->index, r->data + r->at, r->len - r->at, place(r), ret_looked)) ==
           -EAGAIN)
        if (!more(r))
            return r->failed ? r->failed : -EBADMSG;
    if (rc < 0)
        return rc;
    r->before = before;
    r->end_before = r->l->end;
    r->at += *ret_looked;
    r->l->end = place(r);
    return 0;
}

/* Nothing follows the last message that is one: was it one itself? */
static void give_back_mixture(struct reader *r)
{
    char c = 0;
    uint64_t at = r->l->end;
    while (pread(r->fd, &c, 1, (off_t)at) == 1 && scan_is_space(c))
        at++;
    if (c != '}' || r->l->index.count == 0)
        return;
    index_go_back(&r->l->index, &r->before);
    r->l->end = r->end_before;
}

static bool is_enough(const struct loaded *l)
{
    return l->only_first && l->index.count > 0 && l->index.entries[l->index.count - 1].begins_turn;
}

/* From behind the opening bracket, or (`after`) from behind a message, to behind the closing
 * bracket. */
static int read_messages(struct reader *r, bool after)
{
    size_t looked;
    if (!after && peek(r) == ']')
        return step(r, ']');
    for (;; after = false) {
        int rc = after            ? 0
                 : peek(r) == '{' ? take_message(r, &looked)
                 : r->failed      ? r->failed
                                  : -EBADMSG;
        if (rc < 0 || is_enough(r->l))
            return rc;
        if (peek(r) == ']')
            return step(r, ']');
        rc = step(r, ',');
        if (rc < 0)
            return rc;
    }
}

/* From behind the closing bracket to the end of the file. */
static int read_tail(struct reader *r)
{
    char name[NAME_MAX_];
    while (peek(r) == ',') {
        r->at++;
        int rc = member_name(r, name);
        if (rc == 0)
            rc = other_member(r, name);
        if (rc < 0)
            return rc;
        r->l->members |= strcmp(name, "totals") != 0;
    }
    int rc = step(r, '}');
    return rc == 0 && peek(r) >= 0 ? -EBADMSG : rc;
}

static bool skip_line(struct reader *r)
{
    for (;;) {
        const char *end = memchr(r->data + r->at, '\n', r->len - r->at);
        if (end) {
            r->at = (size_t)(end - r->data) + 1;
            return true;
        }
        r->at = r->len;
        if (!more(r))
            return false;
    }
}

/* Finds and takes the next message that stands at the beginning of a line: 1; 0 if there is none.
 */
static int resume(struct reader *r)
{
    uint64_t from = r->l->end;
    while (skip_line(r)) {
        size_t looked;
        if (peek(r) != '{')
            continue;
        uint64_t start = place(r);
        int rc = take_message(r, &looked);
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
    return r->failed;
}

static int read_document(struct reader *r)
{
    int rc = read_head(r);
    bool after = false;
    if (rc < 0)
        return rc;
    for (;;) {
        rc = read_messages(r, after);
        if (rc == 0 && !is_enough(r->l))
            rc = read_tail(r);
        if (rc != -EBADMSG)
            return rc;
        rc = resume(r);
        if (rc <= 0) {
            r->l->torn = true;
            give_back_mixture(r);
            return rc;
        }
        if (is_enough(r->l))
            return 0;
        after = true;
    }
}

int history_load(int fd, const char *name, struct loaded *l, struct error *err)
{
    size_t cap = l->only_first ? WINDOW_ONE : WINDOW_MIN;
    struct reader r = {.fd = fd, .data = malloc(cap), .cap = cap, .l = l};
    off_t size = lseek(fd, 0, SEEK_END);
    l->head = json_object();
    l->index = INDEX_INIT;
    r.patience = 8 * (uint64_t)(size > 0 ? size : 0) + (1u << 20);
    int rc = r.data && l->head ? read_document(&r) : -ENOMEM;
    free(r.data);
    index_settle(&l->index);
    if (rc == -EBADMSG)
        return error_set(err, EBADMSG,
                         "%s is no session of hutch: it is not {…, \"messages\": […]}", name);
    return rc < 0 ? error_errno(err, -rc, "cannot read %s", name) : 0;
}

void loaded_free(struct loaded *l)
{
    json_decref(l->head);
    index_free(&l->index);
    l->head = NULL;
}
