/*
 * The kinds of forges. GitHub: docs.github.com/rest/pulls; GitLab:
 * docs.gitlab.com/api/merge_requests; Gitea and Forgejo: their /api/swagger.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "buf.h"
#include "forge.h"
#include "banned.h"

#define PATH_MAX_BYTES (8u << 10)

/* Percent-encodes all but unreserved characters; with `slashes` these stay. */
static void forge_put_encoded(struct buf *b, const char *text, bool slashes)
{
    for (; *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text) || (slashes && *text == '/'))
            buf_append(b, text, 1);
        else
            buf_printf(b, "%%%02X", (unsigned char)*text);
    }
}

static char *forge_taken(struct buf *b)
{
    char *text = buf_cstr(b);
    if (!text)
        buf_free(b);
    return text;
}

/* A member that is text, copied if it is an address that a person can open. */
static bool forge_take_url(const json_t *o, const char *member, struct forge_answer *ret)
{
    const char *url = json_string_value(json_object_get(o, member));
    if (!url || (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0) ||
        strlen(url) >= sizeof ret->url)
        return false;
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    snprintf(ret->url, sizeof ret->url, "%s", url);
    return true;
}

static bool forge_take(const json_t *answer, const char *number, const char *url,
                       struct forge_answer *ret)
{
    const json_t *one = json_is_array(answer) ? json_array_get(answer, 0) : answer;
    const json_t *n = json_object_get(one, number);
    ret->number = json_integer_value(n);
    return json_is_integer(n) && forge_take_url(one, url, ret);
}

/* GitHub */

static char *github_find_path(const struct forge_pr *p)
{
    struct buf b = BUF_INIT(PATH_MAX_BYTES);
    char owner[256];
    snprintf(owner, sizeof owner, "%.*s", (int)strcspn(p->repo, "/"), p->repo);
    buf_append_str(&b, "/repos/");
    forge_put_encoded(&b, p->repo, true);
    buf_append_str(&b, "/pulls?state=open&head=");
    forge_put_encoded(&b, owner, false);
    buf_append_str(&b, "%3A");
    forge_put_encoded(&b, p->head, false);
    buf_append_str(&b, "&base=");
    forge_put_encoded(&b, p->base, false);
    return forge_taken(&b);
}

static char *repos_create_path(const struct forge_pr *p)
{
    struct buf b = BUF_INIT(PATH_MAX_BYTES);
    buf_append_str(&b, "/repos/");
    forge_put_encoded(&b, p->repo, true);
    buf_append_str(&b, "/pulls");
    return forge_taken(&b);
}

static json_t *github_create_body(const struct forge_pr *p)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:b}", "title", p->title, "body", p->body, "head",
                     p->head, "base", p->base, "draft", p->draft);
}

static bool github_read(const json_t *answer, const struct forge_pr *p, struct forge_answer *ret)
{
    return forge_take(answer, "number", "html_url", ret);
}

/* GitLab */

static char *gitlab_path(const struct forge_pr *p, bool find)
{
    struct buf b = BUF_INIT(PATH_MAX_BYTES);
    buf_append_str(&b, "/projects/");
    forge_put_encoded(&b, p->repo, false);
    buf_append_str(&b, "/merge_requests");
    if (find) {
        buf_append_str(&b, "?state=opened&source_branch=");
        forge_put_encoded(&b, p->head, false);
        buf_append_str(&b, "&target_branch=");
        forge_put_encoded(&b, p->base, false);
    }
    return forge_taken(&b);
}

static char *gitlab_find_path(const struct forge_pr *p)
{
    return gitlab_path(p, true);
}

static char *gitlab_create_path(const struct forge_pr *p)
{
    return gitlab_path(p, false);
}

/* For forges that mark a draft in its title. */
static json_t *forge_draft_title(const struct forge_pr *p, const char *mark)
{
    return json_sprintf("%s%s", p->draft ? mark : "", p->title);
}

static json_t *gitlab_create_body(const struct forge_pr *p)
{
    return json_pack("{s:o, s:s, s:s, s:s}", "title", forge_draft_title(p, "Draft: "),
                     "description", p->body, "source_branch", p->head, "target_branch", p->base);
}

static bool gitlab_read(const json_t *answer, const struct forge_pr *p, struct forge_answer *ret)
{
    return forge_take(answer, "iid", "web_url", ret);
}

/* Gitea and Forgejo */

/* Its API cannot ask for one head branch that has a slash in it: the newest that are open are
 * looked through.
 */
static char *gitea_find_path(const struct forge_pr *p)
{
    struct buf b = BUF_INIT(PATH_MAX_BYTES);
    buf_append_str(&b, "/repos/");
    forge_put_encoded(&b, p->repo, true);
    buf_append_str(&b, "/pulls?state=open&sort=recentupdate&limit=50");
    return forge_taken(&b);
}

static json_t *gitea_create_body(const struct forge_pr *p)
{
    return json_pack("{s:o, s:s, s:s, s:s}", "title", forge_draft_title(p, "WIP: "), "body",
                     p->body, "head", p->head, "base", p->base);
}

static const char *gitea_ref(const json_t *pull, const char *end)
{
    const char *ref = json_string_value(json_object_get(json_object_get(pull, end), "ref"));
    return ref ? ref : "";
}

static bool gitea_read(const json_t *answer, const struct forge_pr *p, struct forge_answer *ret)
{
    size_t i;
    json_t *one;
    if (!json_is_array(answer))
        return forge_take(answer, "number", "html_url", ret);
    json_array_foreach(answer, i, one)
    {
        if (strcmp(gitea_ref(one, "head"), p->head) == 0 &&
            strcmp(gitea_ref(one, "base"), p->base) == 0)
            return forge_take(one, "number", "html_url", ret);
    }
    return false;
}

static const struct forge_kind GITHUB = {
    .name = "github",
    .noun = "pull request",
    .host = "github.com",
    .public_api = "https://api.github.com",
    .api_path = "/api/v3",
    .authorization = "Bearer",
    .git_user = "x-access-token",
    .token_host = "github.com",
    .variables = (const char *const[]){"GH_TOKEN", "GITHUB_TOKEN", NULL},
    .host_variables = (const char *const[]){"GH_HOST", NULL},
    .rights = "\"Contents\" and \"Pull requests\" read and write (classic: the scope repo)",
    .accept = "application/vnd.github+json",
    .find_path = github_find_path,
    .create_path = repos_create_path,
    .create_body = github_create_body,
    .read = github_read,
};

static const struct forge_kind GITLAB = {
    .name = "gitlab",
    .noun = "merge request",
    .host = "gitlab.com",
    .api_path = "/api/v4",
    .authorization = "Bearer",
    .git_user = "oauth2",
    .token_host = "gitlab.com",
    .variables = (const char *const[]){"GITLAB_TOKEN", NULL},
    .host_variables = (const char *const[]){"GITLAB_HOST", NULL},
    .rights = "the scopes api and write_repository",
    .accept = "application/json",
    .nested = true,
    .find_path = gitlab_find_path,
    .create_path = gitlab_create_path,
    .create_body = gitlab_create_body,
    .read = gitlab_read,
};

static const struct forge_kind GITEA = {
    .name = "gitea",
    .noun = "pull request",
    .host = "codeberg.org",
    .api_path = "/api/v1",
    .authorization = "token",
    .git_user = "x-access-token",
    .variables = (const char *const[]){"GITEA_TOKEN", "FORGEJO_TOKEN", NULL},
    .host_variables = (const char *const[]){"GITEA_SERVER_URL", "FORGEJO_SERVER_URL", NULL},
    .rights = "the scopes write:repository and write:issue",
    .accept = "application/json",
    .find_path = gitea_find_path,
    .create_path = repos_create_path,
    .create_body = gitea_create_body,
    .read = gitea_read,
};

const struct forge_kind *const FORGE_KINDS[] = {&GITHUB, &GITLAB, &GITEA, NULL};
