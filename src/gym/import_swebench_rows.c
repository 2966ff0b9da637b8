/*
 * The file of rows: an array of objects; an object a line; one object alone, in lines or not; or
 * what the data sets' server answers, an object whose member `rows` is a list of objects with a
 * member `row`.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "import_swebench.h"
#include "io.h"
#include "json.h"
#include "banned.h"

#define ROWS_MAX    200000u
#define ROW_MAX     (32u << 20)
#define WHOLE_BYTES (256u << 20)
#define VALUES_MAX  8000000u
#define FILE_MAX    (1ll << 30)

/* An array of rows, in either form. */
static int take_array(struct rows *rows, const json_t *list, row_taker take, struct error *err)
{
    json_t *one;
    size_t i;
    int r = 0;
    json_array_foreach(list, i, one)
    {
        const json_t *inner = json_object_get(one, "row");
        if (r == 0)
            r = take(rows, json_is_object(inner) ? inner : one, rows->file, err);
    }
    return r;
}

static int take_whole(struct rows *rows, FILE *in, row_taker take, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(WHOLE_BYTES);
    json_error_t at;
    int r = lseek(fileno(in), 0, SEEK_SET) < 0 ? -errno : io_read_all(fileno(in), &b);
    if (r < 0)
        return error_errno(err, r == -ENOBUFS ? EFBIG : -r, "%s", rows->file);
    if (json_count_values((const char *)b.data, b.len, VALUES_MAX) > VALUES_MAX)
        return error_set(err, E2BIG, "%s: has more than %u values", rows->file, VALUES_MAX);
    json_t *whole = json_loadb((const char *)b.data, b.len, 0, &at);
    if (!whole)
        return error_set(err, EINVAL, "%s: line %d, column %d: %s", rows->file, at.line, at.column,
                         at.text);
    const json_t *list = json_is_array(whole) ? whole : json_object_get(whole, "rows");
    r = json_is_array(list) ? take_array(rows, list, take, err)
                            : take(rows, whole, rows->file, err);
    json_decref(whole);
    return r;
}

static int take_line(struct rows *rows, const char *line, size_t n, size_t number, row_taker take,
                     struct error *err)
{
    json_t *o = NULL;
    struct error why = {0};
    char at[PATH_MAX];
    if (line[strspn(line, " \t\r\n")] == 0)
        return 0;
    snprintf(at, sizeof at, "%.3900s, line %zu", rows->file, number);
    int r = n > ROW_MAX ? error_set(&why, EFBIG, "is too long") : task_json(line, n, &o, &why);
    if (r < 0) {
        import_skip(rows->im, at, &why);
        return 0;
    }
    r = take(rows, o, at, err);
    json_decref(o);
    return r;
}

static int take_lines(struct rows *rows, FILE *in, row_taker take, struct error *err)
{
    _cleanup_free_ char *line = NULL;
    size_t room = 0, number = 0;
    ssize_t n;
    int r = 0;
    while (r == 0 && number < ROWS_MAX && (n = getline(&line, &room, in)) > 0)
        r = take_line(rows, line, (size_t)n, ++number, take, err);
    return r;
}

/* Is the first line a row? Then each line is one. */
static bool has_rows_as_lines(FILE *in)
{
    _cleanup_free_ char *line = NULL;
    size_t room = 0;
    struct error why = {0};
    json_t *o = NULL;
    ssize_t n;
    do {
        n = getline(&line, &room, in);
    } while (n > 0 && line[strspn(line, " \t\r\n")] == 0);
    bool rows = n > 0 && n <= (ssize_t)ROW_MAX && task_json(line, (size_t)n, &o, &why) == 0 &&
                !json_object_get(o, "rows");
    json_decref(o);
    rewind(in);
    return rows;
}

int swebench_read(struct rows *rows, row_taker take, struct error *err)
{
    struct stat st;
    int first;
    _cleanup_fclose_ FILE *in = fopen(rows->file, "re");
    if (!in)
        return error_errno(err, errno, "%s", rows->file);
    if (fstat(fileno(in), &st) < 0 || !S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "%s: is no regular file with rows as JSON", rows->file);
    if (st.st_size > FILE_MAX)
        return error_set(err, EFBIG, "%s: is larger than %lld MiB", rows->file, FILE_MAX >> 20);
    while ((first = getc(in)) == ' ' || first == '\n' || first == '\t' || first == '\r')
        ;
    rewind(in);
    if (first != '[' && first != '{')
        return error_set(
            err, EINVAL, "%s: begins neither with [ (an array of rows) nor with { (a row a line)%s",
            rows->file, first == 'P' ? "; a Parquet file must be converted to JSON first" : "");
    bool lines = first == '{' && has_rows_as_lines(in);
    return lines ? take_lines(rows, in, take, err) : take_whole(rows, in, take, err);
}
