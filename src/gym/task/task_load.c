/*
 * A task's folder. It may be a stranger's: every file of it is opened without following links, must
 * be a regular one, and is read within limits; what does not belong there is an error rather than
 * passed over, since a misspelt `test/` would otherwise be a task without tests.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/limits.h>
#include <math.h>
#include <sha2.h>
#include <string.h>
#include <sys/stat.h>

#include "thread.h"
#include "text.h"
#include "libexec.h"
#include "relpath.h"
#include "task_build.h"
#include "banned.h"

/* What may lie in a task's folder. */
static const char *const PARTS[] = {"src",           "tests",      "workspace", "hidden",
                                    "patches.json",  "task.json",  "README.md", ".gitignore",
                                    ".pytest_cache", "__pycache__"};

static bool name_ok(const char *name)
{
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && n < TASK_NAME_MAX && name[n] == 0;
}

static bool is_part(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
        if (strcmp(name, PARTS[i]) == 0)
            return true;
    return false;
}

static int check_parts(const char *folder, struct error *err)
{
    struct dirent *d;
    DIR *dir = opendir(folder);
    if (!dir)
        return error_errno(err, errno, "%s", folder);
    int r = 0;
    while (r == 0 && (d = readdir(dir)))
        if (strcmp(d->d_name, ".") != 0 && strcmp(d->d_name, "..") != 0 && !is_part(d->d_name))
            r = error_set(
                err, EINVAL,
                "%s/%.200s: is not part of a task (src, tests, hidden, workspace, patches.json, "
                "task.json); other files of the workspace go into workspace/",
                folder, d->d_name);
    closedir(dir);
    return r;
}

/* The task's name is its folder's, also when that is given as "." or with a slash behind it. */
static int take_name(struct task *t, const char *folder, struct error *err)
{
    char path[PATH_MAX];
    if (!realpath(folder, path))
        return error_errno(err, errno, "%s", folder);
    const char *name = relpath_name(path);
    if (!name_ok(name))
        return error_set(
            err, EINVAL,
            "%s: \"%.100s\" is not a valid task name (a to z, 0 to 9 and _, fewer than %d)", folder,
            name, TASK_NAME_MAX);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->origin = strdup(path);
    return t->origin ? 0 : task_no_memory(err);
}

static int read_json(struct task *t, int dir, const char *folder, const char *name, size_t max,
                     int (*parse)(struct task *t, const char *text, size_t n, struct error *err),
                     struct error *err)
{
    char shown[2 * PATH_MAX];
    _cleanup_buf_ struct buf b = BUF_INIT(max);
    snprintf(shown, sizeof shown, "%s/%s", folder, name);
    int r = task_read_file(dir, name, shown, &b, err);
    if (r < 0)
        return r;
    r = parse(t, b.data ? (const char *)b.data : "", b.len, err);
    return r < 0 ? error_wrap(err, "%s", shown) : 0;
}

static int read_files(struct task *t, const char *folder, struct error *err)
{
    int r = task_read_part(&t->files, folder, "src", "src", err);
    if (r == 0)
        r = task_read_part(&t->files, folder, "tests", "tests", err);
    if (r == 0)
        r = task_read_part(&t->files, folder, "workspace", "", err);
    return r == 0 ? task_read_part(&t->hidden, folder, "hidden", "", err) : r;
}

int task_load(const char *folder, struct task **ret, struct error *err)
{
    _cleanup_task_ struct task *t = task_new();
    if (!t)
        return task_no_memory(err);
    _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, errno, "%s", folder);
    int r = take_name(t, folder, err);
    if (r == 0)
        r = check_parts(folder, err);
    if (r == 0)
        r = read_json(t, dir, folder, "task.json", TASK_JSON_MAX, task_parse, err);
    if (r == 0)
        r = read_json(t, dir, folder, "patches.json", TASK_DIFFS_MAX, task_parse_patches, err);
    if (r == 0)
        r = read_files(t, folder, err);
    if (r < 0)
        return r;
    r = task_finish(t, err);
    if (r < 0)
        return error_wrap(err, "%s/task.json", folder);
    *ret = TAKE_PTR(t);
    return 0;
}

/*
 * Where tasks lie: in a folder that somebody names, in $HUTCH_TASKS, or with hutch itself: beside
 * the build folder in a source tree, in share/hutch/tasks of an installation.
 */

#define TASKS_MAX 100000u

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder of our own tasks, from where the guest is: build/ or libexec/hutch/. */
static int find_ours(char path[PATH_MAX], struct error *err)
{
    static const char *const PLACES[] = {"../tasks", "../../share/hutch/tasks"};
    char part[LIBEXEC_PATH_MAX], place[LIBEXEC_PATH_MAX + 64];
    int r = libexec_find("hutch-guest", part, err);
    if (r < 0)
        return r;
    *strrchr(part, '/') = 0;
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        snprintf(place, sizeof place, "%s/%s", part, PLACES[i]);
        if (is_folder(place) && realpath(place, path))
            return 0;
    }
    return error_set(err, ENOENT,
                     "found hutch's tasks neither in %s/%s nor in %s/%s; name a folder with "
                     "--tasks or HUTCH_TASKS",
                     part, PLACES[0], part, PLACES[1]);
}

static int find_folder(const char *tasks, char path[PATH_MAX], struct error *err)
{
    const char *env = getenv("HUTCH_TASKS");
    const char *named = tasks ? tasks : env && *env ? env : NULL;
    if (!named)
        return find_ours(path, err);
    if (strlen(named) >= PATH_MAX)
        return error_errno(err, ENAMETOOLONG, "cannot open the folder of tasks");
    if (!is_folder(named))
        return error_set(err, ENOENT, "%s: not a folder%s", named, tasks ? "" : " (HUTCH_TASKS)");
    snprintf(path, PATH_MAX, "%s", named);
    return 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Each folder that has a task.json; others are none of ours. */
static int list(const char *folder, struct task_list *ret, struct error *err)
{
    char path[PATH_MAX + NAME_MAX + 16];
    struct dirent *d;
    struct stat st;
    int r = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return error_errno(err, errno, "%s", folder);
    while (r == 0 && (d = readdir(dir))) {
        snprintf(path, sizeof path, "%s/%s/task.json", folder, d->d_name);
        if (d->d_name[0] == '.' || lstat(path, &st) < 0)
            continue;
        r = ret->count < TASKS_MAX ? task_list_add(ret, d->d_name) : -E2BIG;
    }
    closedir(dir);
    if (r < 0)
        return error_errno(err, -r, "%s", folder);
    if (ret->count > 0)
        qsort(ret->items, ret->count, sizeof *ret->items, compare_names);
    return 0;
}

int task_names(const char *tasks, struct task_list *ret, struct error *err)
{
    char folder[PATH_MAX];
    struct task_list names = {0};
    int r = find_folder(tasks, folder, err);
    if (r == 0)
        r = list(folder, &names, err);
    if (r < 0) {
        task_list_free(&names);
        return r;
    }
    *ret = names;
    return 0;
}

/* A task of the current folder is named with a slash. */
static bool is_here(const char *name)
{
    char path[TASK_NAME_MAX + 16];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/task.json", name);
    return *name && n > 0 && n < (int)sizeof path && lstat(path, &st) == 0;
}

static int no_such_task(const char *folder, const char *name, struct error *err)
{
    struct task_list names = {0};
    if (is_here(name))
        return error_set(err, ENOENT, "there is no task %.100s in %s; the one here is ./%.100s",
                         name, folder, name);
    struct nearest near = nearest_to(name, strlen(name));
    if (list(folder, &names, NULL) == 0)
        for (size_t i = 0; i < names.count; i++)
            nearest_offer(&near, names.items[i]);
    int r = near.best ? error_set(err, ENOENT, "there is no task %.100s in %s; did you mean %s?",
                                  name, folder, near.best)
                      : error_set(err, ENOENT,
                                  "there is no task %.100s in %s; `hutch gym tasks` lists them",
                                  name, folder);
    task_list_free(&names);
    return r;
}

int task_find(const char *tasks, const char *name, struct task **ret, struct error *err)
{
    char folder[PATH_MAX], path[PATH_MAX + TASK_NAME_MAX + 16];
    if (strchr(name, '/'))
        return task_load(name, ret, err);
    int r = find_folder(tasks, folder, err);
    if (r < 0)
        return r;
    if (strlen(name) >= TASK_NAME_MAX || strcmp(name, "") == 0 || name[0] == '.')
        return no_such_task(folder, name, err);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return is_folder(path) ? task_load(path, ret, err) : no_such_task(folder, name, err);
}

/*
 * What every task needs, wherever it came from: what was not given is filled in, and the parts must
 * fit together. Errors begin with the member that is wrong.
 */

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
        return error_set(
            err, EINVAL,
            "language: \"%.100s\" is not the name of a language (python, c, javascript)", lang);
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

/*
 * The digest of a task: equal exactly when episodes are played under the same conditions. Every
 * part goes in with its name and its length before it, so that no two tasks give the same bytes;
 * numbers as text, so that it is the same on every machine. Where the task lies and what it is
 * called do not count; of a root that was extracted from elsewhere its folder's name does, which
 * says what it is (a commit).
 */

static void add_bytes(SHA2_CTX *sha, const char *name, const void *bytes, size_t n)
{
    char head[96];
    int len = snprintf(head, sizeof head, "%s %zu\n", name, n);
    SHA256Update(sha, (const uint8_t *)head, (size_t)len);
    SHA256Update(sha, bytes, n);
}

static void add_text(SHA2_CTX *sha, const char *name, const char *text)
{
    add_bytes(sha, name, text ? text : "", text ? strlen(text) : 0);
}

static void add_number(SHA2_CTX *sha, const char *name, uint64_t value)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%" PRIu64, value);
    add_bytes(sha, name, text, (size_t)n);
}

static void add_real(SHA2_CTX *sha, const char *name, double value)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%a", value);
    add_bytes(sha, name, text, (size_t)n);
}

static void add_list(SHA2_CTX *sha, const char *name, const struct task_list *l)
{
    add_number(sha, name, l->count);
    for (size_t i = 0; i < l->count; i++)
        add_text(sha, "item", l->items[i]);
}

static void add_tree(SHA2_CTX *sha, const char *name, const struct task_tree *tree)
{
    add_number(sha, name, tree->count);
    for (size_t i = 0; i < tree->count; i++) {
        add_text(sha, "path", tree->items[i].path);
        add_number(sha, "mode", tree->items[i].mode);
        add_bytes(sha, "bytes", tree->items[i].bytes, tree->items[i].size);
    }
}

static void add_tests(SHA2_CTX *sha, const struct task_tests *s)
{
    add_number(sha, "runner", s->runner);
    add_list(sha, "paths", &s->paths);
    add_list(sha, "import", &s->import);
    if (s->packages.count)
        add_list(sha, "packages", &s->packages);
    add_text(sha, "command", s->command);
    add_number(sha, "verdict", s->verdict);
    add_number(sha, "format", s->format);
    add_text(sha, "report", s->report);
    add_list(sha, "own", &s->own);
    add_list(sha, "clear", &s->clear);
    add_list(sha, "expected", &s->expected);
}

static void add_limits(SHA2_CTX *sha, const struct task *t)
{
    add_number(sha, "timeout", (uint64_t)t->limits.timeout_ns);
    add_number(sha, "cpu", (uint64_t)t->limits.cpu_time_ns);
    add_number(sha, "memory", t->limits.memory);
    add_number(sha, "pids", t->limits.pids);
    add_number(sha, "files", t->limits.files);
    add_number(sha, "disk", t->limits.disk);
    add_number(sha, "test_time", (uint64_t)t->test_timeout_ns);
    add_number(sha, "test_cpu", (uint64_t)t->test_cpu_ns);
    add_number(sha, "steps", t->max_steps);
    add_real(sha, "call", t->call_price);
    add_real(sha, "second", t->second_price);
    add_number(sha, "seed", t->seed);
}

void task_digest(const struct task *t, char ret[65])
{
    SHA2_CTX sha;
    uint8_t sum[32];
    SHA256Init(&sha);
    add_text(&sha, "hutch task", "1");
    add_text(&sha, "title", t->title);
    add_text(&sha, "instruction", t->instruction);
    add_text(&sha, "language", t->language);
    add_text(&sha, "root", t->root ? relpath_name(t->root) : NULL);
    add_text(&sha, "image", t->image);
    add_number(&sha, "links", t->n_links);
    for (size_t i = 0; i < t->n_links; i++) {
        add_text(&sha, "at", t->links[i].at);
        add_text(&sha, "to", t->links[i].to);
    }
    if (t->env.count)
        add_list(&sha, "env", &t->env);
    if (t->setup)
        add_text(&sha, "setup", t->setup);
    add_tree(&sha, "files", &t->files);
    add_tree(&sha, "hidden", &t->hidden);
    add_tests(&sha, &t->tests);
    add_number(&sha, "patches", t->n_patches);
    for (size_t i = 0; i < t->n_patches; i++) {
        add_text(&sha, "name", t->patches[i].name);
        add_text(&sha, "diff", t->patches[i].diff);
    }
    add_list(&sha, "solution", &t->solution);
    add_text(&sha, "script", t->solution_script);
    add_list(&sha, "reads", &t->reads);
    add_limits(&sha, t);
    SHA256Final(sum, &sha);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}
