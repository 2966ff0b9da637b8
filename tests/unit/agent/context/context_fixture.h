/* A history in memory-backed files, messages for it, and a model that says what the test wants. */
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "encode.h"
#include "context.h"

static char root[64];

static inline int set_up(void **state)
{
    snprintf(root, sizeof root, "%s/test-context-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(root));
    setenv("XDG_DATA_HOME", root, 1);
    return 0;
}

static inline int tear_down(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static inline struct history *new_history(void)
{
    struct history *h = NULL;
    struct error err = {0};
    if (history_new(NULL, "/ws", NULL, 0, &h, &err) < 0)
        fail_msg("%s", err.text);
    return h;
}

static inline void append(struct history *h, json_t *message)
{
    struct error err = {0};
    assert_non_null(message);
    if (history_append(h, message, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(message);
}

static inline json_t *text(const char *s)
{
    return json_pack("{s:s, s:s}", "type", "text", "text", s);
}

static inline void person(struct history *h, const char *words)
{
    append(h, json_pack("{s:s, s:i, s:[o]}", "role", "user", "turn", (int)history_turns(h) + 1,
                        "content", text(words)));
}

static inline void answers(struct history *h, const char *words)
{
    append(h, json_pack("{s:s, s:[o]}", "role", "assistant", "content", text(words)));
}

static inline void calls(struct history *h, const char *id, const char *thought)
{
    json_t *content = json_array();
    if (thought)
        json_array_append_new(content,
                              json_pack("{s:s, s:s, s:s, s:{s:s}}", "type", "thinking", "from",
                                        "a/b", "text", thought, "raw", "thinking", thought));
    json_array_append_new(content, json_pack("{s:s, s:s, s:s, s:{s:s}}", "type", "tool_use", "id",
                                             id, "name", "bash", "input", "command", "make test"));
    append(h, json_pack("{s:s, s:o}", "role", "assistant", "content", content));
}

static inline void gives(struct history *h, const char *id, const char *output)
{
    append(h, json_pack("{s:s, s:[{s:s, s:s, s:[o], s:b}]}", "role", "user", "content", "type",
                        "tool_result", "tool_use_id", id, "content", text(output), "is_error", 0));
}

/* n bytes of lines that differ. */
static inline char *lines(size_t n, unsigned seed)
{
    char *all = malloc(n + 64);
    size_t used = 0;
    for (unsigned i = 0; used < n; i++)
        used += (size_t)snprintf(all + used, 64, "line %u of %u: some words here\n", i, seed);
    all[n] = 0;
    return all;
}

static inline struct context *new_context(struct history *h, uint64_t window)
{
    struct context_options o = {
        .window = window, .reserve = window / 10, .system = "You are a test."};
    struct context *c = NULL;
    struct error err = {0};
    assert_int_equal(context_new(h, &o, &c, &err), 0);
    return c;
}

static inline json_t *build_with(struct context *c, struct model *m, const char *now,
                                 const struct agent_sink *sink)
{
    json_t *messages = NULL;
    struct error err = {0};
    if (context_build(c, m, now, -1, sink, &messages, &err) < 0)
        fail_msg("%s", err.text);
    if (conversation_check(messages, &err) < 0)
        fail_msg("%s\n%s", err.text, json_dumps(messages, JSON_INDENT(1)));
    return messages;
}

static inline json_t *build(struct context *c)
{
    return build_with(c, NULL, NULL, NULL);
}

static inline char *dumped(const json_t *messages)
{
    char *s = json_dumps(messages, JSON_COMPACT | JSON_SORT_KEYS);
    assert_non_null(s);
    return s;
}

static inline bool shows(const json_t *messages, const char *part)
{
    char *s = dumped(messages);
    bool found = strstr(s, part) != NULL;
    free(s);
    return found;
}
