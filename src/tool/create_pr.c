/* Opens a pull request (GitLab: merge request) for a feature branch of the box, which is pushed
 * first if need be. */
#include <errno.h>
#include <string.h>

#include "forge.h"
#include "text.h"
#include "banned.h"

#define SHOWN_MAX (256u << 10)

/* The person sees commits and text, and decides once. */
static int create_pr_confirm(struct tool_call *c, struct publish *p, const struct forge_pr *pr,
                             struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(SHOWN_MAX);
    if (tool_session_host(c->session)->allow_push)
        return 0;
    _cleanup_free_ char *title = foreign_text(pr->title, strlen(pr->title), SHOWN_MAX / 8);
    _cleanup_free_ char *body = foreign_text(pr->body, strlen(pr->body), SHOWN_MAX / 2);
    buf_printf(&text, "%s%sInto:    %s%s\nTitle:   %s\n\n%s\n", buf_cstr(&p->summary),
               publish_is_due(p) ? "" : "The branch is on the remote already.\n", pr->base,
               pr->draft ? "\nDraft:   yes" : "", title ? title : "", body ? body : "");
    if (!title || !body || !buf_cstr(&text))
        return error_set(err, ENOMEM, "no memory");
    return host_confirm(c,
                        publish_is_due(p) ? "Push these commits and open this pull request?"
                                          : "Open this pull request?",
                        (const char *)text.data, "--allow-push", err);
}

/* One call of the API that gives a pull request. 0: *ret is set; 1: it has none. */
static int create_pr_call(const struct publish *p, const struct forge_pr *pr, bool create,
                          int cancel, struct forge_answer *ret, struct error *err)
{
    const struct forge *f = &p->remote.forge;
    _cleanup_free_ char *path = forge_path(pr, create ? f->kind->create_path : f->kind->find_path);
    _cleanup_json_ json_t *body = create ? forge_body(f->kind, pr) : NULL, *answer = NULL;
    json_int_t status = 0;
    if (!path || (create && !body))
        return error_set(err, ENOMEM, "no memory");
    int r = forge_call(f, &p->remote.token, path, body, cancel, &status, &answer, err);
    if (r == 0 && (status < 200 || status > 299))
        r = forge_explain(f, &p->remote.token, status, answer, err);
    else if (r == 0 && !forge_read(f->kind, answer, pr, ret))
        r = create
                ? error_set(err, EPROTO, "%s did not answer with a %s", f->authority, f->kind->noun)
                : 1;
    return r;
}

static int create_pr_run(struct tool_call *c, struct error *err)
{
    _cleanup_publish_ struct publish p = {0};
    const char *title = input_string(c, "title"), *base = input_string(c, "base");
    for (const char *at = title; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, EINVAL, "title: must be one line without control characters");
    int r = base ? git_branch_check(base, "base", err) : 0;
    if (r == 0)
        r = publish_prepare(c, input_string(c, "branch"), input_string(c, "remote"), &p, err);
    if (r == 0)
        r = forge_find(&p.remote.url, p.remote.config.own, &p.remote.forge, err);
    if (r == 0)
        r = remote_api_token(&p.remote, c->cancel, err);
    if (r < 0)
        return r;
    /* The API names the repository "owner/name", or with all its groups. */
    const char *path = p.remote.url.path, *repo = strrchr(path, '/');
    while (repo && repo > path && repo[-1] != '/')
        repo--;
    struct forge_pr pr = {
        .repo = !repo || (p.remote.forge.kind && p.remote.forge.kind->nested) ? path : repo,
        .head = p.branch,
        .base = base ? base : p.heads.standard,
        .title = title,
        .body = input_string(c, "body"),
        .draft = input_bool(c, "draft", false)};
    if (strcmp(pr.base, pr.head) == 0)
        return error_set(err, EINVAL, "base: is the branch itself");
    r = create_pr_confirm(c, &p, &pr, err);
    bool due = publish_is_due(&p);
    if (r == 0 && due)
        r = publish_push(&p, c->cancel, err);
    if (r < 0)
        return r;
    struct forge_answer made = {0};
    const char *noun = p.remote.forge.kind->noun;
    r = create_pr_call(&p, &pr, false, c->cancel, &made, err);
    bool existed = r == 0;
    if (r > 0)
        r = create_pr_call(&p, &pr, true, c->cancel, &made, err);
    if (r < 0)
        return due ? error_wrap(err, "pushed the branch %s, but opened no %s", p.branch, noun) : r;
    buf_printf(&c->result->text, "%s %s %lld: %s\n", existed ? "There is already" : "Opened", noun,
               (long long)made.number, made.url);
    c->result->data =
        json_pack("{s:s, s:I, s:s, s:s, s:b, s:b}", "url", made.url, "number", made.number,
                  "branch", p.branch, "base", pr.base, "existed", existed, "pushed", due);
    return 0;
}

/* clang-format off */
const struct tool TOOL_CREATE_PR = {
    .name = "create_pr",
    .title = "Open a pull request",
    .summary = "Opens a pull request (on GitLab: a merge request) for a branch of the box's"
               " repository. It is opened on the forge of the user's remote (GitHub, GitLab,"
               " Gitea, Forgejo) with the user's credentials. Pushes the branch first if the"
               " remote does not have it, by the rules of git_push. If the branch has an open one"
               " already, its URL is returned. The user sees the commits and the text and"
               " confirms once.",
    .input = SCHEMA({"type": "object", "additionalProperties": false, "required": ["title", "body"],
        "properties": {
        "title": {"type": "string", "minLength": 1, "maxLength": 250, "description": "One line."},
        "body": {
            "type": "string", "maxLength": 60000, "description": "Markdown: what changed and why."},
        "branch": {"type": "string", "minLength": 1, "maxLength": 200,
            "description": "Branch in the box (default: the one that is checked out)."},
        "base": {"type": "string", "minLength": 1, "maxLength": 200,
            "description": "Branch to merge into (default: the remote's default branch)."},
        "remote": {"type": "string", "minLength": 1, "maxLength": 200,
            "description": "Name of a remote of the user's repository (default origin)."},
        "draft": {"type": "boolean", "description": "Mark it as a draft (default false)."}}}),
    .output = SCHEMA({
        "type": "object", "required": ["url", "number", "branch", "base", "existed", "pushed"],
        "properties": {
        "url": {"type": "string", "description": "Its page."},
        "number": {"type": "integer"},
        "branch": {"type": "string"},
        "base": {"type": "string"},
        "existed": {"type": "boolean",
            "description": "The branch had one already; its text was not changed."},
        "pushed": {"type": "boolean", "description": "The branch was pushed by this call."}}}),
    .flags = TOOL_HOST,
    .run = create_pr_run,
};
/* clang-format on */
