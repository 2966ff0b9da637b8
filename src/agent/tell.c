#include <stdarg.h>
#include <string.h>

#include "agent_private.h"
#include "banned.h"

void agent_tell(struct agent *a, const struct agent_event *e)
{
    if (a->sink.event)
        a->sink.event(a->sink.data, e);
}

void agent_note(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    agent_tell(a, &(struct agent_event){.kind = AGENT_NOTE, .text = text, .n = strlen(text)});
}

void agent_aside(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_printf(&a->aside, "[%s]\n", text);
}

void agent_mention(struct agent *a, const char *text, size_t n)
{
    if (a->aside.len + n + 1 > a->aside.max) /* it can look for itself */
        return;
    buf_append(&a->aside, text, n);
    buf_append(&a->aside, "\n", 1);
}
