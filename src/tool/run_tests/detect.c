/*
 * Which tests a project has, from the files in its folder. The order here is the order of
 * preference: a runner that the project configures comes before one that its language suggests, and
 * make, under whose `test` anything may hide, last.
 */
#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_tests.h"
#include "banned.h"

#define FILE_MAX  (1u << 20)
#define OWN_BUILD "/tmp/.hutch/build"

struct project {
    struct tool_call *call;
    const char *here; /* the folder as the box names it */
    const char *only;
    struct tests_choices *choices;
    const char *python; /* the interpreter, once it was looked for */
};

void tests_choices_free(struct tests_choices *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].command);
    c->count = 0;
}

static int project_offer(struct project *p, const char *framework, const char *why, const char *fmt,
                         ...) PRINTF(4, 5);

static int project_offer(struct project *p, const char *framework, const char *why, const char *fmt,
                         ...)
{
    struct tests_choices *c = p->choices;
    if ((p->only && strcmp(p->only, framework) != 0) || c->count == TESTS_CHOICES_MAX)
        return 0;
    struct tests_choice *choice = &c->items[c->count];
    va_list args;
    va_start(args, fmt);
    int n = vasprintf(&choice->command, fmt, args);
    va_end(args);
    if (n < 0)
        return -ENOMEM;
    choice->framework = framework;
    snprintf(choice->why, sizeof choice->why, "%s", why);
    c->count++;
    return 0;
}

static bool project_has(struct project *p, const char *path)
{
    return tests_exists(p->call, p->here, path);
}

/* Is there such a line in the file? */
static bool project_has_line(struct project *p, const char *path, const char *pattern)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    if (tests_read_file(p->call, p->here, path, &text, NULL) < 0)
        return false;
    char *rest = (char *)text.data, *line;
    while ((line = strsep(&rest, "\n")))
        if (fnmatch(pattern, line, 0) == 0)
            return true;
    return false;
}

struct match {
    const char *pattern;
    bool found;
};

static void match_name(void *data, const char *name)
{
    struct match *m = data;
    m->found |= fnmatch(m->pattern, name, FNM_PERIOD) == 0;
}

static bool project_has_match(struct project *p, const char *folder, const char *pattern)
{
    struct match m = {.pattern = pattern};
    char path[8192];
    snprintf(path, sizeof path, "%s/%s", p->here, folder);
    guestfile_list(p->call->session, path, match_name, &m, NULL);
    return m.found;
}

static bool project_succeeds(struct project *p, const char *script)
{
    struct box_result result = {0};
    bool good =
        tests_shell(p->call, p->here, script, 0, &result, NULL) >= 0 && result.exit_code == 0;
    box_result_free(&result);
    return good;
}

/* The project's own interpreter, if it has one that works here: it may be a link to where the host
 * has it. */
static const char *project_python(struct project *p)
{
    static const char *const OWN[] = {".venv/bin/python", "venv/bin/python"};
    for (size_t i = 0; !p->python && i < ARRAY_SIZE(OWN); i++) {
        char script[64];
        snprintf(script, sizeof script, "test -x %s", OWN[i]);
        if (project_has(p, OWN[i]) && project_succeeds(p, script))
            p->python = OWN[i];
    }
    if (!p->python)
        p->python = "python3";
    return p->python;
}

static int offer_configured_pytest(struct project *p)
{
    const char *why = project_has(p, "pytest.ini") ? "pytest.ini"
                      : project_has_line(p, "pyproject.toml", "[[]tool.pytest*")
                          ? "pyproject.toml configures pytest"
                      : project_has_line(p, "setup.cfg", "[[]tool:pytest]*")
                          ? "setup.cfg configures pytest"
                      : project_has_line(p, "tox.ini", "[[]pytest]*") ? "tox.ini configures pytest"
                      : project_has(p, "conftest.py")                 ? "conftest.py"
                      : project_has(p, "tests/conftest.py")           ? "tests/conftest.py"
                                                                      : NULL;
    return why ? project_offer(p, "pytest", why, "%s -m pytest", project_python(p)) : 0;
}

/* Test files without a configuration: pytest runs them all, where it is installed. */
static int offer_python(struct project *p)
{
    const char *found = NULL, *folder = NULL, *py = project_python(p);
    if (project_has_match(p, ".", "test_*.py") || project_has_match(p, ".", "*_test.py"))
        found = "test_*.py";
    else if (project_has_match(p, "tests", "test_*.py") ||
             project_has_match(p, "tests", "*_test.py"))
        found = "tests/test_*.py", folder = "tests";
    else if (project_has_match(p, "test", "test_*.py"))
        found = "test/test_*.py", folder = "test";
    bool forced = p->only && (strcmp(p->only, "pytest") == 0 || strcmp(p->only, "unittest") == 0);
    if (!found && !forced)
        return 0;
    const char *why = found ? found : "asked for";
    bool offered = false; /* as configured */
    for (size_t i = 0; i < p->choices->count; i++)
        offered |= strcmp(p->choices->items[i].framework, "pytest") == 0;
    /* Not imported, which takes ten times as long. */
    char script[160], init[32];
    snprintf(
        script, sizeof script,
        "%s -c 'import importlib.util, sys; sys.exit(not importlib.util.find_spec(\"pytest\"))'",
        py);
    int r = 0;
    if (!offered && (p->only || project_succeeds(p, script)))
        r = project_offer(p, "pytest", why, "%s -m pytest", py);
    if (r < 0)
        return r;
    snprintf(init, sizeof init, "%s/__init__.py", folder ? folder : "");
    if (folder && !project_has(p, init))
        return project_offer(p, "unittest", why, "%s -m unittest discover -s %s", py, folder);
    return project_offer(p, "unittest", why, "%s -m unittest discover", py);
}

static int offer_npm(struct project *p)
{
    _cleanup_buf_ struct buf text = BUF_INIT(FILE_MAX);
    if (tests_read_file(p->call, p->here, "package.json", &text, NULL) < 0)
        return 0;
    _cleanup_json_ json_t *package = json_loadb((const char *)text.data, text.len, 0, NULL);
    const char *script = json_get_string(json_object_get(package, "scripts"), "test");
    if (script && !strstr(script, "no test specified"))
        return project_offer(p, "npm", "package.json has a test script", "npm test");
    if (project_has(p, "node_modules/.bin/vitest"))
        return project_offer(p, "vitest", "vitest is installed", "node_modules/.bin/vitest run");
    return project_has(p, "node_modules/.bin/jest")
               ? project_offer(p, "jest", "jest is installed", "node_modules/.bin/jest")
               : 0;
}

static int offer_node(struct project *p)
{
    static const char *const PATTERNS[] = {"*.test.js", "*.test.mjs", "*.test.cjs", "*-test.js",
                                           "test.js"};
    static const char *const FOLDERS[] = {".", "test"};
    for (size_t f = 0; f < ARRAY_SIZE(FOLDERS); f++)
        for (size_t i = 0; i < ARRAY_SIZE(PATTERNS); i++)
            if (project_has_match(p, FOLDERS[f], PATTERNS[i]))
                return project_offer(p, "node", PATTERNS[i], "node --test");
    return 0;
}

/* A build folder that was set up for this very folder: one that was made elsewhere, on the host,
 * does not work here. */
static const char *project_build_folder(struct project *p, const char *mark, const char *file,
                                        const char *names_source)
{
    static const char *const FOLDERS[] = {"build", "builddir",          "_build",
                                          "out",   "cmake-build-debug", "build/debug"};
    for (size_t i = 0; i < ARRAY_SIZE(FOLDERS); i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", FOLDERS[i], mark);
        if (!project_has(p, path))
            continue;
        snprintf(path, sizeof path, "%s/%s", FOLDERS[i], file);
        if (project_has_line(p, path, names_source))
            return FOLDERS[i];
    }
    return NULL;
}

/* A name for a build folder of our own: outside of the workspace, so that it is no change to it,
 * and kept from run to run. */
static void project_own_build(struct project *p, const char *kind, char path[256])
{
    unsigned long hash = 5381;
    for (const char *s = p->here; *s; s++)
        hash = hash * 33 + (unsigned char)*s;
    snprintf(path, 256, OWN_BUILD "-%s-%08lx", kind, hash & 0xffffffff);
}

static int offer_meson(struct project *p)
{
    char pattern[4200], own[256];
    if (!project_has(p, "meson.build"))
        return 0;
    snprintf(pattern, sizeof pattern, "*\"source\": \"%s\"*", p->here);
    const char *build =
        project_build_folder(p, "build.ninja", "meson-info/meson-info.json", pattern);
    if (build)
        return project_offer(p, "meson", "meson.build, and a build folder", "meson test -C %s",
                             build);
    project_own_build(p, "meson", own);
    return project_offer(p, "meson", "meson.build",
                         "{ test -f %s/build.ninja || meson setup %s; } && meson test -C %s", own,
                         own, own);
}

static int offer_ctest(struct project *p)
{
    char pattern[4200], own[256];
    snprintf(pattern, sizeof pattern, "CMAKE_HOME_DIRECTORY:INTERNAL=%s", p->here);
    if (!project_has(p, "CMakeLists.txt"))
        return project_has(p, "CTestTestfile.cmake")
                   ? project_offer(p, "ctest", "CTestTestfile.cmake", "ctest")
                   : 0;
    const char *build = project_build_folder(p, "CTestTestfile.cmake", "CMakeCache.txt", pattern);
    if (build)
        return project_offer(p, "ctest", "CMakeLists.txt, and a build folder",
                             "cmake --build %s && cd %s && ctest", build, build);
    project_own_build(p, "cmake", own);
    return project_offer(p, "ctest", "CMakeLists.txt",
                         "cmake -S . -B %s && cmake --build %s && cd %s && ctest", own, own, own);
}

int tests_detect(struct tool_call *c, const char *here, const char *only, struct tests_choices *ret,
                 struct error *err)
{
    static const char *const MAKEFILES[] = {"GNUmakefile", "makefile", "Makefile"};
    static const char *const TARGETS[] = {"check", "test", "tests"};
    struct project p = {.call = c, .here = here, .only = only, .choices = ret};
    if (!tests_exists(c, here, "."))
        return error_set(err, ENOENT, "input.cwd: the box has no folder %.400s", here);
    int r = offer_configured_pytest(&p);
    if (r == 0 && project_has(&p, "Cargo.toml"))
        r = project_offer(&p, "cargo", "Cargo.toml", "cargo test --no-fail-fast");
    if (r == 0 && project_has(&p, "go.mod"))
        r = project_offer(&p, "go", "go.mod", "go test ./...");
    if (r == 0)
        r = offer_npm(&p);
    if (r == 0)
        r = offer_meson(&p);
    if (r == 0)
        r = offer_ctest(&p);
    if (r == 0)
        r = offer_python(&p);
    if (r == 0)
        r = offer_node(&p);
    if (r == 0 && project_has_match(&p, "t", "*.t"))
        r = project_offer(&p, "prove", "t/*.t", "prove -r t");
    bool makes = false;
    for (size_t i = 0; r == 0 && !makes && i < ARRAY_SIZE(MAKEFILES) * ARRAY_SIZE(TARGETS); i++) {
        const char *file = MAKEFILES[i / ARRAY_SIZE(TARGETS)],
                   *target = TARGETS[i % ARRAY_SIZE(TARGETS)];
        char pattern[32], why[64];
        snprintf(pattern, sizeof pattern, "%s:*", target);
        snprintf(why, sizeof why, "%s has the target %s", file, target);
        makes = project_has_line(&p, file, pattern);
        if (makes)
            r = project_offer(&p, "make", why, "make %s", target);
    }
    return r < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}

int tests_select(struct tests_choice *choice, const char *path, const char *filter,
                 struct error *err)
{
    static const char *const ALL[] = {" ./...", " -r t"};
    const struct runner *runner = runner_named(choice->framework);
    const char *before_path = runner ? runner->path : NULL,
               *before_filter = runner ? runner->filter : NULL;
    if ((path && !before_path) || (filter && !before_filter))
        return error_set(
            err, EINVAL,
            "input.%s: %s does not select tests that way here; give the whole `command` instead,"
            " for all tests it is: %.300s",
            path && !before_path ? "path" : "filter", choice->framework, choice->command);
    /* A path replaces the one that means all tests. */
    for (size_t i = 0, n = strlen(choice->command); path && i < ARRAY_SIZE(ALL); i++)
        if (n > strlen(ALL[i]) && strcmp(choice->command + n - strlen(ALL[i]), ALL[i]) == 0)
            choice->command[n - strlen(ALL[i])] = 0;
    struct buf b = BUF_INIT(1 << 20);
    buf_append_str(&b, choice->command);
    if (strcmp(choice->command, "npm test") == 0)
        buf_append_str(&b, " --");
    if (filter) {
        buf_printf(&b, " %s", before_filter);
        shell_quote(&b, filter);
    }
    if (path) {
        buf_printf(&b, " %s", before_path);
        shell_quote(&b, path);
    }
    if (!buf_cstr(&b)) {
        buf_free(&b);
        return error_set(err, ENOMEM, "no memory");
    }
    free(choice->command);
    choice->command = (char *)b.data;
    return 0;
}
