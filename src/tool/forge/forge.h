/*
 * Servers that the host talks to with the person's credentials, for host-side tools: addresses of
 * git repositories; forges, which hold repositories and pull requests (GitHub, GitLab, Gitea), one
 * row per kind; remotes; and branches on their way to one.
 */
#pragma once

#include <jansson.h>

#include "config.h"
#include "error.h"
#include "git_transfer.h"
#include "session.h"

/*
 * Addresses and names of git repositories that somebody else wrote (a model, a .git/config): parsed
 * and checked before git sees them. Pure. Written by hand since git accepts far more than is safe
 * here (`ext::`, `file://`, local paths, options) and the URL parser of libcurl knows no scp-like
 * addresses.
 */
#define GIT_URL_MAX    2000
#define GIT_BRANCH_MAX 200

enum git_scheme { GIT_HTTPS, GIT_HTTP, GIT_SSH };

struct git_url {
    enum git_scheme scheme;
    char user[128];         /* empty: none */
    char password[1024];    /* empty: none; never part of `url` */
    char host[256];         /* lower case; IPv6 without brackets */
    unsigned port;          /* 0: the scheme's */
    char path[GIT_URL_MAX]; /* "owner/repo": no slash at either end, no ".git" */
    /* what git is given, without the password; of https also without the user */
    char url[GIT_URL_MAX];
};

/* https://, http://, ssh:// and user@host:path. -EINVAL with the reason for anything else. */
int git_url_parse(const char *text, struct git_url *ret, struct error *err);

bool git_url_is_loopback(const struct git_url *u);

/* "host" or "host:port", as credentials and configuration name it. */
void git_url_authority(const struct git_url *u, char *ret, size_t size);

/* A branch name by the rules of git-check-ref-format, in printable ASCII; `what` names the
 * input. */
int git_branch_check(const char *name, const char *what, struct error *err);

/* --- forges --- */

#define FORGE_API_MAX   512
#define FORGE_TOKEN_MAX 4096

/* What create_pr asks for. */
struct forge_pr {
    const char *repo; /* "owner/name"; GitLab also "group/sub/name" */
    const char *head, *base;
    const char *title, *body;
    bool draft;
};

/* A pull request as the forge describes it. */
struct forge_answer {
    json_int_t number;
    char url[GIT_URL_MAX];
};

struct forge_kind {
    const char *name;                  /* in the configuration */
    const char *noun;                  /* what it calls a pull request */
    const char *host;                  /* the public one; NULL: none */
    const char *public_api;            /* its API; NULL: as of any other host */
    const char *api_path;              /* of any other host: https://HOST + this */
    const char *authorization;         /* scheme of the Authorization header */
    const char *git_user;              /* user name that goes with a token over HTTPS */
    const char *const *variables;      /* of the environment, with a token; ended by NULL */
    const char *token_host;            /* what that token is for; NULL: only what follows says */
    const char *const *host_variables; /* of the environment: the host that the token is for */
    const char *rights;                /* what a token must allow */
    const char *accept;
    bool nested;                         /* a repository's name may have more than two parts */
    const char *find_path, *create_path; /* behind the API's base: forms for forge_path */
    bool lists_all;                      /* find_path gives all that are open */
    const char *body_member, *head_member, *base_member; /* of what is sent to create one */
    const char *draft_mark; /* in front of a draft's title; NULL: there is a member for it */
    const char *number_member, *url_member; /* of an answer */
};

extern const struct forge_kind *const FORGE_KINDS[]; /* ended by NULL */

/* A path of the API from its form, in which %r is the repository, %R the same with its slashes
 * encoded, %o its owner, %h and %b the branches. A new string, or NULL. */
char *forge_path(const struct forge_pr *p, const char *form);

/* What is sent to create one. */
json_t *forge_body(const struct forge_kind *k, const struct forge_pr *p);

/* The answer to either: an object, or the list of those that were found. False if there is none, or
 * none whose address a person can open. */
bool forge_read(const struct forge_kind *k, const json_t *answer, const struct forge_pr *p,
                struct forge_answer *ret);

struct forge {
    const struct forge_kind *kind;
    char authority[300]; /* host[:port], as tokens name it */
    char api[FORGE_API_MAX];
    const json_t *settings; /* the person's, under "forges"; or NULL; borrowed */
};

/* Which forge a repository belongs to. `own` is the person's configuration, never the workspace's.
 * -ENOENT with the text set if the kind of the host's forge is not known. */
int forge_find(const struct git_url *u, const json_t *own, struct forge *ret, struct error *err);

/* May http:// be used for this host? Only on this machine, or where the person's configuration says
 * so. */
bool forge_allows_http(const struct git_url *u, const json_t *own);

struct forge_token {
    char text[FORGE_TOKEN_MAX];
    char source[128]; /* where it was found, for messages */
    bool explicit; /* the person named it for this host: it goes before git's credential helpers */
};

/* The token for a forge's host: configuration, environment, the files of gh, glab and tea. 0, or
 * -ENOENT if there is none in these places. */
int forge_token_find(const struct forge *f, const json_t *own, struct forge_token *ret,
                     struct error *err);

/* Where the person can put a token, for messages. */
void forge_token_advice(const struct forge *f, char *ret, size_t size);

/* The files of gh, glab and tea, which are YAML:
 *     gh    HOST: {oauth_token: …}; absent where the token is in the desktop's keyring
 *     glab  hosts: {HOST: {token: …}}
 *     tea   logins: [{url: …, token: …}] */
enum forge_file { FORGE_FILE_GH, FORGE_FILE_GLAB, FORGE_FILE_TEA };

/* The token of a host in the text of such a file. False: there is none. */
bool forge_file_token(enum forge_file which, const char *text, size_t n, const char *host,
                      char *ret, size_t size);

/* One call of the API; `body` NULL: GET. *ret_answer is the JSON of an answer, or NULL if it has
 * none. */
int forge_call(const struct forge *f, const struct forge_token *t, const char *path,
               const json_t *body, int cancel, json_int_t *ret_status, json_t **ret_answer,
               struct error *err);

/* What went wrong, and what to do, for a status that is no success. */
int forge_explain(const struct forge *f, const struct forge_token *t, json_int_t status,
                  const json_t *answer, struct error *err);

/* Replaces the secret in a text by asterisks, in place. */
void forge_redact(char *text, const char *secret);

/*
 * --- remotes ---
 *
 * A git server. git runs in a repository of ours only, never in the workspace; the person's own git
 * configuration and credential helpers count.
 */

struct remote {
    struct git_url url;
    struct config config;     /* the person's */
    struct forge forge;       /* kind NULL: it is none that we know */
    struct forge_token token; /* empty: git's credential helpers may have one */
};

/* Parses and checks the address, and looks for a token. */
int remote_open(const char *url, struct remote *ret, struct error *err);
void remote_free(struct remote *r);
#define _cleanup_remote_ _cleanup_(remote_free)

/* The address of a remote of the person's repository, as git would push to it. */
#define REMOTE_ADDRESS_SIZE (2 * GIT_URL_MAX)
int remote_address(const struct git_repo *repo, const char *name, char ret[REMOTE_ADDRESS_SIZE],
                   struct error *err);

/* Does any remote of the repository live on this host? */
bool remote_host_is_known(const struct git_repo *repo, const struct git_url *u);

/* One git command that may reach the network. As git_run, with 0 or a negative errno; `file_max`
 * bounds each file that it writes (0: not). */
struct remote_call {
    const char *git_dir;
    const char *const *args;
    uint64_t file_max;
    int64_t timeout_ns;
    int cancel;
};
int remote_git(const struct remote *r, const struct remote_call *c, struct buf *ret_out,
               struct error *err);

struct remote_heads {
    char standard[GIT_BRANCH_MAX + 1]; /* the default branch; empty: the repository has none yet */
    char standard_id[GIT_ID_SIZE];
    char branch_id[GIT_ID_SIZE]; /* empty: the branch is not there */
};
int remote_heads(const struct remote *r, const char *git_dir, const char *branch, int cancel,
                 struct remote_heads *ret, struct error *err);

/* A token for the API, asking `git credential fill` if nothing else has one. */
int remote_api_token(struct remote *r, int cancel, struct error *err);

/*
 * --- publishing: what git_push and create_pr share (git_push.c) ---
 *
 * A branch of the box, on its way to a remote of the person's repository.
 *
 * publish_prepare() takes the box's commits into a quarantine and checks all that can be checked
 * without sending anything: the branch's name, that it is not the remote's default branch, that it
 * is a fast-forward. publish_push() sends exactly the commit that was checked and shown.
 */
#define PUBLISH_PREFIX "hutch/"

struct publish {
    struct git_repo repo;
    struct remote remote;
    struct git_transfer box;
    struct remote_heads heads;
    char branch[GIT_BRANCH_MAX + 1];
    char id[GIT_ID_SIZE]; /* the commit */
    size_t commits;       /* that the remote does not have, as far as is known here */
    struct buf summary;   /* where to, which commits, which files; safe to show */
};

/* `branch` NULL: the one that is checked out in the box. */
int publish_prepare(struct tool_call *c, const char *branch, const char *remote,
                    struct publish *ret, struct error *err);
void publish_free(struct publish *p);
#define _cleanup_publish_ _cleanup_(publish_free)

/* Is there anything to push? */
bool publish_is_due(const struct publish *p);
int publish_push(const struct publish *p, int cancel, struct error *err);
