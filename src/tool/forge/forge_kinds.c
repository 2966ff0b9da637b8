/*
 * The kinds of forges. GitHub: docs.github.com/rest/pulls; GitLab:
 * docs.gitlab.com/api/merge_requests; Gitea and Forgejo: their /api/swagger.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "forge.h"
#include "json.h"
#include "text.h"
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

char *forge_path(const struct forge_pr *p, const char *form)
{
    struct buf b = BUF_INIT(PATH_MAX_BYTES);
    char owner[256];
    snprintf(owner, sizeof owner, "%.*s", (int)strcspn(p->repo, "/"), p->repo);
    for (; *form; form++) {
        if (*form != '%') {
            buf_append(&b, form, 1);
            continue;
        }
        if (*++form == '%')
            buf_append(&b, form, 1);
        else
            forge_put_encoded(&b,
                              *form == 'o'   ? owner
                              : *form == 'h' ? p->head
                              : *form == 'b' ? p->base
                                             : p->repo,
                              *form == 'r');
    }
    char *text = buf_cstr(&b);
    if (!text)
        buf_free(&b);
    return text;
}

json_t *forge_body(const struct forge_kind *k, const struct forge_pr *p)
{
    const char *mark = k->draft_mark;
    return json_pack("{s:o, s:s, s:s, s:s, s:o*}", "title",
                     json_sprintf("%s%s", mark && p->draft ? mark : "", p->title), k->body_member,
                     p->body, k->head_member, p->head, k->base_member, p->base, "draft",
                     mark ? NULL : json_boolean(p->draft));
}

/* Does a pull request in a list go from this branch to that one? */
static bool forge_is_for(const json_t *one, const struct forge_pr *p)
{
    const json_t *head = json_object_get(one, "head"), *base = json_object_get(one, "base");
    return strcmp(json_get_string_or(head, "ref", ""), p->head) == 0 &&
           strcmp(json_get_string_or(base, "ref", ""), p->base) == 0;
}

bool forge_read(const struct forge_kind *k, const json_t *answer, const struct forge_pr *p,
                struct forge_answer *ret)
{
    const json_t *one = json_is_array(answer) ? json_array_get(answer, 0) : answer;
    for (size_t i = 0; k->lists_all && json_is_array(answer) && one && !forge_is_for(one, p);)
        one = json_array_get(answer, ++i);
    const char *url = json_get_string(one, k->url_member);
    if (!url || (strncmp(url, "https://", 8) != 0 && strncmp(url, "http://", 7) != 0) ||
        strlen(url) >= sizeof ret->url || !json_is_integer(json_object_get(one, k->number_member)))
        return false;
    for (const char *c = url; *c; c++)
        if (*c <= ' ' || *c >= 0x7f)
            return false;
    snprintf(ret->url, sizeof ret->url, "%s", url);
    ret->number = json_get_integer(one, k->number_member);
    return true;
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
    .find_path = "/repos/%r/pulls?state=open&head=%o%%3A%h&base=%b",
    .create_path = "/repos/%r/pulls",
    .body_member = "body",
    .head_member = "head",
    .base_member = "base",
    .number_member = "number",
    .url_member = "html_url",
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
    .find_path = "/projects/%R/merge_requests?state=opened&source_branch=%h&target_branch=%b",
    .create_path = "/projects/%R/merge_requests",
    .body_member = "description",
    .head_member = "source_branch",
    .base_member = "target_branch",
    .draft_mark = "Draft: ",
    .number_member = "iid",
    .url_member = "web_url",
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
    /* Its API cannot ask for a head branch that has a slash in it: the newest that are open are
     * looked through. */
    .find_path = "/repos/%r/pulls?state=open&sort=recentupdate&limit=50",
    .create_path = "/repos/%r/pulls",
    .lists_all = true,
    .body_member = "body",
    .head_member = "head",
    .base_member = "base",
    .draft_mark = "WIP: ",
    .number_member = "number",
    .url_member = "html_url",
};

const struct forge_kind *const FORGE_KINDS[] = {&GITHUB, &GITLAB, &GITEA, NULL};
