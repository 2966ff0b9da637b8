#include <string.h>

#include "agent_private.h"
#include "nearest_name.h"
#include "banned.h"

static const char *name_at(const json_t *list, size_t i)
{
    return json_string_value(json_object_get(json_array_get(list, i), "name"));
}

/* A tool that there is not: which one was meant, perhaps, and which there are. */
void explain_unknown(const json_t *tools, const char *said, struct buf *text)
{
    struct nearest near = nearest_to(said, strlen(said));
    for (size_t i = 0; i < json_array_size(tools); i++)
        nearest_offer(&near, name_at(tools, i));
    buf_printf(text, "there is no tool '%.100s'", said);
    if (near.best)
        buf_printf(text, "; did you mean '%s'?", near.best);
    buf_append_str(text, " The tools are:");
    for (size_t i = 0; i < json_array_size(tools); i++)
        buf_printf(text, "%s %s", i ? "," : "", name_at(tools, i));
}
