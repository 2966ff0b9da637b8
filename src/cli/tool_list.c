#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "describe.h"
#include "io.h"
#include "say.h"
#include "tool_list.h"
#include "banned.h"

static void add_json(void *data, const struct tool *t)
{
    json_array_append_new(data, tool_describe(t));
}

static void tell_trouble(void *data, const char *text)
{
    say("%s", text);
}

/* The first sentence is what a list has room for. */
static void print_line(void *data, const struct tool *t)
{
    char name[128], text[512];
    const char *end = strstr(t->summary, ". ");
    int n = end ? (int)(end - t->summary) : (int)strcspn(t->summary, "\n");
    char first[400];
    snprintf(first, sizeof first, "%.*s", n, t->summary);
    printf("%-16s %s\n", say_clean(t->name, name, sizeof name), say_clean(first, text, sizeof text));
}

static int print_json(struct tool_session *s)
{
    json_t *list = json_array();
    tool_session_list(s, add_json, tell_trouble, list);
    char *text = json_dumps(list, JSON_INDENT(2));
    json_decref(list);
    int e = text ? io_write_all(STDOUT_FILENO, text, strlen(text)) : -ENOMEM;
    if (e == 0)
        e = io_write_all(STDOUT_FILENO, "\n", 1);
    free(text);
    return e;
}

int tool_list(struct tool_session *s, bool json)
{
    struct error err = {0};
    int e = 0;
    if (json)
        e = print_json(s);
    else
        tool_session_list(s, print_line, tell_trouble, NULL);
    if (e == 0 && fflush(stdout) != 0)
        e = -errno;
    if (e == 0)
        return 0;
    error_errno(&err, -e, "cannot write the list");
    return say_failure(&err);
}

int tool_list_markdown(void)
{
    struct error err = {0};
    _cleanup_buf_ struct buf page = BUF_INIT(1u << 20);
    int e = tool_markdown(&page);
    if (e == 0)
        e = io_write_all(STDOUT_FILENO, page.data, page.len);
    if (e == 0)
        return 0;
    error_errno(&err, -e, "cannot write the page");
    return say_failure(&err);
}
