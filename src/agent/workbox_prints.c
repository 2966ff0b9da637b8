/*
 * Fingerprints of a box's changes: which files differ between two states of the same box.
 *
 * The list of changes tells that a path differs from the folder, but not whether two states differ
 * there in the same way. The diff does: it has one section per file, whose text is the same exactly
 * if the file is.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "encoding.h"
#include "io.h"
#include "workbox.h"
#include "banned.h"

#define SECTION    "diff --git "
#define HEADER_MAX (1u << 20)

/* FNV-1a. */
static uint64_t prints_hash(const char *text, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)text[i]) * 0x100000001b3u;
    return h;
}

/* Where the next section begins: at a line that begins with SECTION, which no other line of a diff
 * does. */
static const char *prints_next_section(const char *at, const char *end)
{
    for (const char *line = at; (line = memchr(line, '\n', (size_t)(end - line)));) {
        line++;
        if ((size_t)(end - line) >= strlen(SECTION) && memcmp(line, SECTION, strlen(SECTION)) == 0)
            return line;
    }
    return end;
}

/* The hash of each section by its first line. */
static json_t *prints_of_diff(const char *text, size_t n)
{
    json_t *sections = json_object();
    const char *end = text + n;
    for (const char *at = text, *next; sections && at < end; at = next) {
        next = prints_next_section(at, end);
        const char *line_end = memchr(at, '\n', (size_t)(next - at));
        size_t line = line_end ? (size_t)(line_end - at) : (size_t)(next - at);
        json_object_setn_new_nocheck(
            sections, at, line, json_integer((json_int_t)prints_hash(at, (size_t)(next - at))));
    }
    return sections;
}

static int prints_read_diff(struct workbox *w, json_t **ret, struct error *err)
{
    struct stat st;
    _cleanup_fd_ int file = io_unnamed_file();
    if (file < 0)
        return error_errno(err, -file, "cannot compare the changes");
    int r = workbox_diff(w, file, err);
    if (r < 0)
        return r;
    if (fstat(file, &st) < 0)
        return error_errno(err, errno, "cannot compare the changes");
    char *text =
        st.st_size ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0) : NULL;
    if (text == MAP_FAILED)
        return error_errno(err, errno, "cannot compare the changes");
    *ret = prints_of_diff(text ? text : "", (size_t)st.st_size);
    if (text)
        munmap(text, (size_t)st.st_size);
    return *ret ? 0 : error_set(err, ENOMEM, "out of memory");
}

int workbox_fingerprints(struct workbox *w, json_t **ret, struct error *err)
{
    struct agent_changes c = {0};
    json_t *sections = NULL, *prints = json_object();
    int r = prints ? workbox_changes(w, &c, err) : error_set(err, ENOMEM, "out of memory");
    if (r == 0 && c.count)
        r = prints_read_diff(w, &sections, err);
    for (size_t i = 0; r == 0 && i < c.count; i++) {
        _cleanup_buf_ struct buf header = BUF_INIT(HEADER_MAX);
        buf_append_str(&header, SECTION);
        cquote_append(&header, "a/", c.items[i].path);
        buf_append(&header, " ", 1);
        cquote_append(&header, "b/", c.items[i].path);
        const json_t *hash =
            header.failed ? NULL
                          : json_object_getn(sections, (const char *)header.data, header.len);
        json_object_set_new_nocheck(prints, c.items[i].path,
                                    json_integer(json_integer_value(hash)));
    }
    agent_changes_free(&c);
    json_decref(sections);
    if (r < 0) {
        json_decref(prints);
        return r;
    }
    *ret = prints;
    return 0;
}

size_t fingerprints_differ(const json_t *a, const json_t *b)
{
    const char *path;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)a, path, value) n +=
        !json_object_get(b, path) || !json_equal(value, json_object_get(b, path));
    json_object_foreach((json_t *)b, path, value) n += !json_object_get(a, path);
    return n;
}
