/* The option tables: every row, the defaults that they state, and the errors word for word. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "net_policy.h"
#include "run_options.h"
#include "text.h"
#include "thread.h"

#define MAX_WORDS 80

/* Parses words given as one NULL-terminated list; fills o afresh. */
static int parse(struct run_options *o, unsigned mask, int *ret_used, struct error *err, ...)
{
    static char *argv[MAX_WORDS];
    int argc = 0;
    va_list args;
    va_start(args, err);
    for (char *word; (word = va_arg(args, char *));)
        argv[argc++] = word;
    va_end(args);
    *err = (struct error){0};
    run_options_init(o);
    unsigned box = mask == FOR_EXEC ? BOX_OPTION_EXEC : BOX_OPTION_NEW;
    const struct option_set sets[] = {{RUN_OPTIONS, mask}, {BOX_OPTIONS, box}, {0}};
    return run_options_parse(o, sets, argc, argv, ret_used, err);
}

static void assert_error(unsigned mask, const char *option, const char *value, const char *text)
{
    struct run_options o;
    struct error err;
    int used = -1;
    assert_int_equal(parse(&o, mask, &used, &err, option, value, NULL), -EINVAL);
    assert_string_equal(err.text, text);
    assert_int_equal(used, -1);
    run_options_free(&o);
}

static void test_defaults(void **state)
{
    struct run_options o;
    run_options_init(&o);
    const struct box_limits *l = &o.spec.box.limits;
    assert_int_equal(o.spec.box.mode, BOX_COW);
    assert_ptr_equal(o.spec.box.net, &NET_OFF);
    assert_int_equal(l->timeout_ns, 600 * NS_PER_S);
    assert_int_equal(l->cpu_time_ns, 0);
    assert_int_equal(l->pids, 256);
    assert_int_equal(l->files, 1024);
    assert_true(l->memory > 0 && l->memory <= 512ULL << 20);
    assert_true(l->disk > 0 && l->disk <= 1ULL << 30);
    assert_int_equal(l->output, 1 << 20);
    assert_true(l->output_total == 64ULL << 30);
    assert_int_equal(o.spec.fields, 0); /* nothing was given */
    run_options_free(&o);
}

static void assert_unique(const struct option *table)
{
    for (const struct option *a = table; a->name; a++)
        for (const struct option *b = a + 1; b->name; b++)
            if (a->where & b->where & ~(OPTION_REPEATS | BOX_OPTION_VALUE)) {
                assert_string_not_equal(a->name, b->name);
                assert_true(!a->letter || a->letter != b->letter);
            }
}

static void test_rows_are_unique(void **state)
{
    assert_unique(BOX_OPTIONS);
    for (const struct option *a = RUN_OPTIONS; a->name; a++) {
        for (const struct option *b = a + 1; b->name; b++)
            if (a->where & b->where & ~OPTION_REPEATS)
                assert_string_not_equal(a->name, b->name);
        for (const struct option *b = BOX_OPTIONS; b->name; b++)
            assert_string_not_equal(a->name, b->name);
    }
}

static void test_forms_of_values(void **state)
{
    struct run_options o;
    struct error err;
    int used;
    assert_int_equal(
        parse(&o, FOR_RUN, &used, &err, "--memory=2G", "--pids", "7", "-w", "/a", "ls", "-l", NULL),
        0);
    assert_int_equal(used, 5);
    assert_int_equal(o.spec.box.limits.memory, 2ULL << 30);
    assert_int_equal(o.spec.box.limits.pids, 7);
    assert_string_equal(o.spec.box.workspace, "/a");
    run_options_free(&o);
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "-w/b", "--json", "--", "--tty", NULL), 0);
    assert_int_equal(used, 3);
    assert_string_equal(o.spec.box.workspace, "/b");
    assert_true(o.json);
    assert_false(o.tty);
    run_options_free(&o);
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "-", "--json", NULL), 0);
    assert_int_equal(used, 0);
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "--json", "--help", NULL), OPTIONS_HELP);
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "ls", "--help", NULL), 0);
}

static void test_choices(void **state)
{
    struct run_options o;
    struct error err;
    int used;
    assert_int_equal(
        parse(&o, FOR_RUN, &used, &err, "--mode", "ro", "--net", "host", "--backend=ns", NULL), 0);
    assert_int_equal(o.spec.box.mode, BOX_RO);
    assert_ptr_equal(o.spec.box.net, &NET_HOST);
    assert_non_null(o.spec.box.backend);
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "--net", "allow:a.org,b.org:8080", NULL), 0);
    assert_ptr_equal(o.spec.box.net, &NET_ALLOW);
    assert_int_equal(o.spec.box.n_allow, 2);
    assert_string_equal(o.spec.box.allow[1], "b.org:8080");
    run_options_free(&o);
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "--net", "allow:a.org", "--net", "off", NULL),
                     0);
    assert_int_equal(o.spec.box.n_allow, 0);
    assert_ptr_equal(o.spec.box.net, &NET_OFF);
    run_options_free(&o);
    assert_int_equal(
        parse(&o, FOR_NEW, &used, &err, "--ttl", "5m", "--timeout", "none", "--cpus", "1.5", NULL),
        0);
    assert_int_equal(o.ttl_ns, 300 * NS_PER_S);
    assert_int_equal(o.spec.box.limits.timeout_ns, 0);
    assert_true(o.spec.box.limits.cpus > 1.49 && o.spec.box.limits.cpus < 1.51);
}

static void test_repeated(void **state)
{
    struct run_options o;
    struct error err;
    int used;
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "--ro", "/a", "--rw", "b:/c", "--env", "A=1",
                           "--env", "B=", NULL),
                     0);
    assert_int_equal(o.spec.box.n_shares, 2);
    assert_false(o.spec.box.shares[0].writable);
    assert_true(o.spec.box.shares[1].writable);
    assert_string_equal(o.spec.share_texts[1], "b:/c");
    assert_int_equal(o.spec.box.n_env, 2);
    assert_string_equal(o.spec.box.env[1], "B=");
}

static void test_errors(void **state)
{
    assert_error(FOR_RUN, "--memory", "12Q", "--memory: '12Q' is not a size like 512M or 2G");
    assert_error(FOR_RUN, "--memory", "0", "--memory: nothing can run with 0");
    assert_error(FOR_RUN, "--memory", "99999999999T", "--memory: '99999999999T' is too large");
    assert_error(FOR_RUN, "--timeout", "5", "--timeout: '5' is not a time like 250ms, 30s or 5m");
    assert_error(FOR_RUN, "--pids", "-1", "--pids: '-1' is not a number of 1 or more");
    assert_error(FOR_RUN, "--pids", "0", "--pids: '0' is not a number of 1 or more");
    assert_error(FOR_RUN, "--cpus", "0", "--cpus: '0' is not a number of processors like 0.5 or 2");
    assert_error(FOR_RUN, "--mode", "rw", "--mode: 'rw' is not one of cow|direct|ro");
    assert_error(FOR_RUN, "--backend", "xen",
                 "--backend: 'xen' is not a backend of this build; use ns");
    assert_error(FOR_RUN, "--net", "on", "--net: 'on' is not one of off|host|allow:H[:P][,...]");
    assert_error(FOR_RUN, "--env", "A", "--env: 'A' is not NAME=VALUE");
    assert_error(FOR_RUN, "--env", "1A=2", "--env: '1A=2' is not NAME=VALUE");
    assert_error(FOR_RUN, "--image", "../x",
                 "--image: '../x' is not a name of letters, digits, '.', '_', '-', ':' and '@'");
    assert_error(FOR_RUN, "--workspace", "", "--workspace: the value is empty");
    assert_error(FOR_RUN, "--json=1", NULL, "--json takes no value");
    assert_error(FOR_RUN, "--memory", NULL, "--memory needs a value: --memory S");
    assert_error(FOR_RUN, "-w", NULL, "-w needs a value: -w DIR");
    assert_error(FOR_RUN, "-x", NULL, "unknown option '-x'");
    assert_error(FOR_RUN, "--memroy=1", NULL,
                 "unknown option '--memroy'; did you mean '--memory'?");
    assert_error(FOR_RUN, "--zzzzzzzz", NULL, "unknown option '--zzzzzzzz'");
    assert_error(FOR_RUN, "--ttl", "5s", "unknown option '--ttl'; did you mean '--tty'?");
    assert_error(FOR_EXEC, "--memory", "1G", "unknown option '--memory'");
}

static void test_places_of_shares(void **state)
{
    static const char *const bad[] = {
        "/",          "/proc",   "/proc/x", "/dev/shm",     "/sys",
        "/workspace", "/a/../b", "/a/.",    "/workspace/a", "relative",
        "/a//b",      "/a/",     ""};
    static const char *const good[] = {"/a",          "/a/b",   "/process", "/devel",
                                       "/workspaces", "/a/..b", "/opt/x.y"};
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_non_null(box_share_refuse_at(bad[i]));
    for (size_t i = 0; i < ARRAY_SIZE(good); i++)
        assert_null(box_share_refuse_at(good[i]));
    assert_error(FOR_RUN, "--ro", "/x:/proc",
                 "--ro: cannot show it at '/proc' in the box: the box has its own there");
    assert_error(FOR_RUN, "--rw", ":/x",
                 "--rw: ':/x' names no folder or file; it must be PATH[:AT]");
}

static void test_apply_needs_cow(void **state)
{
    struct run_options o;
    struct error err;
    int used;
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "--apply", "--mode", "direct", "x", NULL),
                     -EINVAL);
    assert_int_equal(parse(&o, FOR_RUN, &used, &err, "--apply", "--mode", "cow", "x", NULL), 0);
}

static void test_too_many(void **state)
{
    struct run_options o;
    struct error err = {0};
    char *argv[2 * (BOX_ENV_MAX + 1)];
    int used, argc = 0;
    while (argc < 2 * (BOX_ENV_MAX + 1)) {
        argv[argc++] = (char *)"--env";
        argv[argc++] = (char *)"A=1";
    }
    const struct option_set sets[] = {{RUN_OPTIONS, FOR_RUN}, {BOX_OPTIONS, BOX_OPTION_NEW}, {0}};
    run_options_init(&o);
    assert_int_equal(run_options_parse(&o, sets, argc - 2, argv, &used, &err), 0);
    run_options_init(&o);
    assert_int_equal(run_options_parse(&o, sets, argc, argv, &used, &err), -EINVAL);
    assert_string_equal(err.text, "--env: more than 256 variables");
}

static void test_mixed_words(void **state)
{
    char *argv[] = {(char *)"a",  (char *)"--json", (char *)"b",
                    (char *)"--", (char *)"--json", (char *)"-"};
    struct run_options o;
    struct error err = {0};
    int n = 0;
    run_options_init(&o);
    const struct option_set sets[] = {{RUN_OPTIONS, FOR_RUN}, {BOX_OPTIONS, BOX_OPTION_NEW}, {0}};
    assert_int_equal(options_parse_mixed(sets, 6, argv, &o, &n, &err), 0);
    assert_true(o.json);
    assert_int_equal(n, 4);
    assert_string_equal(argv[1], "b");
    assert_string_equal(argv[2], "--json");
    assert_string_equal(argv[3], "-");
}

static void test_nearest(void **state)
{
    static const char *const names[] = {"run", "box", "doctor", "help"};
    static const struct {
        const char *wanted, *best;
    } cases[] = {{"rnu", "run"},
                 {"docter", "doctor"},
                 {"boxx", "box"},
                 {"hlep", "help"},
                 {"", NULL},
                 {"xyzzy", NULL},
                 {"a-name-that-is-far-longer-than-any-command-is", NULL}};
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        struct nearest near = nearest_to(cases[i].wanted, strlen(cases[i].wanted));
        for (size_t j = 0; j < ARRAY_SIZE(names); j++)
            nearest_offer(&near, names[j]);
        if (cases[i].best)
            assert_string_equal(near.best, cases[i].best);
        else
            assert_null(near.best);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),         cmocka_unit_test(test_rows_are_unique),
        cmocka_unit_test(test_forms_of_values),  cmocka_unit_test(test_choices),
        cmocka_unit_test(test_repeated),         cmocka_unit_test(test_errors),
        cmocka_unit_test(test_places_of_shares), cmocka_unit_test(test_apply_needs_cow),
        cmocka_unit_test(test_too_many),         cmocka_unit_test(test_mixed_words),
        cmocka_unit_test(test_nearest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
