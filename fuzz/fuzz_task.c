/*
 * Tasks of strangers: task.json, a NUL, patches.json. Whatever they hold, they are refused with one
 * line, or become a task whose parts fit together: every number in its range, every path within the
 * workspace, every name of the solution a patch; and whose digest is the same each time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compose.h"
#include "relpath.h"
#include "task_build.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* A copy of exactly that size, so that reading past the end is found. */
static char *copy_of(const void *bytes, size_t n)
{
    char *copy = malloc(n ? n : 1);
    require(copy != NULL);
    if (n)
        memcpy(copy, bytes, n);
    return copy;
}

static int parse(int (*function)(struct task *t, const char *text, size_t n, struct error *err),
                 struct task *t, const void *bytes, size_t n)
{
    struct error err = {0};
    char *copy = copy_of(bytes, n);
    int r = function(t, copy, n, &err);
    free(copy);
    require(r <= 0 && (r == 0) == (err.text[0] == 0) && !strchr(err.text, '\n'));
    return r;
}

static void check_paths(const struct task_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        require(strcmp(l->items[i], ".") == 0 ||
                relpath_is_valid(l->items[i], strlen(l->items[i])));
}

static void check(const struct task *t)
{
    char digest[65];
    require(t->title && *t->title && t->instruction && t->language && t->tests.command);
    require(t->max_steps >= 1 && t->max_steps <= 100000);
    require(t->call_price >= 0 && t->call_price <= 1 && t->second_price >= 0 &&
            t->second_price <= 1);
    require(t->test_timeout_ns > 0 && t->test_cpu_ns > 0 && t->limits.memory > 0 &&
            t->limits.disk > 0);
    require(t->n_patches <= TASK_PATCHES_MAX && t->reads.count <= TASK_READS_MAX);
    check_paths(&t->tests.paths);
    check_paths(&t->tests.import);
    check_paths(&t->tests.own);
    check_paths(&t->reads);
    for (size_t i = 0; i < t->solution.count; i++)
        require(task_patch_find(t, t->solution.items[i]) != NULL);
    task_digest(t, digest);
    require(strlen(digest) == 64 && strcmp(digest, t->digest) == 0);
    for (size_t i = 0; i < task_actions(t); i++) {
        const char *tool;
        json_t *input;
        require(task_action(t, i, &tool, &input) == 0 && json_is_object(input));
        json_decref(input);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    const uint8_t *zero = memchr(data, 0, n);
    size_t first = zero ? (size_t)(zero - data) : n;
    struct task *t = task_new();
    require(t && task_tree_add(&t->files, "src/a.py", S_IFREG | 0644, "x", 1) == 0);
    if (parse(task_parse, t, data, first) == 0 &&
        parse(task_parse_patches, t, zero ? zero + 1 : data, zero ? n - first - 1 : 0) == 0 &&
        task_finish(t, NULL) == 0)
        check(t);
    task_free(t);
    return 0;
}
