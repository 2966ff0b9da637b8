/* Histories in a folder of the test's own, and short ways to fill and to look at them. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "history.h"
#include "io.h"
#include "text.h"

static char root[64], folder[128];

static inline int set_up(void **state)
{
    snprintf(root, sizeof root, "/tmp/test-history-XXXXXX");
    assert_non_null(mkdtemp(root));
    setenv("XDG_DATA_HOME", root, 1);
    snprintf(folder, sizeof folder, "%s/hutch/history", root);
    return 0;
}

static inline int tear_down(void **state)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static inline const char *file_of(const char *id, const char *end)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/%s%s", folder, id, end);
    return path;
}

static inline struct buf slurp(const char *path)
{
    struct buf b = BUF_INIT(256u << 20);
    assert_int_equal(io_read_file(AT_FDCWD, path, &b), 0);
    return b;
}

static inline void spill(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    fclose(f);
}

static inline void spill_text(const char *id, const char *text)
{
    spill(file_of(id, ".json"), text, strlen(text));
}

static inline struct history *fresh(void)
{
    struct error err = {0};
    struct history *h = NULL;
    if (history_new(NULL, "/ws", NULL, 0, &h, &err) < 0)
        fail_msg("%s", err.text);
    return h;
}

static inline struct history *open_it(const char *id, bool read_only, bool *ret_repaired)
{
    struct error err = {0};
    struct history *h = NULL;
    if (history_open(NULL, id, read_only, &h, ret_repaired, &err) < 0)
        fail_msg("%s", err.text);
    return h;
}

static inline void append(struct history *h, json_t *m)
{
    struct error err = {0};
    assert_non_null(m);
    if (history_append(h, m, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(m);
}

static inline void begin(struct history *h, int turn, const char *words)
{
    append(h, json_pack("{s:s, s:i, s:[{s:s, s:s}]}", "role", "user", "turn", turn, "content",
                        "type", "text", "text", words));
}

static inline void answer(struct history *h, const char *words)
{
    append(h, json_pack("{s:s, s:[{s:s, s:s}], s:s, s:{s:i, s:i}, s:f}", "role", "assistant",
                        "content", "type", "text", "text", words, "model", "m/1", "usage", "input",
                        10, "output", 3, "cost", 0.25));
}

static inline void hutch(struct history *h, const char *kind, const char *name, int value)
{
    append(h, json_pack("{s:s, s:s, s:i}", "role", "hutch", "kind", kind, name, value));
}

/* The texts of the messages that count, one after the other. */
static inline const char *counting(struct history *h)
{
    static struct buf b = BUF_INIT(1 << 20);
    b.len = 0;
    for (size_t i = 0; i < history_count(h); i++) {
        json_t *m = NULL;
        if (!history_entry(h, i)->counts || history_entry(h, i)->role == HISTORY_HUTCH)
            continue;
        assert_int_equal(history_read(h, i, &m, NULL), 0);
        buf_append_str(&b, b.len ? " " : "");
        const json_t *block = json_array_get(json_object_get(m, "content"), 0);
        buf_append_str(&b, json_string_value(json_object_get(block, "text")));
        json_decref(m);
    }
    return buf_cstr(&b);
}

/* The file as other programs read it. */
static inline json_t *document(const char *id)
{
    json_error_t why;
    json_t *o = json_load_file(file_of(id, ".json"), 0, &why);
    if (!o)
        fail_msg("%s", why.text);
    return o;
}
