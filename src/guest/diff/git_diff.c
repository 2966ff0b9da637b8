/*
 * The answer to DIFF: everything that changed in the workspace in git's diff format, such that `git
 * apply` makes the same change, byte for byte; or with STAT, a line per file and a summary.
 *
 * Left out: paths beneath a .git (their number is the result's COUNT) and what git cannot hold
 * (FIFOs, sockets, folders). Files that are too large are only reported to differ (TOO_MANY is
 * their number).
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

#include "content.h"
#include "diff_worker.h"
#include "encoding.h"
#include "linediff.h"
#include "relpath.h"
#include "banned.h"

#define CHUNK (64u << 10)

/* Bytes that one diff may read of all files together: sparse files could claim any number. */
#define READ_MAX ((uint64_t)8 << 30)

/*
 * Exact renames: a file that is gone and one that is new with the same content. Only files of a
 * size that occurs on both sides are read, and each name is computed once, so that this costs what
 * the diff's index lines would cost anyway.
 */
#define RENAME_NONE SIZE_MAX

struct rename_candidate {
    uint64_t size;
    bool gone;
    size_t index; /* in the list of changes */
    char name[BLOB_NAME];
};

static int rename_compare_size(const void *a, const void *b)
{
    const struct rename_candidate *x = a, *y = b;
    return x->size < y->size ? -1 : x->size > y->size;
}

static int rename_compare_name(const void *a, const void *b)
{
    const struct rename_candidate *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order)
        return order;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* For each change the index of its partner in a rename, or RENAME_NONE. Looks only at changes for
 * which wanted[i] is set. The caller frees *ret_partner. 0 or -ENOMEM. */
static int renames_find(const struct overlay *t, const struct changes *list, const bool *wanted,
                        uint64_t *budget, size_t **ret_partner)
{
    _cleanup_free_ size_t *partner = malloc((list->count + 1) * sizeof *partner);
    _cleanup_free_ struct rename_candidate *c = malloc((list->count + 1) * sizeof *c);
    size_t all = 0, n = 0;
    if (!partner || !c)
        return -ENOMEM;
    for (size_t i = 0; i < list->count; i++) {
        const struct change *change = list->items[i];
        partner[i] = RENAME_NONE;
        if (wanted[i] && change->kind != WIRE_MODIFIED && S_ISREG(change->mode) && change->size > 0)
            c[all++] = (struct rename_candidate){
                .size = change->size, .gone = change->kind == WIRE_DELETED, .index = i};
    }

    /* Keeps those whose size occurs on both sides, with their names. */
    qsort(c, all, sizeof *c, rename_compare_size);
    for (size_t i = 0, end; i < all; i = end) {
        size_t gone = 0;
        for (end = i; end < all && c[end].size == c[i].size; end++)
            gone += c[end].gone;
        for (size_t k = i; gone > 0 && gone < end - i && k < end; k++) {
            _cleanup_blob_ struct blob b = BLOB_NONE;
            int r = blob_load(c[k].gone ? t->base : t->merged, list->items[c[k].index]->path,
                              budget, &b);
            if (r < 0)
                return r;
            if (b.omitted || !S_ISREG(b.mode))
                continue;
            memcpy(c[k].name, b.name, sizeof b.name);
            c[n++] = c[k];
        }
    }
    qsort(c, n, sizeof *c, rename_compare_name);

    /* Of the files with the same content, the first that is gone became the first that is new, and
     * so on: where a whole folder was moved, that is the right one. */
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i; end < n && strcmp(c[end].name, c[i].name) == 0; end++)
            ;
        for (size_t gone = i, added = i;; gone++, added++) {
            while (gone < end && !c[gone].gone)
                gone++;
            while (added < end && c[added].gone)
                added++;
            if (gone >= end || added >= end)
                break;
            partner[c[gone].index] = c[added].index;
            partner[c[added].index] = c[gone].index;
        }
    }
    *ret_partner = TAKE_PTR(partner);
    return 0;
}

/* git's binary patches: a file's content deflated, in base 85, in lines of 52 bytes. Nothing is
 * held in memory but a line. */
struct literal_encoder {
    struct answer *a;
    z_stream z;
    uint8_t line[BASE85_LINE];
    size_t len;
};

static int literal_write_line(struct literal_encoder *e)
{
    char text[1 + BASE85_LINE / 4 * 5 + 1];
    size_t at = 0;
    text[at++] = (char)(e->len <= 26 ? 'A' + e->len - 1 : 'a' + e->len - 27);
    memset(e->line + e->len, 0, BASE85_LINE - e->len);
    for (size_t i = 0; i < e->len; i += 4, at += 5) {
        uint32_t v = (uint32_t)e->line[i] << 24 | (uint32_t)e->line[i + 1] << 16 |
                     (uint32_t)e->line[i + 2] << 8 | e->line[i + 3];
        for (size_t digit = 5; digit-- > 0; v /= 85)
            text[at + digit] = BASE85_DIGITS[v % 85];
    }
    text[at++] = '\n';
    e->len = 0;
    return answer_write(e->a, text, at);
}

/* Deflates what z.next_in holds, all of it, into lines. */
static int literal_deflate(struct literal_encoder *e, int flush)
{
    int status;
    do {
        uint8_t space[16384];
        e->z.next_out = space;
        e->z.avail_out = sizeof space;
        status = deflate(&e->z, flush);
        size_t made = sizeof space - e->z.avail_out;
        for (size_t at = 0, take; at < made; at += take) {
            take = BASE85_LINE - e->len < made - at ? BASE85_LINE - e->len : made - at;
            memcpy(e->line + e->len, space + at, take);
            e->len += take;
            if (e->len == BASE85_LINE && literal_write_line(e) < 0)
                return e->a->status;
        }
    } while (e->z.avail_out == 0 || (flush == Z_FINISH && status == Z_OK));
    return status == Z_STREAM_ERROR ? -EIO : 0;
}

static int literal_write(struct answer *a, const struct blob *b)
{
    struct literal_encoder e = {.a = a};
    int r = 0;
    answer_printf(a, "literal %llu\n", (unsigned long long)b->size);
    if (deflateInit(&e.z, Z_BEST_SPEED) != Z_OK)
        return -ENOMEM;
    for (uint64_t at = 0; r >= 0 && at < b->size;) {
        uint8_t space[CHUNK];
        size_t want = b->size - at < CHUNK ? (size_t)(b->size - at) : CHUNK;
        ssize_t got = blob_read(b, space, want, at);
        e.z.next_in = space;
        e.z.avail_in = (uInt)want;
        if (got < 0 || (size_t)got < want)
            r = got < 0 ? (int)got : -ESTALE;
        else
            r = literal_deflate(&e, Z_NO_FLUSH);
        at += want;
    }
    e.z.avail_in = 0;
    if (r >= 0)
        r = literal_deflate(&e, Z_FINISH);
    if (r >= 0 && e.len)
        r = literal_write_line(&e);
    deflateEnd(&e.z);
    return r < 0 ? r : answer_write(a, "\n", 1);
}

/* Text, a quoted name, and text after it. */
static int patch_write_name(struct answer *a, const char *before, const char *prefix,
                            const char *path, const char *after)
{
    _cleanup_buf_ struct buf name = BUF_INIT(4 * RELPATH_MAX + 16);
    cquote_append(&name, prefix, path);
    if (name.failed)
        return a->status = -ENOMEM;
    answer_write(a, before, strlen(before));
    answer_write(a, name.data, name.len);
    return answer_write(a, after, strlen(after));
}

/* The lines with the names and modes of a file; mode 0: there is none on that side. */
static int patch_write_head(struct answer *a, const char *from, const char *to, mode_t old,
                            mode_t new)
{
    patch_write_name(a, "diff --git ", "a/", from, " ");
    patch_write_name(a, "", "b/", to, "\n");
    if (old == 0)
        answer_printf(a, "new file mode %06o\n", new);
    else if (new == 0)
        answer_printf(a, "deleted file mode %06o\n", old);
    else if (old != new)
        answer_printf(a, "old mode %06o\nnew mode %06o\n", old, new);
    return a->status;
}

static int patch_write_bytes(void *data, const void *bytes, size_t n)
{
    return answer_write(data, bytes, n);
}

/* 0 with *ret filled for texts that can be compared line by line, 1 if they are to be taken as
 * binary. */
static int patch_compare_text(const struct blob *old, const struct blob *new, struct linediff *ret)
{
    if (blob_is_binary(old) || blob_is_binary(new))
        return 1;
    int r = linediff_make(old->data, (size_t)old->size, new->data, (size_t) new->size, ret);
    return r == -E2BIG || r == -ENOMEM ? 1 : r;
}

/* A name of one side, or /dev/null where the file does not exist. */
static void patch_write_side(struct answer *a, const char *before, const char *prefix,
                             const char *path, const struct blob *b, const char *after)
{
    if (b->mode)
        patch_write_name(a, before, prefix, path, after);
    else
        answer_printf(a, "%s/dev/null%s", before, *after == '\t' ? "\n" : after);
}

static int patch_write_content(struct answer *a, const char *path, const struct blob *old,
                               const struct blob *new)
{
    if (old->omitted || new->omitted) {
        patch_write_side(a, "Binary files ", "a/", path, old, " and ");
        patch_write_side(a, "", "b/", path, new, " differ\n");
        return a->status;
    }
    if (strcmp(old->name, new->name) == 0)
        return a->status;
    answer_printf(a, "index %s..%s", old->name, new->name);
    if (old->mode == new->mode)
        answer_printf(a, " %06o", new->mode);
    answer_write(a, "\n", 1);
    if (old->size == 0 && new->size == 0)
        return a->status;
    _cleanup_(linediff_free) struct linediff d = {0};
    int r = patch_compare_text(old, new, &d);
    if (r < 0)
        return r;
    if (r > 0) { /* the new content and, to make it reversible, the old one */
        answer_printf(a, "GIT binary patch\n");
        r = literal_write(a, new);
        return r < 0 ? r : literal_write(a, old);
    }
    /* As in git, a tab marks the end of a name with a blank. */
    const char *end = strchr(path, ' ') && !cquote_is_needed(path) ? "\t\n" : "\n";
    patch_write_side(a, "--- ", "a/", path, old, end);
    patch_write_side(a, "+++ ", "b/", path, new, end);
    return linediff_print(&d, patch_write_bytes, a);
}

struct diff {
    const struct overlay *t;
    struct answer *a;
    bool stat;
    uint64_t budget;
    uint64_t files, added, deleted;
    uint64_t omitted; /* files that are only reported to differ */
};

/* A file before and after; BLOB_NONE: there is none. */
static int diff_write_file(struct diff *d, const char *path, const struct blob *old,
                           const struct blob *new)
{
    struct answer *a = d->a;
    bool omitted = old->omitted || new->omitted;
    if (old->mode == new->mode && !omitted && strcmp(old->name, new->name) == 0)
        return a->status;
    /* git shows a file that became a link, or back, as one deleted and one added. */
    if (!d->stat && old->mode && new->mode && (old->mode ^ new->mode) & S_IFMT) {
        int r = diff_write_file(d, path, old, &BLOB_NONE);
        return r < 0 ? r : diff_write_file(d, path, &BLOB_NONE, new);
    }
    d->files++;
    d->omitted += omitted;
    if (!d->stat) {
        patch_write_head(a, path, path, old->mode, new->mode);
        return patch_write_content(a, path, old, new);
    }
    uint64_t added, deleted;
    _cleanup_(linediff_free) struct linediff lines = {0};
    int r = patch_compare_text(old, new, &lines);
    if (r < 0)
        return r;
    if (r > 0)
        return patch_write_name(a, "-\t-\t", "", path, "\n");
    linediff_totals(&lines, &added, &deleted);
    d->added += added;
    d->deleted += deleted;
    answer_printf(a, "%llu\t%llu\t", (unsigned long long)added, (unsigned long long)deleted);
    return patch_write_name(a, "", "", path, "\n");
}

int diff_answer(const struct overlay *t, bool stat, struct answer *a, struct error *err)
{
    _cleanup_changes_ struct changes list = {0};
    int r = changes_collect(t, false, &list, err);
    if (r < 0)
        return r;
    /* Paths beneath a .git are left out, since git would not take them, and counted. */
    size_t under_git = 0;
    _cleanup_free_ bool *wanted = calloc(list.count + 1, sizeof *wanted);
    _cleanup_free_ size_t *partner = NULL;
    for (size_t i = 0; wanted && i < list.count; i++) {
        bool git = relpath_touches_git(list.items[i]->path);
        under_git += git;
        wanted[i] = !git && !S_ISDIR(list.items[i]->mode);
    }
    struct diff d = {.t = t, .a = a, .stat = stat, .budget = READ_MAX};
    r = wanted ? renames_find(t, &list, wanted, &d.budget, &partner) : -ENOMEM;
    for (size_t i = 0; r >= 0 && i < list.count; i++) {
        const struct change *c = list.items[i];
        if (!wanted[i])
            continue;
        if (partner[i] != RENAME_NONE && c->kind == WIRE_ADDED) {
            const struct change *from = list.items[partner[i]];
            d.files++;
            if (stat) {
                patch_write_name(a, "0\t0\t", "", from->path, " => ");
                r = patch_write_name(a, "", "", c->path, "\n");
                continue;
            }
            patch_write_head(a, from->path, c->path, from->mode & S_IXUSR ? 0100755 : 0100644,
                             c->mode & S_IXUSR ? 0100755 : 0100644);
            answer_printf(a, "similarity index 100%%\n");
            patch_write_name(a, "rename from ", "", from->path, "\n");
            r = patch_write_name(a, "rename to ", "", c->path, "\n");
        }
        if (partner[i] != RENAME_NONE)
            continue;
        _cleanup_blob_ struct blob old = BLOB_NONE, new = BLOB_NONE;
        if (c->kind != WIRE_ADDED && t->base >= 0)
            r = blob_load(t->base, c->path, &d.budget, &old);
        if (r >= 0 && c->kind != WIRE_DELETED)
            r = blob_load(t->merged, c->path, &d.budget, &new);
        if (r >= 0)
            r = diff_write_file(&d, c->path, &old, &new);
    }
    if (r < 0)
        return error_errno(err, -r, "cannot write the diff");
    if (stat && d.files > 0)
        answer_printf(a, " %llu file%s changed, %llu insertion%s(+), %llu deletion%s(-)\n",
                      (unsigned long long)d.files, d.files == 1 ? "" : "s",
                      (unsigned long long)d.added, d.added == 1 ? "" : "s",
                      (unsigned long long)d.deleted, d.deleted == 1 ? "" : "s");
    answer_begin(a, WIRE_RESULT);
    wire_put_u64(&a->frame, WIRE_K_COUNT, under_git);
    if (d.omitted + list.left_out)
        wire_put_u64(&a->frame, WIRE_K_TOO_MANY, d.omitted + list.left_out);
    return answer_end(a);
}
