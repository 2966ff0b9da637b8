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
#include "box_host.h"
#include "relpath.h"
#include "task_build.h"
#include "banned.h"

static int load_check_parts(const char *folder, struct error *err)
{
    static const char *const PARTS[] = {".",         "..",         "src",           "tests",
                                        "workspace", "hidden",     "patches.json",  "task.json",
                                        "README.md", ".gitignore", ".pytest_cache", "__pycache__"};
    struct dirent *d;
    int r = 0;
    DIR *dir = opendir(folder);
    if (!dir)
        return error_errno(err, errno, "%s", folder);
    while (r == 0 && (d = readdir(dir))) {
        bool known = false;
        for (size_t i = 0; i < ARRAY_SIZE(PARTS); i++)
            known |= strcmp(d->d_name, PARTS[i]) == 0;
        if (!known)
            r = error_set(
                err, EINVAL,
                "%s/%.200s: is not part of a task (src, tests, hidden, workspace, patches.json, "
                "task.json); other files of the workspace go into workspace/",
                folder, d->d_name);
    }
    closedir(dir);
    return r;
}

/* The task's name is its folder's, also when the path is "." or ends with a slash. */
static int load_name(struct task *t, const char *folder, struct error *err)
{
    char path[PATH_MAX];
    if (!realpath(folder, path))
        return error_errno(err, errno, "%s", folder);
    const char *name = relpath_name(path);
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");
    if (n == 0 || n >= TASK_NAME_MAX || name[n])
        return error_set(
            err, EINVAL,
            "%s: \"%.100s\" is not a valid task name (a to z, 0 to 9 and _, fewer than %d)", folder,
            name, TASK_NAME_MAX);
    snprintf(t->name, sizeof t->name, "%s", name);
    t->origin = strdup(path);
    return t->origin ? 0 : task_no_memory(err);
}

static int load_json(struct task *t, int dir, const char *folder, const char *name, size_t max,
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

int task_load(const char *folder, struct task **ret, struct error *err)
{
    _cleanup_task_ struct task *t = task_new();
    if (!t)
        return task_no_memory(err);
    _cleanup_fd_ int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return error_errno(err, errno, "%s", folder);
    int r = load_name(t, folder, err);
    if (r == 0)
        r = load_check_parts(folder, err);
    if (r == 0)
        r = load_json(t, dir, folder, "task.json", TASK_JSON_MAX, task_parse, err);
    if (r == 0)
        r = load_json(t, dir, folder, "patches.json", TASK_DIFFS_MAX, task_parse_patches, err);
    if (r == 0)
        r = task_read_part(&t->files, folder, "src", "src", err);
    if (r == 0)
        r = task_read_part(&t->files, folder, "tests", "tests", err);
    if (r == 0)
        r = task_read_part(&t->files, folder, "workspace", "", err);
    if (r == 0)
        r = task_read_part(&t->hidden, folder, "hidden", "", err);
    if (r < 0)
        return r;
    r = task_finish(t, err);
    if (r < 0)
        return error_wrap(err, "%s/task.json", folder);
    *ret = TAKE_PTR(t);
    return 0;
}

/*
 * The folder of tasks: a given one, $HUTCH_TASKS, or hutch's own, which is beside the build folder
 * in a source tree and in share/hutch/tasks of an installation.
 */

#define TASKS_MAX 100000u

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int tasks_folder(const char *tasks, char path[PATH_MAX], struct error *err)
{
    static const char *const PLACES[] = {"../tasks", "../../share/hutch/tasks"};
    char guest[LIBEXEC_PATH_MAX], place[LIBEXEC_PATH_MAX + 64];
    const char *env = getenv("HUTCH_TASKS");
    const char *named = tasks ? tasks : env && *env ? env : NULL;
    if (named && strlen(named) >= PATH_MAX)
        return error_errno(err, ENAMETOOLONG, "cannot open the folder of tasks");
    if (named && !is_folder(named))
        return error_set(err, ENOENT, "%s: not a folder%s", named, tasks ? "" : " (HUTCH_TASKS)");
    if (named) {
        snprintf(path, PATH_MAX, "%s", named);
        return 0;
    }
    int r = libexec_find("hutch-guest", guest, err); /* in build/ or libexec/hutch/ */
    if (r < 0)
        return r;
    *strrchr(guest, '/') = 0;
    for (size_t i = 0; i < ARRAY_SIZE(PLACES); i++) {
        snprintf(place, sizeof place, "%s/%s", guest, PLACES[i]);
        if (is_folder(place) && realpath(place, path))
            return 0;
    }
    return error_set(err, ENOENT,
                     "found hutch's tasks neither in %s/%s nor in %s/%s; name a folder with "
                     "--tasks or HUTCH_TASKS",
                     guest, PLACES[0], guest, PLACES[1]);
}

/* The names of all folders with a task.json, sorted. */
static int tasks_list(const char *folder, struct task_list *ret, struct error *err)
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
    task_list_sort(ret);
    return 0;
}

int task_names(const char *tasks, struct task_list *ret, struct error *err)
{
    char folder[PATH_MAX];
    struct task_list names = {0};
    int r = tasks_folder(tasks, folder, err);
    if (r == 0)
        r = tasks_list(folder, &names, err);
    if (r < 0) {
        task_list_free(&names);
        return r;
    }
    *ret = names;
    return 0;
}

static int task_not_found(const char *folder, const char *name, struct error *err)
{
    struct task_list names = {0};
    char here[TASK_NAME_MAX + 16];
    struct stat st;
    /* a task of the current folder is named with a slash */
    int n = snprintf(here, sizeof here, "%s/task.json", name);
    if (*name && n > 0 && n < (int)sizeof here && lstat(here, &st) == 0)
        return error_set(err, ENOENT, "there is no task %.100s in %s; the one here is ./%.100s",
                         name, folder, name);
    struct nearest near = nearest_to(name, strlen(name));
    if (tasks_list(folder, &names, NULL) == 0)
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
    int r = tasks_folder(tasks, folder, err);
    if (r < 0)
        return r;
    if (strlen(name) >= TASK_NAME_MAX || strcmp(name, "") == 0 || name[0] == '.')
        return task_not_found(folder, name, err);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return is_folder(path) ? task_load(path, ret, err) : task_not_found(folder, name, err);
}

/*
 * The end of every loader: members that were not given get their defaults, and the parts must fit
 * together. Errors begin with the member that is wrong.
 */

/* The defaults of docs/tasks.md. */
void task_defaults(struct task *t)
{
    struct box_options box;
    box_options_default(&box);
    t->limits = box.limits;
    t->limits.timeout_ns = 120 * NS_PER_S; /* of one command of an agent */
    t->limits.memory = 512ull << 20;
    t->limits.pids = 64;
    t->limits.disk = 64ull << 20;
    t->test_timeout_ns = 20 * NS_PER_S;
    t->test_cpu_ns = 5 * NS_PER_S;
    t->max_steps = 16;
    t->call_price = t->second_price = 0.01;
    t->seed = 1;
}

static int finish_text(char **text, const char *value, struct error *err)
{
    if (*text)
        return 0;
    *text = strdup(value);
    return *text ? 0 : task_no_memory(err);
}

static int finish_add(struct task_list *l, const char *text, struct error *err)
{
    return task_list_add(l, text) < 0 ? task_no_memory(err) : 0;
}

/* The command line that does what the warm runner does. */
static int finish_pytest_command(struct task_tests *s, struct error *err)
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
    return text ? finish_text(&s->command, text, err) : task_no_memory(err);
}

static int finish_pytest(struct task *t, struct error *err)
{
    struct task_tests *s = &t->tests;
    int r = 0;
    s->verdict = VERDICT_REPORT;
    if (s->paths.count == 0)
        r = finish_add(&s->paths, "tests", err);
    bool src = false;
    for (size_t i = 0; i < t->files.count; i++)
        src |= task_path_covers("src", t->files.items[i].path);
    if (r == 0 && s->import.count == 0)
        r = finish_add(&s->import, src ? "src" : ".", err);
    bool given = s->own.count > 0;
    for (size_t i = 0; i < s->paths.count && r == 0 && !given; i++)
        r = strcmp(s->paths.items[i], ".") != 0
                ? finish_add(&s->own, s->paths.items[i], err)
                : error_set(err, EINVAL,
                            "tests.own: is needed when tests.paths is the whole workspace");
    return r == 0 ? finish_pytest_command(s, err) : r;
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
    return s->expected.count ? 0 : finish_add(&s->expected, name, err);
}

/* No file may be beneath another one. */
static int finish_check_tree(const struct task_tree *tree, const struct task_tree *other,
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

static int finish_check_size(const struct task *t, struct error *err)
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

static int finish_check_limits(const struct task *t, struct error *err)
{
    const struct {
        const char *name;
        uint64_t value, min, max;
        const char *text;
    } ranges[] = {
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

static int finish_check_names(const struct task *t, struct error *err)
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
    int r = finish_check_limits(t, err);
    if (r == 0)
        r = finish_check_names(t, err);
    if (r == 0)
        r = t->tests.runner == TASK_PYTEST ? finish_pytest(t, err) : finish_command(&t->tests, err);
    if (r == 0)
        r = finish_text(&t->language, t->tests.runner == TASK_PYTEST ? "python" : "other", err);
    for (size_t i = 0; i < t->hidden.count && r == 0; i++) /* hidden files are the task's own */
        if (!task_list_covers(&t->tests.own, t->hidden.items[i].path))
            r = finish_add(&t->tests.own, t->hidden.items[i].path, err);
    if (r == 0)
        r = finish_check_tree(&t->files, &t->hidden, err);
    if (r == 0)
        r = finish_check_tree(&t->hidden, &t->files, err);
    if (r == 0)
        r = finish_check_size(t, err);
    if (r == 0)
        task_digest(t, t->digest);
    return r;
}

/*
 * The digest of a task: equal exactly when the conditions of episodes are. Every part goes in after
 * its name and its length, so that no two tasks give the same bytes; numbers as text, so that it is
 * the same on every machine. The task's name and place do not count; the folder name of an
 * extracted root does, since it is the commit.
 */

static void digest_bytes(SHA2_CTX *sha, const char *name, const void *bytes, size_t n)
{
    char head[96];
    int len = snprintf(head, sizeof head, "%s %zu\n", name, n);
    SHA256Update(sha, (const uint8_t *)head, (size_t)len);
    SHA256Update(sha, bytes, n);
}

static void digest_text(SHA2_CTX *sha, const char *name, const char *text)
{
    digest_bytes(sha, name, text ? text : "", text ? strlen(text) : 0);
}

static void digest_number(SHA2_CTX *sha, const char *name, uint64_t value)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%" PRIu64, value);
    digest_bytes(sha, name, text, (size_t)n);
}

static void digest_real(SHA2_CTX *sha, const char *name, double value)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%a", value);
    digest_bytes(sha, name, text, (size_t)n);
}

static void digest_list(SHA2_CTX *sha, const char *name, const struct task_list *l)
{
    digest_number(sha, name, l->count);
    for (size_t i = 0; i < l->count; i++)
        digest_text(sha, "item", l->items[i]);
}

static void digest_tree(SHA2_CTX *sha, const char *name, const struct task_tree *tree)
{
    digest_number(sha, name, tree->count);
    for (size_t i = 0; i < tree->count; i++) {
        digest_text(sha, "path", tree->items[i].path);
        digest_number(sha, "mode", tree->items[i].mode);
        digest_bytes(sha, "bytes", tree->items[i].bytes, tree->items[i].size);
    }
}

void task_digest(const struct task *t, char ret[65])
{
    SHA2_CTX sha;
    uint8_t sum[32];
    SHA256Init(&sha);
    digest_text(&sha, "hutch task", "1");
    digest_text(&sha, "title", t->title);
    digest_text(&sha, "instruction", t->instruction);
    digest_text(&sha, "language", t->language);
    digest_text(&sha, "root", t->root ? relpath_name(t->root) : NULL);
    digest_text(&sha, "image", t->image);
    digest_number(&sha, "links", t->n_links);
    for (size_t i = 0; i < t->n_links; i++) {
        digest_text(&sha, "at", t->links[i].at);
        digest_text(&sha, "to", t->links[i].to);
    }
    if (t->env.count)
        digest_list(&sha, "env", &t->env);
    if (t->setup)
        digest_text(&sha, "setup", t->setup);
    digest_tree(&sha, "files", &t->files);
    digest_tree(&sha, "hidden", &t->hidden);
    digest_number(&sha, "runner", t->tests.runner);
    digest_list(&sha, "paths", &t->tests.paths);
    digest_list(&sha, "import", &t->tests.import);
    if (t->tests.packages.count)
        digest_list(&sha, "packages", &t->tests.packages);
    digest_text(&sha, "command", t->tests.command);
    digest_number(&sha, "verdict", t->tests.verdict);
    digest_number(&sha, "format", t->tests.format);
    digest_text(&sha, "report", t->tests.report);
    digest_list(&sha, "own", &t->tests.own);
    digest_list(&sha, "clear", &t->tests.clear);
    digest_list(&sha, "expected", &t->tests.expected);
    digest_number(&sha, "patches", t->n_patches);
    for (size_t i = 0; i < t->n_patches; i++) {
        digest_text(&sha, "name", t->patches[i].name);
        digest_text(&sha, "diff", t->patches[i].diff);
    }
    digest_list(&sha, "solution", &t->solution);
    digest_text(&sha, "script", t->solution_script);
    digest_list(&sha, "reads", &t->reads);
    digest_number(&sha, "timeout", (uint64_t)t->limits.timeout_ns);
    digest_number(&sha, "cpu", (uint64_t)t->limits.cpu_time_ns);
    digest_number(&sha, "memory", t->limits.memory);
    digest_number(&sha, "pids", t->limits.pids);
    digest_number(&sha, "files", t->limits.files);
    digest_number(&sha, "disk", t->limits.disk);
    digest_number(&sha, "test_time", (uint64_t)t->test_timeout_ns);
    digest_number(&sha, "test_cpu", (uint64_t)t->test_cpu_ns);
    digest_number(&sha, "steps", t->max_steps);
    digest_real(&sha, "call", t->call_price);
    digest_real(&sha, "second", t->second_price);
    digest_number(&sha, "seed", t->seed);
    SHA256Final(sum, &sha);
    for (size_t i = 0; i < sizeof sum; i++)
        snprintf(ret + 2 * i, 3, "%02x", sum[i]);
}
