/*
 * A git server that the host talks to with the person's credentials, for host-side tools. git runs
 * in a repository of ours only, never in the workspace; the person's own git configuration and
 * credential helpers count.
 */
#pragma once

#include "config.h"
#include "forge.h"
#include "git_repo.h"

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

/* The address of a remote of the person's repository, as git would push to it; a new string. */
int remote_address(const struct git_repo *repo, const char *name, char **ret, struct error *err);

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
