#include <errno.h>
#include <string.h>

#include "file_input.h"
#include "banned.h"

const char *file_input_path(struct tool_call *c)
{
    const json_t *path = json_object_get(c->input, "path");
    const char *text = json_string_value(path);
    if (strlen(text) == json_string_length(path))
        return text;
    tool_fail(c, "input.path: holds a NUL character");
    return NULL;
}

int file_hint(struct error *err)
{
    static const struct {
        int code;
        const char *text;
    } hints[] = {
        {EISDIR, "; list_files shows what is in a folder"},
        {EXDEV, "; a relative path stays in the workspace, an absolute one is taken from the root "
                "of the box"},
        {ENOSPC, "; the box's disk is full: delete what is not needed, or make the box with a "
                 "larger --disk"},
        {EROFS, "; this part of the box is read-only (for the workspace: --mode ro)"},
        {EACCES, "; chmod in bash if this is meant to be allowed"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(hints); i++)
        if (hints[i].code == err->code) {
            size_t n = strlen(err->text);
            snprintf(err->text + n, sizeof err->text - n, "%s", hints[i].text);
        }
    return -err->code;
}
