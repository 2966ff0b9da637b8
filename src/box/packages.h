/*
 * Named groups of --net allow: @pip, @npm, @cargo, @apt.
 *
 * A group stands for the hosts that a package manager of the user uses. No host name is built in:
 * the package manager itself is asked, on the host, so that a company's mirror works as it does
 * outside of a box. Nothing of the workspace takes part: the programs run in /, and are not looked
 * for in folders of the workspace. A user name or password in an address never enters the box.
 */
#pragma once

#include "box.h"

#define PACKAGE_GROUPS "@pip, @npm, @cargo, @apt"

struct package_hosts {
    char *hosts[BOX_HOSTS_MAX]; /* HOST:PORT */
    size_t n_hosts;
    char *env[BOX_NET_ENV_MAX]; /* KEY=VALUE: how programs in the box find the same servers */
    size_t n_env;
    char credentials[128]; /* HOST whose user or password was left out; empty: none */
};

bool package_group_is_known(const char *name); /* without the @ */

/* Adds the hosts of a group. `workspace` may be NULL. Takes seconds: programs run. */
int package_group_resolve(const char *name, const char *workspace, struct package_hosts *hosts,
                          struct error *err);
void package_hosts_free(struct package_hosts *h);
