#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tool.h"
#include "output.h"
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
    printf("%-16s %s\n", say_clean(t->name, name, sizeof name),
           say_clean(first, text, sizeof text));
}

static int print_json(struct tool_session *s)
{
    json_t *list = json_array();
    tool_session_list(s, add_json, tell_trouble, list);
    char *text = json_dumps(list, JSON_INDENT(2));
    json_decref(list);
    if (!text)
        return -ENOMEM;
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL: it is not used as a string any more */
    output_write(text, n + 1);
    free(text);
    return 0;
}

int tool_list(struct tool_session *s, bool json)
{
    if (!json)
        tool_session_list(s, print_line, tell_trouble, NULL);
    else if (print_json(s) < 0)
        return say_failure(&(struct error){.code = ENOMEM, .text = "no memory for the list"});
    return 0;
}

int tool_list_markdown(void)
{
    _cleanup_buf_ struct buf page = BUF_INIT(1u << 20);
    if (tool_markdown(&page) < 0)
        return say_failure(&(struct error){.code = ENOMEM, .text = "no memory for the page"});
    output_write(page.data, page.len);
    return 0;
}
