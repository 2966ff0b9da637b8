#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "cleanup.h"
#include "packages.h"
#include "proxy/allow.h"
#include "thread.h"
#include "banned.h"

#define COMMAND_NS     (20 * NS_PER_S)
#define COMMAND_END_MS 1000

extern char **environ;

static const struct package_manager *manager_find(const char *name)
{
    for (const struct package_manager *m = PACKAGE_MANAGERS; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

bool package_group_is_known(const char *name)
{
    return manager_find(name) != NULL;
}

int package_group_resolve(const char *name, const char *workspace, struct package_hosts *hosts,
                          struct error *err)
{
    const struct package_manager *m = manager_find(name);
    if (!m)
        return error_set(err, EINVAL, "there is no group '@%.32s'; the groups are %s", name,
                         package_group_list());
    int r = m->resolve(workspace, hosts, err);
    return r < 0 ? error_wrap(err, "@%s", name) : 0;
}

void package_hosts_free(struct package_hosts *h)
{
    for (size_t i = 0; i < h->n_hosts; i++)
        free(h->hosts[i]);
    for (size_t i = 0; i < h->n_env; i++)
        free(h->env[i]);
    *h = (struct package_hosts){0};
}

/* Takes over the text, unless the list has it already. */
static int list_add(char **list, size_t *n, size_t max, char *text, struct error *err)
{
    for (size_t i = 0; text && i < *n; i++)
        if (strcmp(list[i], text) == 0) {
            free(text);
            return 0;
        }
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    if (*n == max) {
        free(text);
        return error_set(err, E2BIG, "it has more than %zu entries", max);
    }
    list[(*n)++] = text;
    return 0;
}

int package_add_env(struct package_hosts *h, const char *key, const char *value, struct error *err)
{
    char *text = NULL;
    return list_add(h->env, &h->n_env, ARRAY_SIZE(h->env),
                    asprintf(&text, "%s=%s", key, value) < 0 ? NULL : text, err);
}

int package_add_file(struct package_hosts *h, const char *key, const char *path, struct error *err)
{
    bool seen = strncmp(path, "/etc/", 5) == 0 || strncmp(path, "/usr/", 5) == 0;
    return seen ? package_add_env(h, key, path, err) : 0;
}

/* Strict where it matters: the host goes through the parser of the allow-list. */
int package_add_url(struct package_hosts *h, const char *url, const char *variable,
                    struct error *err)
{
    const char *scheme = strstr(url, "://");
    bool https =
        strncasecmp(url, "https://", 8) == 0 || strncasecmp(url, "sparse+https://", 15) == 0;
    bool http = strncasecmp(url, "http://", 7) == 0 || strncasecmp(url, "sparse+http://", 14) == 0;
    if (!scheme || !(https || http))
        return 0; /* a file, a folder, a CD: nothing of the network */

    const char *authority = scheme + 3;
    size_t n = strcspn(authority, "/?#");
    const char *at = memrchr(authority, '@', n), *host = at ? at + 1 : authority;
    int host_len = (int)(n - (size_t)(host - authority));
    struct proxy_target target;
    char text[PROXY_TARGET_TEXT];
    if (proxy_target_parse(host, (size_t)host_len, &target) < 0)
        return error_set(err, EINVAL, "'%.*s' is not a host name", host_len < 200 ? host_len : 200,
                         host);
    if (at)
        snprintf(h->credentials, sizeof h->credentials, "%.*s", host_len < 100 ? host_len : 100,
                 host);
    target.port = target.port ? target.port : https ? 443 : 80;
    proxy_target_format(&target, text);
    int r = list_add(h->hosts, &h->n_hosts, ARRAY_SIZE(h->hosts), strdup(text), err);
    if (r < 0 || !variable)
        return r;

    /* KEY's value so far, with one more behind it. */
    _cleanup_free_ char *clean = NULL;
    if (asprintf(&clean, "%.*s%s", (int)(authority - url), url, host) < 0)
        return error_set(err, ENOMEM, "no memory");
    size_t key_len = strlen(variable);
    for (size_t i = 0; i < h->n_env; i++) {
        char *longer = NULL;
        if (strncmp(h->env[i], variable, key_len) != 0 || h->env[i][key_len] != '=')
            continue;
        if (asprintf(&longer, "%s %s", h->env[i], clean) < 0)
            return error_set(err, ENOMEM, "no memory");
        free(h->env[i]);
        h->env[i] = longer;
        return 0;
    }
    return package_add_env(h, variable, clean, err);
}

/* "PATH=" and the folders of PATH that are absolute and not in the workspace, whose files anybody
 * may have written. */
static char *trusted_path(const char *workspace)
{
    const char *given = getenv("PATH");
    size_t n = workspace ? strlen(workspace) : 0;
    _cleanup_free_ char *copy = strdup(given ? given : "/usr/local/bin:/usr/bin:/bin");
    char *path = copy ? malloc(strlen(copy) + sizeof "PATH=") : NULL;
    if (!path)
        return NULL;
    char *end = stpcpy(path, "PATH=");
    for (char *rest = copy, *folder; (folder = strsep(&rest, ":"));) {
        _cleanup_free_ char *real = folder[0] == '/' ? realpath(folder, NULL) : NULL;
        if (!real || (n && strncmp(real, workspace, n) == 0 && (!real[n] || real[n] == '/')))
            continue;
        if (end[-1] != '=')
            *end++ = ':';
        end = stpcpy(end, folder);
    }
    return path;
}

/* The environment with another PATH and more variables; all strings are borrowed. */
static char **command_env(char *path, const char *const *more)
{
    size_t n = 0, have = 0, extra = 0;
    while (environ[have])
        have++;
    while (more && more[extra])
        extra++;
    char **env = path ? calloc(have + extra + 3, sizeof *env) : NULL;
    if (!env)
        return NULL;
    env[n++] = path;
    env[n++] = (char *)"PWD=/";
    for (size_t i = 0; i < extra; i++)
        env[n++] = (char *)more[i];
    for (size_t i = 0; i < have; i++)
        if (strncmp(environ[i], "PATH=", 5) != 0 && strncmp(environ[i], "PWD=", 4) != 0)
            env[n++] = environ[i];
    return env;
}

/* All that it prints to `wanted`, until the end or the deadline; the other stream is thrown
 * away. */
static int command_read(int wanted, int other, struct buf *out)
{
    int64_t deadline = clock_now() + COMMAND_NS;
    char data[4096];
    while (clock_now() < deadline) {
        struct pollfd fds[] = {{.fd = wanted, .events = POLLIN}, {.fd = other, .events = POLLIN}};
        if (poll(fds, ARRAY_SIZE(fds), clock_poll_ms(deadline)) <= 0)
            continue;
        if (fds[1].revents && read(other, data, sizeof data) == 0)
            other = -1;
        ssize_t n = fds[0].revents ? read(wanted, data, sizeof data) : -1;
        if (n == 0)
            return 0;
        if (n > 0 && buf_append(out, data, (size_t)n) < 0)
            return -E2BIG;
        if (n < 0 && fds[0].revents && errno != EINTR && errno != EAGAIN)
            return -errno;
    }
    return -ETIMEDOUT;
}

int host_command_run(const struct host_command *c, struct buf *out, struct error *err)
{
    struct child child = CHILD_NONE;
    _cleanup_free_ char *path = trusted_path(c->workspace);
    _cleanup_free_ char **env = command_env(path, c->env);
    if (!env)
        return error_set(err, ENOMEM, "no memory");
    const struct child_options o = {
        .command = c->argv[0], .argv = (char *const *)c->argv, .env = env, .cwd = "/"};
    int r = child_start(&o, &child, err);
    if (r < 0)
        return r;
    close(TAKE_FD(child.in));
    r = command_read(c->errors ? child.err : child.out, c->errors ? child.out : child.err, out);
    int status = child_end(&child, r < 0 ? 0 : COMMAND_END_MS);
    if (r < 0)
        return error_errno(err, -r, "cannot read what %s prints", c->argv[0]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}
