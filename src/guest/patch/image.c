#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "buf.h"
#include "image.h"
#include "banned.h"

static size_t count_lines(const uint8_t *data, size_t size)
{
    size_t count = 0;
    for (const uint8_t *at = data, *end = data + size; at < end; count++) {
        const uint8_t *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return count;
}

int image_split(const uint8_t *data, size_t size, struct image *ret)
{
    struct image img = {.count = size ? count_lines(data, size) : 0};
    if (img.count > IMAGE_LINES_MAX)
        return -E2BIG;
    img.lines = calloc(img.count + 1, sizeof *img.lines);
    if (!img.lines)
        return -ENOMEM;
    img.gap_at = img.count;
    img.gap = 1;
    const uint8_t *at = data;
    for (size_t i = 0; i < img.count; i++) {
        size_t left = size - (size_t)(at - data);
        const uint8_t *newline = memchr(at, '\n', left);
        size_t n = newline ? (size_t)(newline + 1 - at) : left;
        img.lines[i] = (struct image_line){at, (uint32_t)n, false};
        at += n;
    }
    *ret = img;
    return 0;
}

void image_free(struct image *img)
{
    free(img->lines);
    *img = (struct image){0};
}

static void move_gap(struct image *img, size_t to)
{
    if (to < img->gap_at)
        memmove(img->lines + to + img->gap, img->lines + to,
                (img->gap_at - to) * sizeof *img->lines);
    else
        memmove(img->lines + img->gap_at, img->lines + img->gap_at + img->gap,
                (to - img->gap_at) * sizeof *img->lines);
    img->gap_at = to;
}

/* Makes the gap at least n wide. */
static int widen(struct image *img, size_t n)
{
    if (img->gap >= n)
        return 0;
    size_t more = n + img->count / 2 + 16, behind = img->count - img->gap_at;
    struct image_line *lines = realloc(img->lines, (img->count + img->gap + more) * sizeof *lines);
    if (!lines)
        return -ENOMEM;
    memmove(lines + img->gap_at + img->gap + more, lines + img->gap_at + img->gap,
            behind * sizeof *lines);
    img->lines = lines;
    img->gap += more;
    return 0;
}

int image_replace(struct image *img, size_t at, size_t n, const struct image_line *with, size_t m)
{
    if (img->count - n + m > IMAGE_LINES_MAX)
        return -E2BIG;
    move_gap(img, at);
    img->gap += n;
    img->count -= n;
    int r = widen(img, m);
    if (r < 0)
        return r;
    if (m > 0)
        memcpy(img->lines + img->gap_at, with, m * sizeof *with);
    img->gap_at += m;
    img->gap -= m;
    img->count += m;
    return 0;
}

void image_join(const struct image *img, struct buf *b)
{
    for (size_t i = 0; i < img->count; i++) {
        const struct image_line *line = image_line(img, i);
        buf_append(b, line->text, line->size);
        if (i + 1 < img->count && line->size > 0 && line->text[line->size - 1] != '\n')
            buf_append(b, "\n", 1);
    }
}
