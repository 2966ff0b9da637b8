/* The parsed diff: adding to it, freeing it, turning it around. */
#include <errno.h>
#include <stdlib.h>

#include "diff.h"
#include "banned.h"

/* The array with room for one more item than n; NULL with errno and an error over the limit. */
static void *diff_grow(void *items, size_t n, size_t *room, size_t item, size_t max,
                       const char *what, struct error *err)
{
    if (n < *room && n < max)
        return items;
    size_t more = *room ? *room * 2 : 16;
    void *grown = n < max ? realloc(items, more * item) : NULL;
    if (grown) {
        *room = more;
        return grown;
    }
    errno = n < max ? ENOMEM : E2BIG;
    if (n < max)
        error_set(err, ENOMEM, "out of memory while reading the diff");
    else
        error_set(err, E2BIG, "the diff has more than %zu %s: apply it in parts", max, what);
    return NULL;
}

int diff_add_file(struct diff *d, size_t line, struct diff_file **ret, struct error *err)
{
    struct diff_file *files = diff_grow(d->files, d->n_files, &d->files_room, sizeof *files,
                                        DIFF_FILES_MAX, "files", err);
    if (!files)
        return -errno;
    d->files = files;
    *ret = &files[d->n_files++];
    **ret = (struct diff_file){.line = line, .first_hunk = d->n_hunks};
    return 0;
}

int diff_add_hunk(struct diff *d, const struct diff_hunk *h, struct error *err)
{
    struct diff_hunk *hunks = diff_grow(d->hunks, d->n_hunks, &d->hunks_room, sizeof *hunks,
                                        DIFF_HUNKS_MAX, "hunks", err);
    if (!hunks)
        return -errno;
    d->hunks = hunks;
    struct diff_hunk *added = &hunks[d->n_hunks++];
    *added = *h;
    added->first = d->n_lines;
    added->count = added->old_count = added->new_count = 0; /* counted as lines are added */
    d->files[d->n_files - 1].hunks++;
    return 0;
}

int diff_add_line(struct diff *d, char kind, struct slice text, struct error *err)
{
    struct diff_line *lines = diff_grow(d->lines, d->n_lines, &d->lines_room, sizeof *lines,
                                        DIFF_LINES_MAX, "lines", err);
    if (!lines)
        return -errno;
    d->lines = lines;
    lines[d->n_lines++] = (struct diff_line){(const uint8_t *)text.at, (uint32_t)text.size, kind};
    struct diff_hunk *h = diff_last_hunk(d);
    h->count++;
    h->old_count += kind != '+';
    h->new_count += kind != '-';
    return 0;
}

void diff_free(struct diff *d)
{
    for (size_t i = 0; i < d->n_files; i++) {
        free(d->files[i].old_name);
        free(d->files[i].new_name);
        free(d->files[i].from);
        free(d->files[i].to);
    }
    free(d->files);
    free(d->hunks);
    free(d->lines);
    free(d->text);
    *d = (struct diff){0};
}

#define SWAP(a, b)                                                                                 \
    do {                                                                                           \
        __typeof__(a) kept_ = (a);                                                                 \
        (a) = (b);                                                                                 \
        (b) = kept_;                                                                               \
    } while (0)

int diff_reverse(struct diff *d, struct error *err)
{
    _cleanup_free_ struct diff_line *space = calloc(d->n_lines + 1, sizeof *space);
    if (!space)
        return error_set(err, ENOMEM, "out of memory while reading the diff");
    for (size_t i = 0; i < d->n_files; i++) {
        struct diff_file *f = &d->files[i];
        char id[sizeof f->old_id];
        if (f->kind == DIFF_COPY)
            return error_set(err, EINVAL,
                             "%.400s: a copy cannot be reversed; delete the file instead", f->to);
        if (f->binary && f->back.form == DIFF_BINARY_NONE)
            return error_set(err, EINVAL,
                             "line %zu: a binary patch without its second half cannot be reversed",
                             f->line);
        if (f->kind == DIFF_ADD || f->kind == DIFF_DELETE)
            f->kind = f->kind == DIFF_ADD ? DIFF_DELETE : DIFF_ADD;
        SWAP(f->old_name, f->new_name);
        SWAP(f->from, f->to);
        SWAP(f->old_mode, f->new_mode);
        SWAP(f->forward, f->back);
        memcpy(id, f->old_id, sizeof id);
        memcpy(f->old_id, f->new_id, sizeof id);
        memcpy(f->new_id, id, sizeof id);
    }
    for (size_t i = 0; i < d->n_files / 2; i++)
        SWAP(d->files[i], d->files[d->n_files - 1 - i]);

    for (size_t n = 0; n < d->n_hunks; n++) {
        struct diff_hunk *h = &d->hunks[n];
        struct diff_line *lines = d->lines + h->first;
        SWAP(h->old_line, h->new_line);
        SWAP(h->old_count, h->new_count);
        for (size_t i = 0, run = 0; i <= h->count; i++) {
            if (i < h->count && lines[i].kind != ' ') {
                lines[i].kind = lines[i].kind == '+' ? '-' : '+';
                continue;
            }
            /* Within a run of changed lines, removed ones precede added ones. */
            size_t used = 0;
            for (const char *kind = "-+"; *kind; kind++)
                for (size_t k = run; k < i; k++)
                    if (lines[k].kind == *kind)
                        space[used++] = lines[k];
            memcpy(lines + run, space, used * sizeof *lines);
            run = i + 1;
        }
    }
    return 0;
}
