/*
 * Addresses and names of git repositories that somebody else wrote (a model, a .git/config): parsed
 * and checked before git sees them. Pure. Written by hand since git accepts far more than is safe
 * here (`ext::`, `file://`, local paths, options) and the URL parser of libcurl knows no scp-like
 * addresses.
 */
#pragma once

#include "error.h"

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
    char url[GIT_URL_MAX];  /* what git is given, without the password; of https also without the
                               user */
};

/* https://, http://, ssh:// and user@host:path. -EINVAL with the reason for anything else. */
int git_url_parse(const char *text, struct git_url *ret, struct error *err);

bool git_url_is_loopback(const struct git_url *u);

/* "host" or "host:port", as credentials and configuration name it. */
void git_url_authority(const struct git_url *u, char *ret, size_t size);

/* A branch name by the rules of git-check-ref-format, in printable ASCII; `what` names the input.
 */
int git_branch_check(const char *name, const char *what, struct error *err);
