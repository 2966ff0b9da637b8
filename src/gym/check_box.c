/* What a check does in a box: with the same tools that an agent has. */
#include <errno.h>
#include <string.h>

#include "check_private.h"
#include "session.h"
#include "tool_result.h"
#include "banned.h"

#define SCRIPT_NS (600 * 1000000000ll)

static int call(struct check *c, struct tool_session *s, const struct tool *tool, const char *name,
                const char *value, char *trouble, size_t size)
{
    struct tool_result result = {0};
    json_t *input = json_pack("{s:s}", name, value);
    trouble[0] = 0;
    if (!input)
        return task_no_memory(c->err);
    struct tool_request q = {.tool = tool, .input = input, .cancel = c->options->cancel};
    int r = tool_call(s, &q, &result);
    const char *text = buf_cstr(&result.text);
    if (r < 0)
        error_errno(c->err, -r, "%s", text && *text ? text : tool->name);
    else if (result.failed)
        snprintf(trouble, size, "%.*s", (int)strcspn(text ? text : "", "\n"), text ? text : "");
    if (r == 0 && result.failed && !trouble[0])
        snprintf(trouble, size, "%s failed", tool->name);
    tool_result_free(&result);
    json_decref(input);
    return r;
}

int check_apply(struct check *c, struct box *b, const size_t *patches, size_t n,
                struct check_played *p)
{
    struct tool_session *s = NULL;
    int r = n > 0 ? tool_session_new(b, NULL, &s, c->err) : 0;
    size_t i = 0;
    for (; i < n && r == 0; i++) {
        char why[400];
        const struct task_patch *patch = &c->task->patches[patches[i]];
        r = call(c, s, &TOOL_APPLY_DIFF, "diff", patch->diff, why, sizeof why);
        if (r == 0 && why[0]) {
            snprintf(p->trouble, sizeof p->trouble, "the patch '%s' does not apply: %s",
                     patch->name, why);
            break;
        }
    }
    p->stopped = i;
    tool_session_free(s);
    return r;
}

int check_read(struct check *c, struct box *b, size_t i)
{
    char why[400] = "";
    struct tool_session *s = NULL;
    int r = tool_session_new(b, NULL, &s, c->err);
    if (r == 0)
        r = call(c, s, &TOOL_READ_FILE, "path", c->task->reads.items[i], why, sizeof why);
    tool_session_free(s);
    return r == 0 && why[0] ? check_find(c, "reads[%zu]: %s", i, why) : r;
}

static int run_script(struct check *c, struct box *b, struct check_played *p)
{
    char shell[] = "/bin/bash", option[] = "-c";
    char *const argv[] = {shell, option, c->task->solution_script, NULL};
    struct box_command command = {.argv = argv,
                                  .timeout_ns = SCRIPT_NS,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .capture = true,
                                  .cancel = c->options->cancel};
    struct box_result result = {0};
    int r = box_exec(b, &command, &result, c->err);
    if (r == 0 && result.limit)
        snprintf(p->trouble, sizeof p->trouble, "its script was stopped: %s",
                 box_limit_name(result.limit));
    else if (r == 0 && result.exit_code != 0)
        r = check_note(c, "the solution's script ends with exit code %d", result.exit_code);
    box_result_free(&result);
    return r;
}

int check_play_script(struct check *c, struct check_played *ret)
{
    struct box *b = NULL;
    struct check_played p = {0};
    int r = arena_take(c->arena, &b, c->err);
    if (r == 0)
        r = grade_stage(b, c->options->cancel, &c->task->solution_files, NULL, NULL, NULL, c->err);
    if (r == 0)
        r = run_script(c, b, &p);
    if (r == 0 && !p.trouble[0]) {
        c->result.runs++;
        r = grade_box(c->arena, b, c->options->cancel, &p.grade, c->err);
    }
    arena_give(c->arena, b);
    if (r == 0)
        *ret = p;
    return r;
}
