/*
 * Finding a test runner in a shell command.
 *
 * The command line is split into simple commands and words, as far as it takes to find a program in
 * it and to put options behind it; nothing is expanded. A table tells how a runner is recognised,
 * which options make it write a report, where the report is then, and how it runs a part of the
 * tests. A runner that is started somewhere beneath a script or a Makefile is reached through the
 * environment (command.c).
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "run_tests.h"
#include "banned.h"

struct shell_scan {
    const char *text;
    size_t at;
    struct shell_line *line;
    bool fresh;    /* the next word begins a simple command */
    bool redirect; /* the next word is a file's name */
};

/* Behind a quote's end; 0 if it has none. */
static size_t skip_quoted(const char *text, size_t at)
{
    char quote = text[at++];
    while (text[at] && text[at] != quote)
        at += text[at] == '\\' && quote != '\'' && text[at + 1] ? 2 : 1;
    return text[at] ? at + 1 : 0;
}

/* Behind the end of $( … ) or ${ … }, with whatever is in between; 0 if it has none. */
static size_t skip_expansion(const char *text, size_t at)
{
    char open = text[at + 1], close = open == '(' ? ')' : '}';
    int depth = 0;
    for (at++; text[at]; at++) {
        if (text[at] == '\'' || text[at] == '"') {
            size_t behind = skip_quoted(text, at);
            if (!behind)
                return 0;
            at = behind - 1;
        } else if (text[at] == open) {
            depth++;
        } else if (text[at] == close && --depth == 0) {
            return at + 1;
        }
    }
    return 0;
}

/* One piece of a word: a quoted part, an expansion, or a character. Returns where the next one
 * begins, or 0. */
static size_t scan_piece(const char *text, size_t at, struct buf *word, bool *odd)
{
    size_t end;
    if (text[at] == '\'' || text[at] == '"') {
        end = skip_quoted(text, at);
        for (size_t i = at + 1; i + 1 < end; i++) {
            if (text[at] == '"' && text[i] == '\\' && strchr("\\\"$`", text[i + 1]))
                i++;
            buf_append(word, text + i, 1);
        }
        *odd |= text[at] == '"' && end && memchr(text + at, '$', end - at);
        return end;
    }
    if (text[at] == '`') {
        *odd = true;
        return skip_quoted(text, at);
    }
    if (text[at] == '$' && (text[at + 1] == '(' || text[at + 1] == '{')) {
        *odd = true;
        return skip_expansion(text, at);
    }
    *odd |= text[at] == '$' || text[at] == '*' || text[at] == '?';
    if (text[at] == '\\' && text[at + 1])
        at++;
    buf_append(word, text + at, 1);
    return at + 1;
}

static struct shell_command *scan_command(struct shell_scan *s)
{
    return s->line->n_commands ? &s->line->commands[s->line->n_commands - 1] : NULL;
}

static int scan_word(struct shell_scan *s)
{
    /* Words that stand where a command may, and are none. */
    static const char *const RESERVED[] = {"if",   "then",  "else",  "elif", "fi", "do",
                                           "done", "while", "until", "!",    "{",  "}"};
    _cleanup_buf_ struct buf word = BUF_INIT(1 << 20);
    struct shell_line *l = s->line;
    size_t begin = s->at;
    bool odd = false;
    while (s->text[s->at] && !strchr(" \t\r\n;&|()<>", s->text[s->at])) {
        s->at = scan_piece(s->text, s->at, &word, &odd);
        if (!s->at)
            return -EINVAL;
    }
    char *text = buf_cstr(&word);
    if (!text)
        return -ENOMEM;
    /* The number before a redirection is part of it. */
    if (word.len && s->text[s->at] && strchr("<>", s->text[s->at]) &&
        strspn(text, "0123456789") == word.len)
        return 0;
    bool skipped = s->redirect;
    for (size_t i = 0; s->fresh && i < ARRAY_SIZE(RESERVED); i++)
        skipped |= strcmp(text, RESERVED[i]) == 0;
    if (skipped) {
        if (s->redirect && scan_command(s))
            scan_command(s)->end = s->at;
        s->redirect = false;
        return 0;
    }
    if (l->n_words == SHELL_WORDS_MAX || (s->fresh && l->n_commands == SHELL_COMMANDS_MAX))
        return -E2BIG;
    text = strdup(text);
    if (!text)
        return -ENOMEM;
    if (s->fresh)
        l->commands[l->n_commands++] = (struct shell_command){.first = l->n_words};
    s->fresh = false;
    l->words[l->n_words++] =
        (struct shell_word){.begin = begin, .end = s->at, .text = text, .odd = odd};
    scan_command(s)->count++;
    scan_command(s)->end = s->at;
    return 0;
}

static void scan_operator(struct shell_scan *s)
{
    char c = s->text[s->at];
    if (c == '<' || c == '>') {
        s->at += strspn(s->text + s->at, "<>");
        /* >&2 and >&- name no file. */
        size_t n = s->text[s->at] == '&' ? 1 + strspn(s->text + s->at + 1, "0123456789-") : 0;
        s->at += n;
        s->redirect = n <= 1;
        if (scan_command(s) && !s->redirect)
            scan_command(s)->end = s->at;
        return;
    }
    /* &>file */
    if (c == '&' && s->text[s->at + 1] == '>') {
        s->at++;
        return;
    }
    if (c == '|' && s->text[s->at + 1] != '|' && scan_command(s))
        scan_command(s)->piped = true;
    s->at += strspn(s->text + s->at, "&|;()\r\n");
    s->fresh = true;
    s->redirect = false;
}

int shell_line_parse(const char *text, struct shell_line **ret)
{
    struct shell_scan s = {.text = text, .line = calloc(1, sizeof *s.line), .fresh = true};
    int r = s.line ? 0 : -ENOMEM;
    while (r >= 0 && text[s.at]) {
        s.at += strspn(text + s.at, " \t");
        if (text[s.at] == '\\' && text[s.at + 1] == '\n')
            s.at += 2;
        else if (text[s.at] == '#')
            s.at += strcspn(text + s.at, "\n");
        else if (strchr(";&|()<>\r\n", text[s.at]) && text[s.at])
            scan_operator(&s);
        else if (text[s.at])
            r = scan_word(&s);
    }
    if (r < 0) {
        shell_line_free(s.line);
        return r;
    }
    *ret = s.line;
    return 0;
}

struct shell_line *shell_line_free(struct shell_line *l)
{
    for (size_t i = 0; l && i < l->n_words; i++)
        free(l->words[i].text);
    free(l);
    return NULL;
}

void shell_quote(struct buf *b, const char *s)
{
    buf_append(b, "'", 1);
    for (; *s; s++) {
        if (*s == '\'')
            buf_append_str(b, "'\\''");
        else
            buf_append(b, s, 1);
    }
    buf_append(b, "'", 1);
}

/* In options and reports: %D the run's folder, %N the number of the runner in the command, %I the
 * run's name. */
static const struct runner RUNNERS[] = {
    {"pytest", "pytest", "--junitxml=%D/%N.xml -o junit_family=xunit1", "%D/%N.xml",
     WIRE_REPORT_JUNIT, .path = "", .filter = "-k "},
    {"pytest", "py.test", "--junitxml=%D/%N.xml -o junit_family=xunit1", "%D/%N.xml",
     WIRE_REPORT_JUNIT},
    {"pytest", "python -m pytest", "--junitxml=%D/%N.xml -o junit_family=xunit1", "%D/%N.xml",
     WIRE_REPORT_JUNIT},
    {"unittest", "python -m unittest", "%D/run_unittest.py %D/%N.xml", "%D/%N.xml",
     WIRE_REPORT_JUNIT, .replace = 2, .filter = "-k "},
    {"ctest", "ctest", "--output-junit %D/%N.xml", "%D/%N.xml", WIRE_REPORT_JUNIT, .filter = "-R "},
    {"meson", "meson test", "--logbase %I", NULL, WIRE_REPORT_MESON, .flags = RUNNER_MESON,
     .filter = ""},
    {"go", "go test", "-json", "%D/" TESTS_OUTPUT, WIRE_REPORT_GO,
     .flags = RUNNER_STDOUT | RUNNER_SPLIT, .path = "", .filter = "-run "},
    {"nextest", "cargo nextest run", "--tool-config-file hutch:%D/nextest.toml", "%D/nextest.xml",
     WIRE_REPORT_JUNIT},
    {"cargo", "cargo test", NULL, "%D/" TESTS_OUTPUT, WIRE_REPORT_LIBTEST, .flags = RUNNER_STDOUT,
     .filter = ""},
    {"cargo", "cargo t", NULL, "%D/" TESTS_OUTPUT, WIRE_REPORT_LIBTEST, .flags = RUNNER_STDOUT},
    {"jest", "jest", "--json --outputFile=%D/%N.json --testLocationInResults", "%D/%N.json",
     WIRE_REPORT_JSON, .flags = RUNNER_AT_END, .path = "", .filter = "-t "},
    {"vitest", "vitest", "--reporter=default --reporter=json --outputFile.json=%D/%N.json",
     "%D/%N.json", WIRE_REPORT_JSON, .flags = RUNNER_AT_END, .path = "", .filter = "-t "},
    {"mocha", "mocha", "--reporter json --reporter-option output=%D/%N.json", "%D/%N.json",
     WIRE_REPORT_JSON, .flags = RUNNER_AT_END},
    {"node", "node --test",
     "--test-reporter=spec --test-reporter-destination=stdout --test-reporter=junit "
     "--test-reporter-destination=%D/%N.xml",
     "%D/%N.xml", WIRE_REPORT_JUNIT, .path = "", .filter = "--test-name-pattern "},
    {"bun", "bun test", "--reporter=junit --reporter-outfile=%D/%N.xml", "%D/%N.xml",
     WIRE_REPORT_JUNIT},
    {"deno", "deno test", "--junit-path=%D/%N.xml", "%D/%N.xml", WIRE_REPORT_JUNIT},
    {"phpunit", "phpunit", "--log-junit %D/%N.xml", "%D/%N.xml", WIRE_REPORT_JUNIT},
    {"prove", "prove", "--merge", "%D/tap", WIRE_REPORT_TAP, .flags = RUNNER_PROVE, .path = ""},
    {"npm", "npm test", .flags = RUNNER_SCRIPT, .path = "", .filter = "-t "},
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

static bool word_is(const struct shell_word *w, const char *want, size_t n, bool first)
{
    if (w->odd)
        return false;
    const char *slash = first ? strrchr(w->text, '/') : NULL;
    const char *text = slash ? slash + 1 : w->text;
    if (first && n == 6 && strncmp(want, "python", 6) == 0) {
        /* python, python3, python3.12, pypy3 */
        size_t name = strncmp(text, "python", 6) == 0 ? 6 : strncmp(text, "pypy", 4) == 0 ? 4 : 0;
        return name && text[name + strspn(text + name, "0123456789.")] == 0;
    }
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

static bool word_is_assignment(const char *word)
{
    size_t n = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    return n > 0 && !isdigit((unsigned char)word[0]) && word[n] == '=';
}

/* Skips what runs the program behind it, with its options and numbers. */
static size_t skip_wrappers(const struct shell_line *l, size_t at, size_t end)
{
    for (;;) {
        size_t before = at;
        while (at < end && word_is_assignment(l->words[at].text))
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
