#include <err.h>
#include <errno.h>
#include <stdlib.h>

#include "subject.h"
#include "thread.h"
#include "banned.h"

void subject_init(struct subject *s, const char *workspace)
{
    *s = (struct subject){0};
    box_options_default(&s->options);
    s->options.workspace = workspace;
}

void subject_free(struct subject *s)
{
    s->pool = pool_close(s->pool);
    s->live = box_close(s->live);
}

void subject_open_live(struct subject *s)
{
    struct error err = {0};
    if (box_open(&s->options, &s->live, &err) < 0)
        errx(1, "%s", err.text);
}

void subject_open_pool(struct subject *s, size_t size)
{
    struct error err = {0};
    if (pool_open(&s->options, size, &s->pool, &err) < 0)
        errx(1, "%s", err.text);
}

int subject_exec(struct box *b, const char *script)
{
    const char *const plain[] = {"true", NULL};
    const char *const shell[] = {"sh", "-c", script, NULL};
    struct box_command command = {.argv = (char *const *)(script ? shell : plain),
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .cancel = -1};
    struct box_result result = {0};
    struct error err = {0};
    int r = box_exec(b, &command, &result, &err);
    if (r < 0)
        warnx("%s", err.text);
    else if (result.exit_code != 0) {
        warnx("a command in a box ended with status %d", result.exit_code);
        r = -EIO;
    }
    box_result_free(&result);
    return r;
}

static int run_fresh(void *data, int64_t *ret_ns)
{
    struct subject *s = data;
    struct box *b = NULL;
    struct error err = {0};
    int64_t begin = clock_now();
    int r = box_open(&s->options, &b, &err);
    if (r < 0)
        warnx("%s", err.text);
    else
        r = subject_exec(b, NULL);
    box_close(b);
    *ret_ns = clock_now() - begin;
    return r;
}

static int run_pooled(void *data, int64_t *ret_ns)
{
    struct subject *s = data;
    struct box *b = NULL;
    struct error err = {0};
    int64_t begin = clock_now();
    int r = pool_take(s->pool, &b, &err);
    if (r < 0) {
        warnx("%s", err.text);
        return r;
    }
    r = subject_exec(b, NULL);
    pool_give(s->pool, b);
    *ret_ns = clock_now() - begin;
    return r;
}

static int run_live(void *data, int64_t *ret_ns)
{
    struct subject *s = data;
    int64_t begin = clock_now();
    int r = subject_exec(s->live, NULL);
    *ret_ns = clock_now() - begin;
    return r;
}

struct contestant subject_fresh(struct subject *s)
{
    return (struct contestant){.name = "box", .run = run_fresh, .data = s};
}

struct contestant subject_pooled(struct subject *s)
{
    return (struct contestant){.name = "pool", .run = run_pooled, .data = s};
}

struct contestant subject_live(struct subject *s)
{
    return (struct contestant){.name = "live", .run = run_live, .data = s};
}
