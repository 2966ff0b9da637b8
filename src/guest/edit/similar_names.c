#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "similar_names.h"
#include "banned.h"

#define NAMES_READ  10000 /* of one folder */
#define NAME_LONG   96    /* longer names are not compared */
#define SUGGESTIONS 3

static unsigned lower(char c)
{
    return (unsigned)tolower((unsigned char)c);
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* The distance of Damerau and Levenshtein (neighbours swapped count once), three rows of the matrix
 * kept. */
unsigned similar_names_distance(const char *a, const char *b, unsigned limit)
{
    unsigned rows[3][NAME_LONG + 1];
    size_t n = strlen(a), m = strlen(b);
    if (n > NAME_LONG || m > NAME_LONG || (n > m ? n - m : m - n) > limit)
        return limit + 1;
    for (unsigned j = 0; j <= m; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            bool same = lower(a[i - 1]) == lower(b[j - 1]);
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + !same);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], two_above[j - 2] + 1);
        }
    }
    return least(rows[n % 3][m], limit + 1);
}

/* The best names so far, the best first. */
struct suggestions {
    const char *wanted;
    unsigned limit;
    size_t count;
    unsigned distance[SUGGESTIONS];
    char name[SUGGESTIONS][NAME_MAX + 1];
};

static void suggestions_offer(struct suggestions *s, const char *name)
{
    unsigned d = similar_names_distance(s->wanted, name, s->limit);
    size_t at = s->count;
    if (d > s->limit)
        return;
    while (at > 0 && s->distance[at - 1] > d)
        at--;
    if (at == SUGGESTIONS)
        return;
    size_t last = s->count < SUGGESTIONS ? s->count++ : SUGGESTIONS - 1;
    for (size_t i = last; i > at; i--) {
        s->distance[i] = s->distance[i - 1];
        memcpy(s->name[i], s->name[i - 1], sizeof s->name[i]);
    }
    s->distance[at] = d;
    snprintf(s->name[at], sizeof s->name[at], "%s", name);
}

static void suggestions_read(struct suggestions *s, int folder)
{
    DIR *dir = fdopendir(folder);
    struct dirent *e;
    if (!dir) {
        close(folder);
        return;
    }
    for (int i = 0; i < NAMES_READ && (e = readdir(dir)); i++)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            suggestions_offer(s, e->d_name);
    closedir(dir);
}

/* Adds to the text as far as there is room. */
static void append_text(struct error *err, const char *fmt, const char *a, const char *b)
{
    size_t n = strlen(err->text);
    snprintf(err->text + n, sizeof err->text - n, fmt, a, b);
}

/* Names like `name` in a folder whose path is `folder` ("" is the root). */
static void suggest(struct file_call *c, const char *folder, const char *name, struct error *err)
{
    struct suggestions s = {.wanted = name,
                            .limit = (unsigned)least((unsigned)strlen(name) / 3 + 1, 6)};
    int fd = -1;
    if (file_resolve(c, *folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_NONBLOCK, &fd) < 0)
        return;
    suggestions_read(&s, fd);
    for (size_t i = 0; i < s.count; i++) {
        append_text(err, "%s'%.200s",
                    i == 0            ? "; did you mean "
                    : i + 1 < s.count ? ", "
                                      : " or ",
                    folder);
        append_text(err, "%s%.200s'", *folder && strcmp(folder, "/") != 0 ? "/" : "", s.name[i]);
    }
    if (s.count)
        append_text(err, "%s%s", "?", "");
}

/* The path is a link to something that does not exist: says to what. */
static bool explain_link(struct file_call *c, struct error *err)
{
    char target[256];
    _cleanup_fd_ int fd = -1;
    if (file_resolve(c, c->path, O_PATH | O_NOFOLLOW, &fd) < 0)
        return false;
    ssize_t n = readlinkat(fd, "", target, sizeof target - 1);
    if (n < 0)
        return false;
    target[n] = 0;
    error_set(err, ENOENT, "%.400s: is a link to '%s', which does not exist", c->path, target);
    return true;
}

/* Goes down the path to the first name that is missing, and says which it is. */
static void explain_missing_part(struct file_call *c, struct error *err)
{
    char path[PATH_MAX];
    size_t n = strlen(c->path), above = 0;
    if (n >= sizeof path)
        return;
    memcpy(path, c->path, n + 1);
    for (size_t at = strspn(path, "/"); path[at];) {
        size_t end = at + strcspn(path + at, "/");
        char kept = path[end];
        _cleanup_fd_ int fd = -1;
        path[end] = 0;
        if (file_resolve(c, path, O_PATH, &fd) < 0) {
            char name[NAME_MAX + 1];
            bool last = kept == 0;
            snprintf(name, sizeof name, "%s", path + at);
            error_set(err, ENOENT, "%.400s: there is no %s", c->path,
                      last ? "such file" : "folder ");
            if (!last)
                append_text(err, "'%.400s'%s", path, "");
            if (at > 0)
                path[above ? above : 1] = 0; /* "a/b" → "a", "/a" → "/" */
            suggest(c, at > 0 ? path : "", name, err);
            return;
        }
        path[end] = kept;
        above = end;
        at = end + strspn(path + end, "/");
    }
}

int similar_names_explain(struct file_call *c, int r, struct error *err)
{
    if (r == -ENOENT && !explain_link(c, err))
        explain_missing_part(c, err);
    return r;
}
