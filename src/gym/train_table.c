#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "train_table.h"
#include "banned.h"

#define LINE_MAX_BYTES 256

int train_table_begin(const char *path, FILE **ret, struct error *err)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return error_errno(err, errno, "cannot write %s", path);
    fputs(TRAIN_TABLE_HEAD, f);
    *ret = f;
    return 0;
}

void train_table_add(FILE *f, const struct train_point *p)
{
    fprintf(f, "%" PRIu64 ",%.10g,%.10g,%u,%.10g,%.10g\n", p->episode, p->ret, p->pass_rate,
            p->calls, p->seconds, p->epsilon);
}

static bool parse_number(const char **at, double *ret)
{
    char *end;
    double v = strtod(*at, &end);
    bool good = end != *at && isfinite(v) && (*end == ',' || *end == '\n' || *end == 0);
    *ret = v;
    *at = *end == ',' ? end + 1 : end;
    return good;
}

bool train_table_parse(const char *line, struct train_point *ret)
{
    double v[6];
    for (size_t i = 0; i < ARRAY_SIZE(v); i++)
        if (!parse_number(&line, &v[i]))
            return false;
    if (!(v[0] >= 1 && v[0] <= TRAIN_EPISODES_MAX) || !(v[3] >= 0 && v[3] <= 1e6) ||
        (*line && *line != '\n'))
        return false;
    *ret = (struct train_point){.episode = (uint64_t)v[0],
                                .ret = v[1],
                                .pass_rate = v[2],
                                .calls = (unsigned)v[3],
                                .seconds = v[4],
                                .epsilon = v[5]};
    return true;
}

/* Reads the lines of the first `keep` episodes, and says where they end. What stands behind (a run
 * that was killed wrote more episodes than its last checkpoint knows of) goes. */
static long read_points(FILE *f, uint64_t keep, struct train_point *points, size_t *ret_n)
{
    char line[LINE_MAX_BYTES];
    long end = 0;
    size_t n = 0;
    if (!fgets(line, sizeof line, f) || strcmp(line, TRAIN_TABLE_HEAD) != 0)
        return 0;
    for (end = ftell(f); n < keep && fgets(line, sizeof line, f); end = ftell(f)) {
        bool follows = strchr(line, '\n') && train_table_parse(line, &points[n]) &&
                       points[n].episode <= keep &&
                       (n == 0 || points[n].episode == points[n - 1].episode + 1);
        if (!follows)
            break;
        n++;
    }
    *ret_n = n;
    return end;
}

/* Leaves the file where the next line goes. */
static int go_on(FILE *f, uint64_t keep, struct train_point **ret_points, size_t *ret_n)
{
    size_t n = 0;
    struct train_point *points = calloc(keep + 1, sizeof *points);
    if (!points)
        return -ENOMEM;
    long end = read_points(f, keep, points, &n);
    if (fseek(f, end, SEEK_SET) < 0 || ftruncate(fileno(f), end) < 0) {
        free(points);
        return -errno;
    }
    if (end == 0)
        fputs(TRAIN_TABLE_HEAD, f);
    *ret_points = points;
    *ret_n = n;
    return 0;
}

int train_table_resume(const char *path, uint64_t keep, FILE **ret, struct train_point **ret_points,
                       size_t *ret_n, struct error *err)
{
    FILE *f = fopen(path, "r+e");
    if (!f && errno == ENOENT)
        return train_table_begin(path, ret, err);
    if (!f)
        return error_errno(err, errno, "cannot go on with %s", path);
    int r = go_on(f, keep, ret_points, ret_n);
    if (r < 0) {
        fclose(f);
        return error_errno(err, -r, "cannot go on with %s", path);
    }
    *ret = f;
    return 0;
}
