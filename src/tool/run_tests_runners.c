/*
 * Runners by name: how one is recognised in a command, what is put behind it so that it writes a
 * report, and where that report is. A runner that is not in the command itself, but somewhere
 * beneath a script or a Makefile, is reached through variables of the environment, as far as it has
 * such.
 */
#include <ctype.h>
#include <string.h>

#include "run_tests.h"
#include "run_tests_runners.h"
#include "banned.h"

/* In options and reports: %D the run's folder, %N the number of the runner in the command, %I the
 * run's name.
 */
static const struct runner RUNNERS[] = {
    {"pytest", "pytest", "--junitxml=%D/%N.xml -o junit_family=xunit1", "%D/%N.xml",
     WIRE_REPORT_JUNIT},
    {"pytest", "py.test", "--junitxml=%D/%N.xml -o junit_family=xunit1", "%D/%N.xml",
     WIRE_REPORT_JUNIT},
    {"pytest", "python -m pytest", "--junitxml=%D/%N.xml -o junit_family=xunit1", "%D/%N.xml",
     WIRE_REPORT_JUNIT},
    {"unittest", "python -m unittest", "%D/run_unittest.py %D/%N.xml", "%D/%N.xml",
     WIRE_REPORT_JUNIT, .replace = 2},
    {"ctest", "ctest", "--output-junit %D/%N.xml", "%D/%N.xml", WIRE_REPORT_JUNIT},
    {"meson", "meson test", "--logbase %I", NULL, WIRE_REPORT_MESON, .flags = RUNNER_MESON},
    {"go", "go test", "-json", "%D/" TESTS_OUTPUT, WIRE_REPORT_GO,
     .flags = RUNNER_STDOUT | RUNNER_SPLIT},
    {"nextest", "cargo nextest run", "--tool-config-file hutch:%D/nextest.toml", "%D/nextest.xml",
     WIRE_REPORT_JUNIT},
    {"cargo", "cargo test", NULL, "%D/" TESTS_OUTPUT, WIRE_REPORT_LIBTEST, .flags = RUNNER_STDOUT},
    {"cargo", "cargo t", NULL, "%D/" TESTS_OUTPUT, WIRE_REPORT_LIBTEST, .flags = RUNNER_STDOUT},
    {"jest", "jest", "--json --outputFile=%D/%N.json --testLocationInResults", "%D/%N.json",
     WIRE_REPORT_JSON, .flags = RUNNER_AT_END},
    {"vitest", "vitest", "--reporter=default --reporter=json --outputFile.json=%D/%N.json",
     "%D/%N.json", WIRE_REPORT_JSON, .flags = RUNNER_AT_END},
    {"mocha", "mocha", "--reporter json --reporter-option output=%D/%N.json", "%D/%N.json",
     WIRE_REPORT_JSON, .flags = RUNNER_AT_END},
    {"node", "node --test",
     "--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "
     "--test-reporter-destination=%D/%N.xml",
     "%D/%N.xml", WIRE_REPORT_JUNIT},
    {"bun", "bun test", "--reporter=junit --reporter-outfile=%D/%N.xml", "%D/%N.xml",
     WIRE_REPORT_JUNIT},
    {"deno", "deno test", "--junit-path=%D/%N.xml", "%D/%N.xml", WIRE_REPORT_JUNIT},
    {"phpunit", "phpunit", "--log-junit %D/%N.xml", "%D/%N.xml", WIRE_REPORT_JUNIT},
    {"prove", "prove", "--merge", "%D/tap", WIRE_REPORT_TAP, .flags = RUNNER_PROVE},
    {"npm", "npm test", .flags = RUNNER_SCRIPT},
    {"npm", "npm t", .flags = RUNNER_SCRIPT},
    {"npm", "npm run", .flags = RUNNER_SCRIPT},
    {"npm", "npm run-script", .flags = RUNNER_SCRIPT},
    {"npm", "yarn test", .flags = RUNNER_SCRIPT},
    {"npm", "yarn run", .flags = RUNNER_SCRIPT},
    {"npm", "pnpm test", .flags = RUNNER_SCRIPT},
    {"npm", "pnpm run", .flags = RUNNER_SCRIPT},
    {"make", "make", .flags = RUNNER_MAKE},
    {"make", "gmake", .flags = RUNNER_MAKE},
    {"maven", "mvn", .flags = RUNNER_LEAVES},
    {"maven", "mvnw", .flags = RUNNER_LEAVES},
    {"gradle", "gradle", .flags = RUNNER_LEAVES},
    {"gradle", "gradlew", .flags = RUNNER_LEAVES},
};

/* Programs that run the program behind them. */
static const char *const WRAPPERS[] = {
    "env",       "time",        "timeout",      "nice",      "exec",       "command",
    "nohup",     "npx",         "bunx",         "stdbuf",    "ionice",     "xvfb-run",
    "uv run",    "poetry run",  "pdm run",      "hatch run", "pipenv run", "pnpm exec",
    "yarn exec", "bundle exec", "coverage run", "npm exec",  "php"};

static const char *base_name(const char *word)
{
    const char *slash = strrchr(word, '/');
    return slash ? slash + 1 : word;
}

/* python, python3, python3.12, pypy3 */
static bool is_python(const char *name)
{
    size_t n = strncmp(name, "python", 6) == 0 ? 6 : strncmp(name, "pypy", 4) == 0 ? 4 : 0;
    return n && name[n + strspn(name + n, "0123456789.")] == 0;
}

static bool word_is(const struct shell_word *w, const char *want, size_t n, bool first)
{
    if (w->odd)
        return false;
    const char *text = first ? base_name(w->text) : w->text;
    if (first && n == 6 && strncmp(want, "python", 6) == 0)
        return is_python(text);
    return strlen(text) == n && strncmp(text, want, n) == 0;
}

/* Options may stand between a program and the word that is looked for: python -X dev -m pytest,
 * cargo +nightly test. */
static size_t skip_options(const struct shell_line *l, size_t at, size_t end, const char *want,
                           size_t n)
{
    static const char *const TAKE_A_WORD[] = {"-X",       "-W",       "-C",        "-r",
                                              "--prefix", "--import", "--require", "--loader"};
    while (at < end && strchr("-+", l->words[at].text[0]) &&
           !word_is(&l->words[at], want, n, false)) {
        size_t step = 1;
        for (size_t i = 0; i < ARRAY_SIZE(TAKE_A_WORD); i++)
            if (strcmp(l->words[at].text, TAKE_A_WORD[i]) == 0)
                step = 2;
        at += step;
    }
    return at < end ? at : end;
}

/* Do the words from `at` on begin with these? Returns how far they go, or 0. */
static size_t match_words(const struct shell_line *l, size_t at, size_t end, const char *words)
{
    for (bool first = true; *words; first = false) {
        size_t n = strcspn(words, " ");
        if (!first)
            at = skip_options(l, at, end, words, n);
        if (at >= end || !word_is(&l->words[at], words, n, first))
            return 0;
        at++;
        words += n + (words[n] == ' ');
    }
    return at;
}

static bool is_assignment(const char *word)
{
    size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && !isdigit((unsigned char)word[0]) && word[n] == '=';
}

/* Skips what runs the program behind it, with its options and numbers. */
static size_t skip_wrappers(const struct shell_line *l, size_t at, size_t end)
{
    for (;;) {
        size_t before = at;
        while (at < end && is_assignment(l->words[at].text))
            at++;
        for (size_t i = 0; i < ARRAY_SIZE(WRAPPERS) && at == before; i++) {
            size_t behind = match_words(l, at, end, WRAPPERS[i]);
            if (!behind)
                continue;
            at = behind;
            while (at < end && strcmp(l->words[at].text, "-m") != 0 &&
                   (l->words[at].text[0] == '-' || isdigit((unsigned char)l->words[at].text[0])))
                at++;
        }
        if (at == before)
            return at;
    }
}

const struct runner *runner_find(const struct shell_line *l, const struct shell_command *command,
                                 size_t *ret_behind)
{
    size_t end = command->first + command->count, at = skip_wrappers(l, command->first, end);
    /* `coverage run -m pytest`: what is behind -m is a module, as it is behind python. */
    if (at < end && at > command->first && strcmp(l->words[at].text, "-m") == 0 && at + 1 < end)
        at++;
    for (size_t i = 0; i < ARRAY_SIZE(RUNNERS); i++) {
        size_t behind = match_words(l, at, end, RUNNERS[i].words);
        if (!behind)
            continue;
        *ret_behind = behind;
        return &RUNNERS[i];
    }
    return NULL;
}

const struct runner *runner_named(const char *framework)
{
    for (size_t i = 0; i < ARRAY_SIZE(RUNNERS); i++)
        if (strcmp(RUNNERS[i].framework, framework) == 0)
            return &RUNNERS[i];
    return NULL;
}
