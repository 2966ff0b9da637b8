/* Loading tasks: what is allowed, what is not and what is said about it, the defaults, the digest,
 * actions. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "env.h"
#include "task_build.h"
#include "thread.h"

#define PATCH                                                                                      \
    "[{\"name\": \"fix\", \"diff\": \"--- a/src/a.py\\n+++ b/src/a.py\\n@@ -1 +1 @@\\n-x = "       \
    "1\\n+x = "                                                                                    \
    "2\\n\"}, "                                                                                    \
    "{\"name\": \"other-1\", \"diff\": \"--- a/src/a.py\\n+++ b/src/a.py\\n@@ -1 +1 @@\\n-x = "    \
    "1\\n+x = "                                                                                    \
    "3\\n\"}]"
#define HEAD   "{\"title\": \"T\", \"instruction\": \"I\", "
#define TESTS  "\"tests\": {\"runner\": \"pytest\"}, "
#define SOLVED "\"solution\": [\"fix\"]"
#define GOOD   HEAD TESTS SOLVED "}"

struct place {
    char root[64];
    char folder[96];
    char path[512];
};

/* A path of the task's folder; good until the next call. */
static const char *path_of(struct place *p, const char *name)
{
    snprintf(p->path, sizeof p->path, "%s/%s", p->folder, name);
    return p->path;
}

static void drop(struct place *p, const char *name)
{
    assert_int_equal(remove(path_of(p, name)), 0);
}

static void put_n(const struct place *p, const char *name, const void *text, size_t n)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", p->folder, name);
    for (char *at = path + strlen(p->root) + 1; (at = strchr(at, '/')); at++) {
        *at = 0;
        mkdir(path, 0755);
        *at = '/';
    }
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, n), (ssize_t)n);
    close(fd);
}

static void put(const struct place *p, const char *name, const char *text)
{
    put_n(p, name, text, strlen(text));
}

static void put_link(struct place *p, const char *name, const char *target)
{
    assert_int_equal(symlink(target, path_of(p, name)), 0);
}

static int make(void **state)
{
    struct place *p = calloc(1, sizeof *p);
    snprintf(p->root, sizeof p->root, "/tmp/hutch-task-XXXXXX");
    assert_non_null(mkdtemp(p->root));
    snprintf(p->folder, sizeof p->folder, "%s/sample_1", p->root);
    put(p, "task.json", GOOD);
    put(p, "patches.json", PATCH);
    put(p, "src/a.py", "x = 1\n");
    put(p, "tests/test_a.py", "def test_a(): pass\n");
    *state = p;
    return 0;
}

static int drop_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

static int clear(void **state)
{
    struct place *p = *state;
    nftw(p->root, drop_one, 16, FTW_DEPTH | FTW_PHYS);
    free(p);
    return 0;
}

static struct task *load(const struct place *p)
{
    struct task *t = NULL;
    struct error err = {0};
    if (task_load(p->folder, &t, &err) < 0)
        fail_msg("%s", err.text);
    return t;
}

/* It is not loaded, and what is said has this in it, after the folder's name. */
static void refuse(const struct place *p, const char *expected)
{
    struct task *t = NULL;
    struct error err = {0};
    int r = task_load(p->folder, &t, &err);
    if (r == 0)
        fail_msg("loaded, though: %s", expected);
    assert_null(t);
    if (strncmp(err.text, p->folder, strlen(p->folder)) != 0 || !strstr(err.text, expected))
        fail_msg("said \"%s\", not \"%s\"", err.text, expected);
    assert_null(strchr(err.text, '\n'));
}

static void refuse_json(const struct place *p, const char *json, const char *expected)
{
    put(p, "task.json", json);
    refuse(p, expected);
}

static void test_defaults(void **state)
{
    struct task *t = load(*state);
    assert_string_equal(t->name, "sample_1");
    assert_string_equal(t->language, "python");
    assert_string_equal(t->tests.command, "python3 -m pytest -q tests");
    assert_string_equal(t->tests.paths.items[0], "tests");
    assert_string_equal(t->tests.import.items[0], "src");
    assert_string_equal(t->tests.own.items[0], "tests");
    assert_int_equal(t->tests.expected.count, 0);
    assert_int_equal(t->max_steps, 16);
    assert_int_equal(t->test_timeout_ns, 20 * NS_PER_S);
    assert_int_equal(t->test_cpu_ns, 5 * NS_PER_S);
    assert_int_equal(t->limits.memory, 512u << 20);
    assert_int_equal(t->limits.pids, 64);
    assert_int_equal(t->limits.disk, 64u << 20);
    assert_true(t->call_price == 0.01 && t->second_price == 0.01);
    assert_int_equal(t->seed, 1);
    assert_int_equal(strlen(t->digest), 64);
    task_free(t);
}

static void test_everything_given(void **state)
{
    struct place *p = *state;
    put(p, "task.json",
        HEAD
        "\"language\": \"c\", \"tests\": {\"runner\": \"command\", \"command\": \"make check %R\", "
        "\"format\": \"tap\", \"own\": [\"tests\"], \"expected\": [\"a\", \"b\"]}, \"reads\": "
        "[\"src/a.py\", \"Makefile\"], \"limits\": {\"steps\": 7, \"test_time\": \"3s\", "
        "\"test_cpu\": "
        "\"250ms\", \"memory\": \"64M\", \"pids\": 9, \"disk\": \"2M\"}, \"prices\": {\"call\": 0, "
        "\"second\": 1}, \"seed\": 42, " SOLVED "}");
    put(p, "workspace/Makefile", "check:\n");
    put(p, "hidden/tests/test_h.py", "");
    put(p, "hidden/extra/x", "");
    struct task *t = load(p);
    assert_int_equal(t->tests.format, WIRE_REPORT_TAP);
    assert_int_equal(t->tests.verdict, VERDICT_REPORT);
    assert_int_equal(t->test_cpu_ns, 250 * NS_PER_MS);
    assert_true(t->call_price == 0 && t->second_price == 1);
    assert_int_equal(t->seed, 42);
    assert_string_equal(t->files.items[0].path, "Makefile");
    assert_int_equal(t->files.count, 3);
    assert_int_equal(t->hidden.count, 2);
    assert_int_equal(t->tests.own.count, 2); /* what is hidden is the task's */
    assert_string_equal(t->tests.own.items[1], "extra/x");
    task_free(t);
}

static void test_members(void **state)
{
    struct place *p = *state;
    refuse_json(p, "", "task.json: line 1");
    refuse_json(p, "[]", "task.json: task: must be of type object");
    refuse_json(p, "{\"title\": \"a\", \"title\": \"b\"}", "duplicate");
    refuse_json(p, HEAD TESTS "\"solutions\": [\"fix\"]}", "solution");
    refuse_json(p, HEAD TESTS SOLVED ", \"nonsense\": 1}", "nonsense");
    refuse_json(p, HEAD TESTS SOLVED ", \"non\\nsense\": 1}", "non sense");
    refuse_json(p, HEAD SOLVED "}", "tests");
    refuse_json(p, HEAD TESTS "\"solution\": [1]}", "solution[0]: must be of type string");
    refuse_json(p, HEAD TESTS "\"solution\": []}", "solution: ");
    refuse_json(p, HEAD TESTS "\"solution\": [\"none\"]}",
                "solution[0]: there is no patch called \"none\"");
    refuse_json(p, HEAD TESTS "\"solution\": [\"fix\", \"fix\"]}",
                "solution[1]: fix is named twice");
    refuse_json(p, HEAD TESTS SOLVED ", \"language\": \"C++ 17\"}", "language: ");
    refuse_json(p, HEAD TESTS SOLVED ", \"seed\": -1}", "seed: ");
    refuse_json(p, HEAD TESTS SOLVED ", \"seed\": \"x\"}", "seed: must be of type integer");
    refuse_json(p, HEAD TESTS SOLVED ", \"reads\": [\"src/b.py\"]}",
                "reads[0]: the workspace has no file");
    refuse_json(p, HEAD TESTS SOLVED ", \"reads\": [\"../a\"]}",
                "reads[0]: \"../a\" is not a path");
}

static void test_tests(void **state)
{
    static const struct {
        const char *tests, *said;
    } CASES[] = {
        {"\"nose\"", "tests.runner: must be one of"},
        {"\"pytest\", \"paths\": [\"/etc\"]", "tests.paths[0]: \"/etc\" is not a path"},
        {"\"pytest\", \"paths\": [\"a\", \"b/../..\"]", "tests.paths[1]: "},
        {"\"pytest\", \"paths\": [\".\"]", "tests.own: "},
        {"\"pytest\", \"own\": [\".\"]", "tests.own[0]: "},
        {"\"pytest\", \"format\": \"tap\"", "tests.format: has no meaning"},
        {"\"pytest\", \"expected\": [\"a\", \"a\"]", "tests.expected[1]: a is named twice"},
        {"\"command\"", "tests.command: is needed"},
        {"\"command\", \"command\": \"x\"", "tests.report: is needed"},
        {"\"command\", \"command\": \"x\", \"format\": \"reward\"",
         "tests.report: is needed with the format"},
        {"\"command\", \"command\": \"x\", \"format\": \"exit\", \"expected\": [\"y\"]",
         "tests.expected: "},
        {"\"command\", \"command\": \"x\", \"paths\": [\"y\"]", "tests.paths: has no meaning"},
    };
    char json[512];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        snprintf(json, sizeof json, HEAD SOLVED ", \"tests\": {\"runner\": %s}}", CASES[i].tests);
        refuse_json(*state, json, CASES[i].said);
    }
}

static void test_limits(void **state)
{
    static const struct {
        const char *limits, *said;
    } CASES[] = {
        {"{\"steps\": 0}", "limits.steps: "},
        {"{\"steps\": 100001}", "limits.steps: "},
        {"{\"steps\": 1.5}", "limits.steps: must be of type integer"},
        {"{\"test_time\": \"fast\"}", "limits.test_time: \"fast\" is not a time"},
        {"{\"test_time\": \"2d\"}", "limits.test_time: must be 100ms to 24h"},
        {"{\"test_cpu\": \"1ms\"}", "limits.test_cpu: must be"},
        {"{\"memory\": \"1M\"}", "limits.memory: must be"},
        {"{\"memory\": 512}", "limits.memory: must be of type string"},
        {"{\"pids\": 1}", "limits.pids: "},
        {"{\"disk\": \"9999T\"}", "limits.disk: must be"},
        {"{\"disks\": \"1M\"}", "disks"},
    };
    char json[512];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        snprintf(json, sizeof json, HEAD TESTS SOLVED ", \"limits\": %s}", CASES[i].limits);
        refuse_json(*state, json, CASES[i].said);
    }
}

static void test_prices(void **state)
{
    static const char *const CASES[] = {"-0.1", "1.01", "1e999", "NaN", "\"0.1\"", "null"};
    char json[512];
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        snprintf(json, sizeof json, HEAD TESTS SOLVED ", \"prices\": {\"call\": %s}}", CASES[i]);
        refuse_json(*state, json, "task.json: ");
    }
    struct task *t = task_new(); /* as an importer might fill it */
    struct error err = {0};
    t->call_price = 0.0 / 0.0;
    assert_int_equal(task_finish(t, &err), -EINVAL);
    assert_string_equal(err.text, "prices.call: must be 0 to 1");
    task_free(t);
}

static void test_patches(void **state)
{
    struct place *p = *state;
    static const struct {
        const char *json, *said;
    } CASES[] = {
        {"{}", "patches.json: task: must be of type array"},
        {"[{\"name\": \"fix\"}]", "patches.json: [0]"},
        {"[{\"name\": \"Fix It\", \"diff\": \"@@\"}]", "[0].name: \"Fix It\" is not a valid name"},
        {"[{\"name\": \"fix\", \"diff\": \"hello\"}]", "[0].diff: is not a unified diff"},
        {"[{\"name\": \"fix\", \"diff\": \"@@\"}, {\"name\": \"fix\", \"diff\": \"@@\"}]",
         "[1].name: there is another patch called fix"},
        {"[{\"name\": \"fix\", \"diff\": \"@@\", \"right\": true}]", "right"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        put(p, "patches.json", CASES[i].json);
        refuse(p, CASES[i].said);
    }
}

static void test_files(void **state)
{
    struct place *p = *state;
    put(p, "test/x.py", "");
    refuse(p, "/test: is not part of a task");
    drop(p, "test/x.py");
    drop(p, "test");
    put(p, "workspace/src/a.py", "");
    refuse(p, "workspace/src/a.py: another file of the task");
    drop(p, "workspace/src/a.py");
    put(p, "hidden/src", "");
    refuse(p, "src: is both a file and a folder");
    drop(p, "hidden/src");
    assert_int_equal(mkfifo(path_of(p, "src/fifo"), 0644), 0);
    refuse(p, "src/fifo: is neither a file nor a folder nor a link");
    drop(p, "src/fifo");
    put(p, "src/__pycache__/a.pyc", "litter");
    struct task *t = load(p);
    assert_int_equal(t->files.count, 2);
    task_free(t);
}

static void test_links(void **state)
{
    static const char *const OUT[] = {"/etc/passwd", "../../../etc", "../..", "b/../../../x"};
    struct place *p = *state;
    for (size_t i = 0; i < sizeof OUT / sizeof *OUT; i++) {
        put_link(p, "src/link", OUT[i]);
        refuse(p, "src/link: is a symlink that leads out of the workspace");
        drop(p, "src/link");
    }
    put_link(p, "src/link", "../tests/test_a.py");
    struct task *t = load(p);
    assert_true(S_ISLNK(t->files.items[1].mode));
    assert_string_equal(t->files.items[1].bytes, "../tests/test_a.py");
    task_free(t);
    put_link(p, "hidden", "src");
    refuse(p, "hidden: must be a folder");
    drop(p, "hidden");
    drop(p, "task.json");
    put_link(p, "task.json", "/etc/passwd");
    refuse(p, "task.json: is a symlink");
}

static void test_sizes(void **state)
{
    struct place *p = *state;
    size_t n = TASK_JSON_MAX + 1;
    char *big = malloc(n);
    memset(big, ' ', n);
    put_n(p, "task.json", big, n);
    refuse(p, "task.json: is larger than");
    memset(big, '[', 100000); /* deeper than any parser should go */
    put_n(p, "task.json", big, 100000);
    refuse(p, "task.json: ");
    for (size_t i = 0; i + 2 < n; i += 2)
        memcpy(big + i, "0,", 2);
    big[0] = '[';
    put_n(p, "task.json", big, n - 3);
    refuse(p, "task.json: has more than");
    put(p, "task.json", HEAD TESTS SOLVED ", \"limits\": {\"disk\": \"1M\"}}");
    put_n(p, "src/big", big, 2u << 20);
    refuse(p, "limits.disk: the files of the task alone");
    free(big);
    struct task_tree tree = {0};
    char name[32];
    for (unsigned i = 0; i < TASK_FILES_MAX; i++) {
        snprintf(name, sizeof name, "f%05u", i);
        assert_int_equal(task_tree_add(&tree, name, S_IFREG | 0644, "", 0), 0);
    }
    assert_int_equal(task_tree_add(&tree, "one-more", S_IFREG | 0644, "", 0), -E2BIG);
    task_tree_free(&tree);
}

static void test_names(void **state)
{
    struct place *p = *state;
    char bad[128];
    struct task *t = NULL;
    struct error err = {0};
    struct task_list names = {0};
    assert_int_equal(task_names(p->root, &names, &err), 0);
    assert_int_equal(names.count, 1);
    task_list_free(&names);
    assert_int_equal(task_find(p->root, "sample_1", &t, &err), 0);
    t = task_free(t);
    assert_int_equal(task_find(p->root, "sample_2", &t, &err), -ENOENT);
    assert_non_null(strstr(err.text, "did you mean sample_1?"));
    assert_int_equal(chdir(p->root), 0);
    assert_int_equal(task_find(p->folder, "sample_1", &t, &err), -ENOENT);
    assert_non_null(strstr(err.text, "the one here is ./sample_1"));
    assert_int_equal(chdir("/"), 0);
    assert_int_equal(task_find(p->root, "..", &t, &err), -ENOENT);
    assert_int_equal(task_find("/nonexistent", "x", &t, &err), -ENOENT);
    setenv("HUTCH_TASKS", p->root, 1);
    assert_int_equal(task_find(NULL, "sample_1", &t, &err), 0);
    t = task_free(t);
    unsetenv("HUTCH_TASKS");
    snprintf(bad, sizeof bad, "%s/", p->folder);
    assert_int_equal(task_find(NULL, bad, &t, &err), 0);
    t = task_free(t);
    snprintf(bad, sizeof bad, "%s/Sample-1", p->root);
    assert_int_equal(rename(p->folder, bad), 0);
    assert_int_equal(task_load(bad, &t, &err), -EINVAL);
    assert_non_null(strstr(err.text, "\"Sample-1\" is not a valid task name"));
}

static void test_digest(void **state)
{
    struct place *p = *state;
    char first[65], moved[256];
    struct task *t = load(p);
    memcpy(first, t->digest, sizeof first);
    task_free(t);
    snprintf(moved, sizeof moved, "%s/other_name", p->root);
    assert_int_equal(rename(p->folder, moved), 0);
    assert_int_equal(rename(moved, p->folder), 0);
    t = load(p);
    assert_string_equal(t->digest, first);
    task_free(t);
    const char *const changes[][2] = {
        {"src/a.py", "x = 9\n"},
        {"tests/test_a.py", "def test_b(): pass\n"},
        {"hidden/tests/h.py", ""},
        {"task.json", HEAD TESTS SOLVED ", \"seed\": 2}"},
        {"task.json", HEAD TESTS SOLVED ", \"prices\": {\"call\": 0.02}}"},
        {"patches.json", "[{\"name\": \"fix\", \"diff\": \"@@\"}]"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        put(p, changes[i][0], changes[i][1]);
        t = load(p);
        assert_string_not_equal(t->digest, first);
        memcpy(first, t->digest, sizeof first);
        task_free(t);
    }
}

static void test_actions(void **state)
{
    struct place *p = *state;
    put(p, "task.json", HEAD TESTS SOLVED ", \"reads\": [\"src/a.py\"]}");
    static const char *const NAMES[] = {"apply fix", "apply other-1", "run tests", "read src/a.py",
                                        "submit"};
    static const char *const ACTION_TOOLS[] = {"apply_diff", "apply_diff", "run_tests", "read_file",
                                               "submit"};
    struct task *t = load(p);
    assert_int_equal(task_actions(t), 5);
    assert_int_equal(task_features(t), 4);
    for (size_t i = 0; i < 5; i++) {
        char name[64];
        const char *tool;
        json_t *input;
        task_action_name(t, i, name, sizeof name);
        assert_string_equal(name, NAMES[i]);
        assert_int_equal(task_action(t, i, &tool, &input), 0);
        assert_string_equal(tool, ACTION_TOOLS[i]);
        assert_true(json_is_object(input));
        json_decref(input);
    }
    const char *tool;
    json_t *input;
    assert_int_equal(task_action(t, 5, &tool, &input), -EINVAL);
    task_free(t);
    t = task_new();
    assert_int_equal(task_actions(t), 0);
    assert_int_equal(task_action(t, 0, &tool, &input), -EINVAL);
    task_free(t);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, make, clear)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_defaults), CASE(test_everything_given),
        CASE(test_members),  CASE(test_tests),
        CASE(test_limits),   CASE(test_prices),
        CASE(test_patches),  CASE(test_files),
        CASE(test_links),    CASE(test_sizes),
        CASE(test_names),    CASE(test_digest),
        CASE(test_actions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
