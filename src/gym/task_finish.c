/*
 * What every task needs, wherever it came from: what was not given is filled in, and the parts must
 * fit together. Errors begin with the member that is wrong.
 */
#include <errno.h>
#include <linux/limits.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "clock.h"
#include "task_private.h"
#include "banned.h"

/* The defaults of docs/tasks.md: one place. */
#define STEPS        16
#define TEST_TIME_NS (20 * NS_PER_S)
#define TEST_CPU_NS  (5 * NS_PER_S)
#define MEMORY       (512ull << 20)
#define PIDS         64
#define DISK         (64ull << 20)
#define PRICE        0.01
#define SEED         1
#define COMMAND_NS   (120 * NS_PER_S) /* of one command that an agent runs */

void task_defaults(struct task *t)
{
    struct box_options box;
    box_options_default(&box);
    t->limits = box.limits;
    t->limits.timeout_ns = COMMAND_NS;
    t->limits.memory = MEMORY;
    t->limits.pids = PIDS;
    t->limits.disk = DISK;
    t->test_timeout_ns = TEST_TIME_NS;
    t->test_cpu_ns = TEST_CPU_NS;
    t->max_steps = STEPS;
    t->call_price = t->second_price = PRICE;
    t->seed = SEED;
}

static int set_text(char **text, const char *value, struct error *err)
{
    if (*text)
        return 0;
    *text = strdup(value);
    return *text ? 0 : task_no_memory(err);
}

static int add(struct task_list *l, const char *text, struct error *err)
{
    return task_list_add(l, text) < 0 ? task_no_memory(err) : 0;
}

static bool has_folder(const struct task *t, const char *path)
{
    for (size_t i = 0; i < t->files.count; i++)
        if (task_path_covers(path, t->files.items[i].path))
            return true;
    return false;
}

/* The command line that does by hand what the warm runner does. */
static int pytest_command(struct task_tests *s, struct error *err)
{
    _cleanup_buf_ struct buf b = BUF_INIT(TASK_TEXT_MAX);
    if (s->command)
        return 0;
    buf_append_str(&b, "python3 -m pytest -q");
    for (size_t i = 0; i < s->paths.count; i++) {
        const char *path = s->paths.items[i];
        bool plain =
            path[strspn(path,
                        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")] == 0;
        buf_append_str(&b, plain ? " " : " '");
        for (; *path; path++)
            if (*path == '\'')
                buf_append_str(&b, "'\\''");
            else
                buf_append(&b, path, 1);
        buf_append_str(&b, plain ? "" : "'");
    }
    const char *text = b.failed ? NULL : buf_cstr(&b);
    return text ? set_text(&s->command, text, err) : task_no_memory(err);
}

static int finish_pytest(struct task *t, struct error *err)
{
    struct task_tests *s = &t->tests;
    int r = 0;
    s->verdict = VERDICT_REPORT;
    if (s->paths.count == 0)
        r = add(&s->paths, "tests", err);
    if (r == 0 && s->import.count == 0)
        r = add(&s->import, has_folder(t, "src") ? "src" : ".", err);
    bool given = s->own.count > 0;
    for (size_t i = 0; i < s->paths.count && r == 0 && !given; i++)
        r = strcmp(s->paths.items[i], ".") != 0
                ? add(&s->own, s->paths.items[i], err)
                : error_set(err, EINVAL,
                            "tests.own: is needed when tests.paths is the whole workspace");
    return r == 0 ? pytest_command(s, err) : r;
}

static int finish_command(struct task_tests *s, struct error *err)
{
    if (!s->command)
        return error_set(err, EINVAL, "tests.command: is needed with the runner \"command\"");
    if (s->verdict == VERDICT_REWARD && !s->report)
        return error_set(err, EINVAL, "tests.report: is needed with the format \"reward\"");
    if (s->verdict == VERDICT_EXIT && s->report)
        return error_set(err, EINVAL, "tests.report: has no meaning with the format \"exit\"");
    if (s->verdict == VERDICT_REPORT && !s->report && !strstr(s->command, "%R"))
        return error_set(
            err, EINVAL,
            "tests.report: is needed, or %%R in tests.command where the report's path belongs");
    if (s->verdict == VERDICT_REPORT)
        return 0;
    const char *name = s->verdict == VERDICT_EXIT ? "command" : "reward";
    if (s->expected.count > 1 ||
        (s->expected.count == 1 && strcmp(s->expected.items[0], name) != 0))
        return error_set(err, EINVAL,
                         "tests.expected: with the format \"%s\" there is one test, called \"%s\"",
                         s->verdict == VERDICT_EXIT ? "exit" : "reward", name);
    return s->expected.count ? 0 : add(&s->expected, name, err);
}

/* Hidden files are the task's own by their nature. */
static int own_hidden(struct task *t, struct error *err)
{
    int r = 0;
    for (size_t i = 0; i < t->hidden.count && r == 0; i++)
        if (!task_list_covers(&t->tests.own, t->hidden.items[i].path))
            r = add(&t->tests.own, t->hidden.items[i].path, err);
    return r;
}

/* No file may lie beneath another, in all that is put into one box. */
static int check_tree(const struct task_tree *tree, const struct task_tree *other,
                      struct error *err)
{
    char parent[PATH_MAX];
    size_t at;
    for (size_t i = 0; i < tree->count; i++) {
        snprintf(parent, sizeof parent, "%s", tree->items[i].path);
        for (char *slash; (slash = strrchr(parent, '/'));) {
            *slash = 0;
            if (task_tree_find(tree, parent, &at) || task_tree_find(other, parent, &at))
                return error_set(err, EINVAL, "%.500s: is both a file and a folder", parent);
        }
    }
    return 0;
}

static int check_size(const struct task *t, struct error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < t->files.count; i++)
        bytes += t->files.items[i].size;
    for (size_t i = 0; i < t->hidden.count; i++)
        bytes += t->hidden.items[i].size;
    if (bytes > TASK_BYTES_MAX)
        return error_set(err, EFBIG, "the files of the task are more than %u MiB together",
                         TASK_BYTES_MAX >> 20);
    if (t->files.count + t->hidden.count > TASK_FILES_MAX)
        return error_set(err, E2BIG, "the task has more than %u files", TASK_FILES_MAX);
    if (bytes > t->limits.disk)
        return error_set(err, EINVAL, "limits.disk: the files of the task alone are %llu bytes",
                         (unsigned long long)bytes);
    return 0;
}

struct range {
    const char *name;
    uint64_t value, min, max;
    const char *text;
};

static int check_limits(const struct task *t, struct error *err)
{
    const struct range ranges[] = {
        {"steps", t->max_steps, 1, 100000, "1 to 100000"},
        {"test_time", (uint64_t)t->test_timeout_ns, 100 * NS_PER_MS, 86400 * NS_PER_S,
         "100ms to 24h"},
        {"test_cpu", (uint64_t)t->test_cpu_ns, 100 * NS_PER_MS, 86400 * NS_PER_S, "100ms to 24h"},
        {"memory", t->limits.memory, 32ull << 20, 1ull << 40, "32M to 1T"},
        {"pids", t->limits.pids, 8, 65536, "8 to 65536"},
        {"disk", t->limits.disk, 1ull << 20, 1ull << 40, "1M to 1T"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(ranges); i++)
        if (ranges[i].value < ranges[i].min || ranges[i].value > ranges[i].max)
            return error_set(err, EINVAL, "limits.%s: must be %s", ranges[i].name, ranges[i].text);
    const double prices[] = {t->call_price, t->second_price};
    for (size_t i = 0; i < 2; i++)
        if (!(prices[i] >= 0 && prices[i] <= 1))
            return error_set(err, EINVAL, "prices.%s: must be 0 to 1", i == 0 ? "call" : "second");
    return 0;
}

static int check_names(const struct task *t, struct error *err)
{
    size_t at;
    for (size_t i = 0; i < t->solution.count; i++)
        if (!task_patch_find(t, t->solution.items[i]))
            return error_set(err, EINVAL, "solution[%zu]: there is no patch called \"%.100s\"", i,
                             t->solution.items[i]);
    for (size_t i = 0; i < t->reads.count && !t->root; i++)
        if (!task_tree_find(&t->files, t->reads.items[i], &at))
            return error_set(err, EINVAL, "reads[%zu]: the workspace has no file %.200s", i,
                             t->reads.items[i]);
    const char *lang = t->language;
    if (lang && (!*lang || lang[strspn(lang, "abcdefghijklmnopqrstuvwxyz0123456789+#-")]))
        return error_set(err, EINVAL,
                         "language: \"%.100s\" is no name of a language (python, c, javascript)",
                         lang);
    return 0;
}

int task_finish(struct task *t, struct error *err)
{
    int r = check_limits(t, err);
    if (r == 0)
        r = check_names(t, err);
    if (r == 0)
        r = t->tests.runner == TASK_PYTEST ? finish_pytest(t, err) : finish_command(&t->tests, err);
    if (r == 0)
        r = set_text(&t->language, t->tests.runner == TASK_PYTEST ? "python" : "other", err);
    if (r == 0)
        r = own_hidden(t, err);
    if (r == 0)
        r = check_tree(&t->files, &t->hidden, err);
    if (r == 0)
        r = check_tree(&t->hidden, &t->files, err);
    if (r == 0)
        r = check_size(t, err);
    if (r == 0)
        task_digest(t, t->digest);
    return r;
}
