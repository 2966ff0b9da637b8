/*
 * Forges: servers that hold git repositories and pull requests. One row per kind (forge_kinds.c);
 * which kind a host is, its token and the calls are the same for all.
 */
#pragma once

#include <jansson.h>

#include "error.h"

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
