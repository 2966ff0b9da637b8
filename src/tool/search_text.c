#include <string.h>

#include "file_name.h"
#include "search_text.h"
#include "banned.h"

/* While the lines of one file are written: matches may share context lines. */
struct lines {
    struct buf *b;
    json_int_t last;     /* the last line written; 0: none */
    const json_t *after; /* context lines behind it that are not written yet */
};

static json_int_t integer(const json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

static const char *string(const json_t *o, const char *name)
{
    const char *s = json_string_value(json_object_get(o, name));
    return s ? s : "";
}

/* A line of the file may hold what would end ours. */
static void put_text(struct buf *b, const char *s)
{
    for (size_t n; *s; s += n) {
        n = strcspn(s, "\r\n\v\f");
        buf_append(b, s, n);
        if (s[n]) {
            buf_append_str(b, " ");
            n++;
        }
    }
}

static void put_line(struct lines *l, json_int_t number, char mark, const char *text)
{
    buf_printf(l->b, "%" JSON_INTEGER_FORMAT "%c", number, mark);
    put_text(l->b, text);
    buf_append_str(l->b, "\n");
    l->last = number;
}

/* The context lines behind the last match, up to the line `end`. */
static void put_after(struct lines *l, json_int_t end)
{
    size_t i;
    json_t *line;
    json_int_t number = l->last;
    json_array_foreach(l->after, i, line) if (++number < end)
        put_line(l, number, '-', json_string_value(line));
    l->after = NULL;
}

static void put_before(struct lines *l, const json_t *before, json_int_t match)
{
    size_t i, n = json_array_size(before);
    json_t *line;
    if (l->last > 0 && n > 0 && match - (json_int_t)n > l->last + 1)
        buf_append_str(l->b, "--\n");
    json_array_foreach(before, i, line)
    {
        json_int_t number = match - (json_int_t)(n - i);
        if (number > l->last)
            put_line(l, number, '-', json_string_value(line));
    }
}

static void put_match(struct lines *l, const json_t *match)
{
    json_int_t number = integer(match, "line");
    const json_t *cut = json_object_get(match, "cut");
    put_after(l, number);
    put_before(l, json_object_get(match, "before"), number);
    buf_printf(l->b, "%" JSON_INTEGER_FORMAT ":", number);
    if (cut)
        buf_append_str(l->b, integer(cut, "from") > 0 ? "… " : "");
    put_text(l->b, string(match, "text"));
    if (cut)
        buf_printf(l->b, " … [part of a line of %" JSON_INTEGER_FORMAT " bytes]",
                   integer(cut, "of"));
    buf_append_str(l->b, "\n");
    l->last = number;
    l->after = json_object_get(match, "after");
}

static void put_file(struct buf *b, const json_t *file)
{
    struct lines l = {.b = b};
    const char *path = string(file, "path");
    const json_t *matches = json_object_get(file, "matches");
    json_int_t count = integer(file, "count"), shown = (json_int_t)json_array_size(matches);
    file_name_append(b, "", path, strlen(path));
    if (shown < count)
        buf_printf(b, " (%" JSON_INTEGER_FORMAT " matching line%s, %" JSON_INTEGER_FORMAT " shown)",
                   count, count == 1 ? "" : "s", shown);
    buf_append_str(b, "\n");
    size_t i;
    json_t *match;
    json_array_foreach(matches, i, match) put_match(&l, match);
    put_after(&l, l.last + 1000);
    if (shown > 0)
        buf_append_str(b, "\n");
}

static void put_counted(struct buf *b, json_int_t n, const char *one, const char *many)
{
    buf_printf(b, "%" JSON_INTEGER_FORMAT " %s", n, n == 1 ? one : many);
}

/* What may be missing from the picture. */
static void put_notes(struct buf *b, const json_t *data)
{
    static const struct {
        const char *name, *one, *many;
    } notes[] = {
        {"binary_skipped", "binary file skipped", "binary files skipped"},
        {"unreadable", "file or folder could not be read", "files and folders could not be read"},
        {"partly_searched", "file is too large or has too long lines and was searched in part",
         "files are too large or have too long lines and were searched in part"},
    };
    for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
        if (integer(data, notes[i].name) > 0) {
            buf_append_str(b, "; ");
            put_counted(b, integer(data, notes[i].name), notes[i].one, notes[i].many);
        }
}

void search_text(struct buf *b, const json_t *data)
{
    const json_t *files = json_object_get(data, "files");
    size_t i;
    json_t *file;
    json_array_foreach(files, i, file) put_file(b, file);
    if (integer(data, "matches") == 0)
        buf_append_str(b, "No matches");
    else {
        put_counted(b, integer(data, "matches"), "matching line in ", "matching lines in ");
        put_counted(b, integer(data, "files_matched"), "file", "files");
    }
    buf_append_str(b, " (");
    put_counted(b, integer(data, "files_searched"), "file searched", "files searched");
    put_notes(b, data);
    buf_append_str(b, ")");
    if (json_is_true(json_object_get(data, "truncated")))
        buf_append_str(b, ". Not all are shown: narrow the pattern, path or glob, or raise "
                          "max_matches or max_files");
    buf_append_str(b, ".\n");
}
