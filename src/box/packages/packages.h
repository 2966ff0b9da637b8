/*
 * Named groups of --net allow: @pip, @npm, @cargo, @apt.
 *
 * A group stands for the hosts that a package manager of the person uses. No host name is built in:
 * the package manager itself is asked, on the host, so that a company's mirror works as it does
 * outside of a box. Nothing of the workspace takes part: the programs run in /, and are not looked
 * for in folders of the workspace. A user name or password in an address never enters the box.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "box.h"
#include "error.h"
#include "text.h"

struct package_hosts {
    char *hosts[BOX_HOSTS_MAX]; /* HOST:PORT */
    size_t n_hosts;
    char *env[BOX_NET_ENV_MAX]; /* KEY=VALUE: how programs in the box find the same servers */
    size_t n_env;
    char credentials[128]; /* HOST whose user or password was left out; empty: none */
};

bool package_group_is_known(const char *name); /* without the @ */
const char *package_group_list(void);          /* "@pip, @npm, …" */

/* Adds the hosts of a group. `workspace` may be NULL. Takes seconds: programs run. */
int package_group_resolve(const char *name, const char *workspace, struct package_hosts *hosts,
                          struct error *err);
void package_hosts_free(struct package_hosts *h);

/* For managers.c: adds the host of a URL. With `variable` the URL without its credentials becomes
 * KEY=URL; a list of several is separated by blanks. */
int package_add_url(struct package_hosts *h, const char *url, const char *variable,
                    struct error *err);
int package_add_env(struct package_hosts *h, const char *key, const char *value, struct error *err);
/* A file of the host, if boxes see it: it lies in /etc or /usr. */
int package_add_file(struct package_hosts *h, const char *key, const char *path, struct error *err);

struct host_command {
    const char *const *argv; /* argv[0] is looked for in PATH */
    const char *const *env;  /* more KEY=VALUE, NULL-terminated, or NULL */
    const char *workspace;   /* folders of PATH below it are left out; or NULL */
    bool errors;             /* `out` gets what it prints to stderr, not stdout */
};

/* Runs a program of the person in / with their environment, for at most 20 seconds. Returns its
 * exit status; -ENOENT: there is no such program. */
int host_command_run(const struct host_command *c, struct buf *out, struct error *err);

/* A row per package manager. */
struct package_manager {
    const char *name;
    int (*resolve)(const char *workspace, struct package_hosts *h, struct error *err);
};
extern const struct package_manager PACKAGE_MANAGERS[]; /* ends with a name of NULL */
