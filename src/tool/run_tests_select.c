/* A part of the tests: path and filter, as the runner that was recognised takes them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run_tests.h"
#include "shell_words.h"
#include "banned.h"

/* How runners take a part of the tests: what goes before the path and before the pattern. NULL:
 * they do not.
 */
static const struct {
    const char *framework, *path, *filter;
} SELECTIONS[] = {
    {"pytest", "", "-k "},  {"unittest", NULL, "-k "},
    {"ctest", NULL, "-R "}, {"meson", NULL, ""},
    {"cargo", NULL, ""},    {"go", "", "-run "},
    {"npm", "", "-t "},     {"vitest", "", "-t "},
    {"jest", "", "-t "},    {"node", "", "--test-name-pattern "},
    {"prove", "", NULL},
};

static int append_text(char **command, const char *text)
{
    char *longer = NULL;
    if (asprintf(&longer, "%s%s", *command, text) < 0)
        return -ENOMEM;
    free(*command);
    *command = longer;
    return 0;
}

static int append_word(char **command, const char *before, const char *word)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    buf_printf(&b, " %s", before);
    shell_quote(&b, word);
    const char *text = buf_cstr(&b);
    return text ? append_text(command, text) : -ENOMEM;
}

/* A path takes the place of the one that means all tests. */
static void drop_default_path(char *command)
{
    static const char *const ALL[] = {" ./...", " -r t"};
    size_t n = strlen(command);
    for (size_t i = 0; i < ARRAY_SIZE(ALL); i++)
        if (n > strlen(ALL[i]) && strcmp(command + n - strlen(ALL[i]), ALL[i]) == 0)
            command[n - strlen(ALL[i])] = 0;
}

int tests_select(struct tests_choice *choice, const char *path, const char *filter,
                 struct error *err)
{
    const char *before_path = NULL, *before_filter = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(SELECTIONS); i++)
        if (strcmp(SELECTIONS[i].framework, choice->framework) == 0) {
            before_path = SELECTIONS[i].path;
            before_filter = SELECTIONS[i].filter;
        }
    if ((path && !before_path) || (filter && !before_filter))
        return error_set(
            err, EINVAL,
            "input.%s: %s does not select tests that way here; give the whole `command` instead,"
            " for all tests it is: %.300s",
            path && !before_path ? "path" : "filter", choice->framework, choice->command);
    int r = 0;
    if (path)
        drop_default_path(choice->command);
    if (strcmp(choice->command, "npm test") == 0 && (path || filter))
        r = append_text(&choice->command, " --");
    if (r >= 0 && filter)
        r = append_word(&choice->command, before_filter, filter);
    if (r >= 0 && path)
        r = append_word(&choice->command, before_path, path);
    return r;
}
