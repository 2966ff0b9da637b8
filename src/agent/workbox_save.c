/*
 * A box's changes as a file beside its history, and back.
 *
 * The file is the diff of the whole box against the folder. It is loaded in pieces of whole files,
 * because the guest takes a diff of limited size; a piece that does not apply (the person changed
 * one of its files meanwhile) is tried again file by file, so that only what cannot be restored
 * is missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "session.h"
#include "workbox.h"
#include "banned.h"

#define PIECE_MAX (8u << 20)
#define FILE_LINE "diff --git "

int workbox_save(struct workbox *w, int folder, const char *name, struct error *err)
{
    char temporary[NAME_MAX];
    struct stat st = {0};
    if (w->mode != BOX_COW)
        return 0;
    snprintf(temporary, sizeof temporary, "%s.new", name);
    _cleanup_fd_ int file =
        openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return error_errno(err, errno, "cannot save the changes as %s", name);
    int r = workbox_diff(w, file, err);
    if (r == 0 && fstat(file, &st) < 0)
        r = error_errno(err, errno, "cannot save the changes as %s", name);
    if (r == 0 && st.st_size > (off_t)WORKBOX_PATCH_MAX)
        r = error_set(err, EFBIG, "the changes exceed %u MB and were not saved beside the history",
                      WORKBOX_PATCH_MAX >> 20);
    if (r == 0 && st.st_size == 0) {
        unlinkat(folder, name, 0);
        unlinkat(folder, temporary, 0);
        return 0;
    }
    if (r == 0 && (fsync(file) < 0 || renameat(folder, temporary, folder, name) < 0))
        r = error_errno(err, errno, "cannot save the changes as %s", name);
    if (r < 0)
        unlinkat(folder, temporary, 0);
    return r;
}

/* The end of the part that begins at `at` and holds whole files, at least one of them and as many
 * as fit. */
static const char *piece_end(const char *at, const char *end, size_t most)
{
    const char *cut = NULL;
    for (const char *line = at; line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *next = newline ? newline + 1 : end;
        bool begins = line > at && (size_t)(end - line) > strlen(FILE_LINE) &&
                      memcmp(line, FILE_LINE, strlen(FILE_LINE)) == 0;
        if (begins && ((size_t)(line - at) > most || most == 0))
            return cut ? cut : line;
        if (begins)
            cut = line;
        line = next;
    }
    return (size_t)(end - at) > most && cut ? cut : end;
}

/* 0, or 1 if it does not apply: nothing was changed then. */
static int apply_piece(struct tool_session *s, const char *from, const char *to, struct error *err)
{
    struct tool_call nobody = {.session = s, .cancel = -1};
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    ask_begin(&a, &nobody, WIRE_PATCH);
    ask_path(&a, ".");
    wire_put_u64(&a.out, WIRE_K_STRIP, 1);
    wire_put_u64(&a.out, WIRE_K_FUZZ, 0);
    int r = ask_send(&a, err);
    if (r == 0)
        r = ask_data(&a, from, (size_t)(to - from), true, err);
    bool rejected = false;
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0) {
        struct wire_field reason;
        rejected |= wire_find(&f, WIRE_K_TEXT, &reason);
    }
    if (r == -EPIPE || r == -ECANCELED || r == -ETIMEDOUT)
        return r; /* the box itself fails */
    return r < 0 || rejected || wire_find_u64(&f, WIRE_K_CODE, 0) != 0;
}

/* The files that could not be brought back, for a person. */
struct missing {
    int count;
    struct buf names;
};

static void miss(struct missing *m, const char *from, const char *to)
{
    const char *line_end = memchr(from, '\n', (size_t)(to - from));
    size_t skip = strlen(FILE_LINE), n = line_end ? (size_t)(line_end - from) : (size_t)(to - from);
    if (m->count++ < 5 && n > skip)
        buf_printf(&m->names, "%s%.*s", m->names.len ? "; " : "",
                   (int)(n - skip < 200 ? n - skip : 200), from + skip);
}

static int load_each(struct tool_session *s, const char *from, const char *to, struct missing *m,
                     struct error *err)
{
    for (const char *next; from < to; from = next) {
        next = piece_end(from, to, 0);
        int r = apply_piece(s, from, next, err);
        if (r < 0)
            return r;
        if (r > 0)
            miss(m, from, next);
    }
    return 0;
}

static int load_text(struct tool_session *s, const char *at, const char *end, struct missing *m,
                     struct error *err)
{
    for (const char *next; at < end; at = next) {
        next = piece_end(at, end, PIECE_MAX);
        int r = apply_piece(s, at, next, err);
        if (r > 0)
            r = load_each(s, at, next, m, err);
        if (r < 0)
            return r;
    }
    return 0;
}

static int load_file(struct workbox *w, int file, size_t size, struct missing *m, struct error *err)
{
    struct tool_session *s = NULL;
    char *text = mmap(NULL, size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED)
        return error_errno(err, errno, "cannot read the saved changes");
    int r = tool_session_new(w->box, "main", &s, err);
    if (r == 0)
        r = load_text(s, text, text + size, m, err);
    tool_session_free(s);
    munmap(text, size);
    return r;
}

int workbox_load(struct workbox *w, int folder, const char *name, struct error *err)
{
    struct missing missing = {.names = BUF_INIT(4096)};
    struct stat st;
    _cleanup_fd_ int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return error_errno(err, errno, "cannot read the saved changes %s", name);
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)WORKBOX_PATCH_MAX)
        return error_set(err, EFBIG, "the saved changes %s are not a regular file of at most %u MB",
                         name, WORKBOX_PATCH_MAX >> 20);
    if (st.st_size == 0)
        return 0;
    w->pristine = false;
    int r = load_file(w, file, (size_t)st.st_size, &missing, err);
    if (r == 0 && missing.count)
        error_set(err, ESTALE, "%d file%s of the saved changes no longer fit the folder: %s%s",
                  missing.count, missing.count == 1 ? "" : "s",
                  buf_cstr(&missing.names) ? (char *)missing.names.data : "",
                  missing.count > 5 ? "; …" : "");
    buf_free(&missing.names);
    return r < 0 ? r : missing.count;
}
