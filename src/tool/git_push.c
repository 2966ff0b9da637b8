/* Pushes a feature branch of the box to a remote of the person's repository. Runs on the host: the
 * box has neither credentials nor, as a rule, a network. */
#include <errno.h>
#include <string.h>

#include "remote.h"
#include "banned.h"

static int git_push_run(struct tool_call *c, struct error *err)
{
    _cleanup_publish_ struct publish p = {0};
    int r = publish_prepare(c, input_string(c, "branch"), input_string(c, "remote"), &p, err);
    bool due = r == 0 && publish_is_due(&p);
    if (due && !tool_session_host(c->session)->allow_push)
        r = host_confirm(c, "Push these commits?", buf_cstr(&p.summary), "--allow-push", err);
    if (r == 0 && due)
        r = publish_push(&p, c->cancel, err);
    if (r < 0)
        return r;
    buf_printf(&c->result->text,
               due ? "Pushed %zu commit%s to the branch %s of %s.\n"
                   : "Nothing to push (%zu new commit%s): the branch %s of %s is up to date.\n",
               p.commits, p.commits == 1 ? "" : "s", p.branch, p.remote.url.url);
    c->result->data =
        json_pack("{s:s, s:s, s:s, s:I, s:b}", "url", p.remote.url.url, "branch", p.branch,
                  "commit", p.id, "commits", (json_int_t)p.commits, "pushed", due);
    return c->result->data ? 0 : error_set(err, ENOMEM, "no memory");
}

/* clang-format off */
const struct tool TOOL_GIT_PUSH = {
    .name = "git_push",
    .title = "Push a branch",
    .summary = "Pushes a branch with its commits from the box's repository at /workspace to a"
               " remote of the user's repository, with the user's credentials. Only branches whose"
               " names begin with the user's prefix (hutch/ by default) are pushed; never the"
               " default branch, never with force, no tags. Commit on such a branch first: git"
               " switch -c hutch/NAME. The user sees the commits and confirms.",
    .input = SCHEMA({
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "branch": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Branch in the box; the same name is used on the remote (default: the one that is checked out)."},
            "remote": {"type": "string", "minLength": 1, "maxLength": 200,
                "description": "Name of a remote of the user's repository (default origin)."}
        }
    }),
    .output = SCHEMA({
        "type": "object",
        "required": ["url", "branch", "commit", "commits", "pushed"],
        "properties": {
            "url": {"type": "string",
                "description": "Of the remote repository, without credentials."},
            "branch": {"type": "string"},
            "commit": {"type": "string", "description": "What the branch points to now."},
            "commits": {"type": "integer", "description": "Commits that were new to the remote."},
            "pushed": {"type": "boolean",
                "description": "False if the remote had the commit already."}
        }
    }),
    .flags = TOOL_HOST,
    .run = git_push_run,
};
/* clang-format on */
