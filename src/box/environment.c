/* The environment of a command: made up, with what was asked for; nothing of the host's. */
#include <stdlib.h>
#include <string.h>

#include "exec.h"
#include "weaken.h"
#include "banned.h"

extern char **environ;

static const char *const MADE_UP[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/home/agent",
    "USER=agent",
    "LOGNAME=agent",
    "SHELL=/bin/bash",
    "LANG=C.UTF-8",
    "TMPDIR=/tmp",
    "PAGER=cat",
    "HUTCH=1",
    NULL,
};

/* Programs that would page, prompt or open an editor are told not to; and caches that nobody asked
 * for stay out of the workspace, where they would stand among the changes to be looked at. */
static const char *const UNATTENDED[] = {
    "GIT_PAGER=cat",
    "MANPAGER=cat",
    "SYSTEMD_PAGER=cat",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_MERGE_AUTOEDIT=no",
    "DEBIAN_FRONTEND=noninteractive",
    "PIP_NO_INPUT=1",
    "NPM_CONFIG_YES=true",
    "PYTHONPYCACHEPREFIX=/tmp/.pycache",
    "PYTEST_ADDOPTS=-o cache_dir=/tmp/.pytest_cache",
    NULL,
};

/* Whether the list sets the variable that `entry` sets. */
static bool environment_sets(char *const *env, const char *entry)
{
    size_t n = strcspn(entry, "=");
    for (; env && *env; env++)
        if (strncmp(entry, *env, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

static void environment_put_list(struct buf *b, char *const *env, char *const *over,
                                 char *const *over_too)
{
    for (; env && *env; env++)
        if (!environment_sets(over, *env) && !environment_sets(over_too, *env) &&
            !environment_sets(env + 1, *env))
            wire_put_str(b, WIRE_K_ENV, *env);
}

void environment_put(struct buf *b, char *const *box_env, char *const *command_env, bool tty)
{
    if (weakened("env"))
        environment_put_list(b, environ, box_env, command_env);
    environment_put_list(b, (char *const *)MADE_UP, box_env, command_env);
    environment_put_list(b, box_env, command_env, NULL);
    environment_put_list(b, command_env, NULL, NULL);

    /* The one word about the host's terminal that programs need to draw on it. */
    const char *term = tty ? getenv("TERM") : NULL;
    char text[64] = "TERM=";
    size_t n =
        term ? strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+._")
             : 0;
    if (!n || term[n] || n >= sizeof text - 5)
        term = "dumb", n = 4;
    memcpy(text + 5, term, n + 1);
    if (!environment_sets(box_env, text) && !environment_sets(command_env, text))
        wire_put_str(b, WIRE_K_ENV, text);
}

void environment_put_shell(struct buf *b, char *const *box_env, char *const *command_env)
{
    environment_put_list(b, (char *const *)UNATTENDED, box_env, command_env);
    environment_put(b, box_env, command_env, false);
}
