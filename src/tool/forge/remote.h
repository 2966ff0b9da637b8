/*
 * A git server that the host talks to with the person's credentials, for host-side tools. git runs
 * in a repository of ours only, never in the workspace; the person's own git configuration and
 * credential helpers count.
 */
#pragma once

#include "config.h"
#include "forge.h"
#include "git_transfer.h"
#include "host.h"

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
 * What git_push and create_pr share: a branch of the box, on its way to a remote of the person's
 * repository.
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
