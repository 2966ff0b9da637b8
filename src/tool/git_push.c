/* Pushes a feature branch of the box to a remote of the person's repository. Runs on the host: the
 * box has neither credentials nor, as a rule, a network. create_pr publishes its branch by the same
 * functions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "forge.h"
#include "text.h"
#include "banned.h"

#define SHOWN_COMMITS   "50"
#define SUMMARY_MAX     (64u << 10)
#define PUSH_TIMEOUT_NS (600 * 1000000000LL)

static int publish_check_name(struct publish *p, const char *branch, struct error *err)
{
    const json_t *set = json_object_get(p->remote.config.own, "branch_prefix");
    const char *prefix = set ? json_string_value(set) : PUBLISH_PREFIX;
    char ref[GIT_BRANCH_MAX + 16];
    if (!branch && !p->box.head)
        return error_set(err, EINVAL,
                         "no branch is checked out in the box; run `git switch -c %sNAME` there",
                         prefix);
    branch = branch ? branch : p->box.head + strlen("refs/heads/");
    int r = git_branch_check(branch, "branch", err);
    if (r < 0)
        return r;
    if (strncmp(branch, prefix, strlen(prefix)) != 0 || !branch[strlen(prefix)])
        return error_set(err, EPERM,
                         "branch: only branches whose names begin with '%s' are pushed; run"
                         " `git switch -c %s%s` in the box and commit there",
                         prefix, prefix, branch);
    snprintf(p->branch, sizeof p->branch, "%s", branch);
    snprintf(ref, sizeof ref, "refs/heads/%s", branch);
    const struct git_ref *found = git_refs_find(&p->box.refs, ref);
    if (!found)
        return error_set(err, ENOENT, "branch: the box has no branch '%s' with a commit", branch);
    snprintf(p->id, sizeof p->id, "%s", found->id);
    return 0;
}

/* A git command in the quarantine; its exit status or a negative errno. */
static int publish_git(const struct publish *p, const char *const *args, struct buf *ret_out,
                       int cancel, struct error *err)
{
    return git_run(&(struct git_call){.git_dir = p->box.path,
                                      .args = args,
                                      .out_max = SUMMARY_MAX,
                                      .cancel = cancel,
                                      .hostile = true},
                   ret_out, err);
}

static bool publish_has(const struct publish *p, const char *id)
{
    char object[GIT_ID_SIZE + 16];
    snprintf(object, sizeof object, "%s^{commit}", id);
    const char *const args[] = {"cat-file", "-e", object, NULL};
    return id[0] && publish_git(p, args, NULL, -1, NULL) == 0;
}

static int publish_check_remote(struct publish *p, struct error *err)
{
    if (!p->heads.standard[0])
        return error_set(
            err, EPERM,
            "the remote does not say which branch is its default (it may be empty), so nothing is"
            " pushed to it; the user can push the default branch first");
    if (strcmp(p->branch, p->heads.standard) == 0)
        return error_set(err, EPERM,
                         "branch: '%s' is the remote's default branch, which is never pushed to",
                         p->branch);
    if (!p->heads.branch_id[0] || strcmp(p->heads.branch_id, p->id) == 0)
        return 0;
    const char *const args[] = {"merge-base", "--is-ancestor", p->heads.branch_id, p->id, NULL};
    if (!publish_has(p, p->heads.branch_id) || publish_git(p, args, NULL, -1, NULL) != 0)
        return error_set(err, EPERM,
                         "the remote's branch '%s' has commits that the box's branch has not, and"
                         " hutch never forces a push; push under another name: `git switch -c"
                         " %s-2` in the box",
                         p->branch, p->branch);
    return 0;
}

/* Appends the output of a git command, made safe. */
static int publish_put(struct publish *p, const char *const *args, int cancel, struct error *err)
{
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    int r = publish_git(p, args, &out, cancel, err);
    if (r != 0 && r != -ENOBUFS)
        return r < 0 ? r : -EIO;
    _cleanup_free_ char *clean =
        foreign_text(out.data ? (const char *)out.data : "", out.len, SUMMARY_MAX / 4);
    return clean ? buf_append_str(&p->summary, clean) : -ENOMEM;
}

static int publish_summarize(struct publish *p, int cancel, struct error *err)
{
    bool has_standard = publish_has(p, p->heads.standard_id);
    const char *base = p->heads.branch_id[0] ? p->heads.branch_id
                       : has_standard        ? p->heads.standard_id
                                             : NULL;
    const char *count[] = {"rev-list", "--count", p->id,
                           "--not",    base,      has_standard ? p->heads.standard_id : NULL,
                           NULL};
    const char *log[] = {"log", "-n",    SHOWN_COMMITS, "--format=  %h %s%n          by %an <%ae>",
                         p->id, "--not", base,          has_standard ? p->heads.standard_id : NULL,
                         NULL};
    if (!base)
        count[3] = log[5] = NULL;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    int r = publish_git(p, count, &out, cancel, err);
    if (r != 0)
        return r < 0 ? r : -EIO;
    p->commits = (size_t)strtoull(buf_cstr(&out) ? (const char *)out.data : "0", NULL, 10);
    if (p->commits == 0 && !p->heads.branch_id[0])
        return error_set(
            err, EINVAL,
            "branch: '%s' has no commits that the remote's branch '%s' has not; commit first",
            p->branch, p->heads.standard);
    buf_printf(&p->summary, "Remote:  %s\nBranch:  %s%s\nCommits: %zu%s\n", p->remote.url.url,
               p->branch, p->heads.branch_id[0] ? "" : " (new)", p->commits,
               p->commits > 50 ? " (the newest " SHOWN_COMMITS " are shown)" : "");
    r = p->commits ? publish_put(p, log, cancel, err) : 0;
    char range[2 * GIT_ID_SIZE + 4];
    snprintf(range, sizeof range, "%s...%s", base ? base : "", p->id);
    const char *const stat[] = {
        "diff", "--stat=100", "--no-ext-diff", "--no-textconv", "--no-color", range, NULL};
    if (r == 0 && base && p->commits)
        r = publish_put(p, stat, cancel, err);
    return r < 0 && !err->code ? error_set(err, -r, "cannot summarize the commits") : r;
}

int publish_prepare(struct tool_call *c, const char *branch, const char *remote,
                    struct publish *ret, struct error *err)
{
    _cleanup_publish_ struct publish p = {.summary = BUF_INIT(SUMMARY_MAX)};
    const struct tool_host *h = tool_session_host(c->session);
    char address[REMOTE_ADDRESS_SIZE];
    if (h->trial)
        return error_set(err, EPERM,
                         "this is one of several parallel attempts, of which one is kept: nothing"
                         " is pushed from it; say in your answer that the branch is ready to be"
                         " pushed");
    if (!h->workspace)
        return error_set(err, ENOENT,
                         "this box has no folder of the user, so there is no repository to push"
                         " from");
    if (h->direct)
        return error_set(err, EPERM,
                         "the box writes into the user's folder (mode direct) and could have"
                         " changed its .git/config, so git does not run there on the host; use the"
                         " default mode (cow)");
    int r = git_repo_open(h->workspace, &p.repo, err);
    if (r == -ENOENT && !err->code)
        return error_set(err, ENOENT,
                         "the user's folder %s is not the top folder of a git repository; start"
                         " hutch in the top folder",
                         h->workspace);
    if (r == 0)
        r = remote_address(&p.repo, remote ? remote : "origin", address, err);
    if (r == 0)
        r = remote_open(address, &p.remote, err);
    if (r == 0)
        r = git_transfer(tool_session_box(c->session), "/workspace", &p.repo,
                         &(struct git_transfer_options){.cancel = c->cancel}, &p.box, err);
    if (r == 0)
        r = publish_check_name(&p, branch, err);
    if (r == 0)
        r = remote_heads(&p.remote, p.box.path, p.branch, c->cancel, &p.heads, err);
    if (r == 0)
        r = publish_check_remote(&p, err);
    if (r == 0)
        r = publish_summarize(&p, c->cancel, err);
    if (r == 0) {
        *ret = p;
        p = (struct publish){0};
    }
    return r;
}

void publish_free(struct publish *p)
{
    git_transfer_free(&p->box);
    remote_free(&p->remote);
    git_repo_free(&p->repo);
    buf_free(&p->summary);
}

bool publish_is_due(const struct publish *p)
{
    return strcmp(p->heads.branch_id, p->id) != 0;
}

int publish_push(const struct publish *p, int cancel, struct error *err)
{
    char refspec[GIT_ID_SIZE + GIT_BRANCH_MAX + 16];
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    snprintf(refspec, sizeof refspec, "%s:refs/heads/%s", p->id, p->branch);
    const char *const args[] = {"push", "--porcelain",     "--no-verify", "--no-signed",
                                "--",   p->remote.url.url, refspec,       NULL};
    int r = remote_git(
        &p->remote,
        &(struct remote_call){
            .git_dir = p->box.path, .args = args, .timeout_ns = PUSH_TIMEOUT_NS, .cancel = cancel},
        &out, err);
    const char *said = r < 0 && buf_cstr(&out) ? strstr((const char *)out.data, "rejected]") : NULL;
    if (!said)
        return r;
    char why[200];
    snprintf(why, sizeof why, "%.*s", (int)strcspn(said + 9, "\n"), said + 9);
    _cleanup_free_ char *clean = foreign_text(why, strlen(why), sizeof why);
    return error_set(err, EPERM, "the remote rejected the push:%s; hutch never forces one",
                     clean ? clean : "");
}

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
    return 0;
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
    .input = SCHEMA({"type": "object", "additionalProperties": false, "properties": {
        "branch": {"type": "string", "minLength": 1, "maxLength": 200,
            "description": "Branch in the box, same name on the remote (default: checked out)."},
        "remote": {"type": "string", "minLength": 1, "maxLength": 200,
            "description": "Name of a remote of the user's repository (default origin)."}}}),
    .output = SCHEMA({
        "type": "object", "required": ["url", "branch", "commit", "commits", "pushed"],
        "properties": {
        "url": {"type": "string", "description": "Of the remote repository, without credentials."},
        "branch": {"type": "string"},
        "commit": {"type": "string", "description": "What the branch points to now."},
        "commits": {"type": "integer", "description": "Commits that were new to the remote."},
        "pushed": {
            "type": "boolean", "description": "False if the remote had the commit already."}}}),
    .flags = TOOL_HOST,
    .run = git_push_run,
};
/* clang-format on */
