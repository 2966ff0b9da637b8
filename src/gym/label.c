#include <stdio.h>
#include <string.h>

#include "label.h"
#include "utf8.h"
#include "tool.h"
#include "banned.h"

#define SHOWN_MAX 120 /* bytes of an input */

/* The first line of a text without what would disturb a terminal. */
static void append_clean(char *text, size_t size, const char *more, size_t max)
{
    size_t used = strlen(text), from = 0, n = strlen(more);
    while (from < n && from < max && more[from] != '\n') {
        size_t k = utf8_character((const uint8_t *)more + from, n - from);
        bool good = k > 0 && !utf8_is_control((const uint8_t *)more + from, k);
        if (used + (good ? k : 1) + 1 > size)
            break;
        memcpy(text + used, good ? more + from : "?", good ? k : 1);
        used += good ? k : 1;
        from += k ? k : 1;
    }
    text[used] = 0;
    if (from < n && used + sizeof "…" <= size)
        memcpy(text + used, "…", sizeof "…");
}

static void label_diff(const struct task *t, const json_t *action, char *text, size_t size)
{
    const char *diff = json_get_string(action, "diff");
    bool reverse = json_is_true(json_object_get(action, "reverse"));
    snprintf(text, size, "%s ", reverse ? "take back" : "apply");
    for (size_t i = 0; diff && i < t->n_patches; i++)
        if (strcmp(t->patches[i].diff, diff) == 0) {
            append_clean(text, size, t->patches[i].name, SHOWN_MAX);
            return;
        }
    append_clean(text, size, "a diff", SHOWN_MAX);
}

void action_label(const struct task *t, const json_t *action, char *text, size_t size)
{
    static const char *const TELLING[] = {"path", "command", "pattern"};
    const char *tool = json_get_string(action, "tool");
    text[0] = 0;
    if (tool && strcmp(tool, TOOL_APPLY_DIFF.name) == 0) {
        label_diff(t, action, text, size);
        return;
    }
    if (tool && strcmp(tool, TOOL_RUN_TESTS.name) == 0 && json_object_size(action) == 1) {
        snprintf(text, size, "run tests");
        return;
    }
    append_clean(text, size,
                 !tool                                    ? "?"
                 : strcmp(tool, TOOL_READ_FILE.name) == 0 ? "read"
                                                          : tool,
                 SHOWN_MAX);
    for (size_t i = 0; i < ARRAY_SIZE(TELLING); i++) {
        const char *value = json_get_string(action, TELLING[i]);
        if (!value)
            continue;
        append_clean(text, size, " ", 1);
        append_clean(text, size, value, SHOWN_MAX);
        return;
    }
}
