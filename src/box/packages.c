#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "io.h"
#include "json.h"
#include "packages.h"
#include "proxy/proxy.h"
#include "thread.h"
#include "banned.h"

#define COMMAND_NS     (20 * NS_PER_S)
#define COMMAND_END_MS 1000
#define OUTPUT_MAX     (1u << 20)

#define NAME_THE_HOST "; name the host instead, as allow:HOST"

extern char **environ;

void package_hosts_free(struct package_hosts *h)
{
    for (size_t i = 0; i < h->n_hosts; i++)
        free(h->hosts[i]);
    for (size_t i = 0; i < h->n_env; i++)
        free(h->env[i]);
    *h = (struct package_hosts){0};
}

/* Takes over the text, unless the list has it already. */
static int package_list_add(char **list, size_t *n, size_t max, char *text, struct error *err)
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

static int package_add_env(struct package_hosts *h, const char *key, const char *value,
                           struct error *err)
{
    char *text = NULL;
    return package_list_add(h->env, &h->n_env, ARRAY_SIZE(h->env),
                            asprintf(&text, "%s=%s", key, value) < 0 ? NULL : text, err);
}

/* A file of the host, if boxes see it: it lies in /etc or /usr. */
static int package_add_file(struct package_hosts *h, const char *key, const char *path,
                            struct error *err)
{
    bool seen = strncmp(path, "/etc/", 5) == 0 || strncmp(path, "/usr/", 5) == 0;
    return seen ? package_add_env(h, key, path, err) : 0;
}

/* Adds the host of a URL, which goes through the parser of the allow-list. With `variable` the URL
 * without its credentials becomes KEY=URL; a list of several is separated by blanks. */
static int package_add_url(struct package_hosts *h, const char *url, const char *variable,
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
    int r = package_list_add(h->hosts, &h->n_hosts, ARRAY_SIZE(h->hosts), strdup(text), err);
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

struct host_command {
    const char *const *argv; /* argv[0] is looked for in PATH */
    const char *const *env;  /* more KEY=VALUE, NULL-terminated, or NULL */
    const char *workspace;   /* folders of PATH below it are left out; or NULL */
    bool errors;             /* `out` gets what it prints to stderr, not stdout */
};

/* "PATH=" and the folders of PATH that are absolute and not in the workspace, whose files any
 * program may have written. */
static char *command_path(const char *workspace)
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

/* Runs a program of the user in / with their environment, for at most 20 seconds. Returns its exit
 * status; -ENOENT: there is no such program. */
static int host_command_run(const struct host_command *c, struct buf *out, struct error *err)
{
    struct child child = CHILD_NONE;
    size_t n = 0, have = 0, extra = 0;
    while (environ[have])
        have++;
    while (c->env && c->env[extra])
        extra++;
    _cleanup_free_ char *path = command_path(c->workspace);
    _cleanup_free_ char **env = path ? calloc(have + extra + 3, sizeof *env) : NULL;
    if (!env)
        return error_set(err, ENOMEM, "no memory");
    env[n++] = path;
    env[n++] = (char *)"PWD=/";
    for (size_t i = 0; i < extra; i++)
        env[n++] = (char *)c->env[i];
    for (size_t i = 0; i < have; i++)
        if (strncmp(environ[i], "PATH=", 5) != 0 && strncmp(environ[i], "PWD=", 4) != 0)
            env[n++] = environ[i];
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

/* Prints "KIND VALUE" lines. What a command's own section says counts before the global one, and a
 * variable before both, as in pip. */
static const char PIP_SCRIPT[] =
    "from urllib.parse import urlsplit\n"
    "from pip._internal.configuration import Configuration\n"
    "from pip._internal.models.index import PyPI\n"
    "c = Configuration(isolated=False)\n"
    "c.load()\n"
    "found = {}\n"
    "for section in ('global', 'download', 'install', ':env:'):\n"
    "    for key, value in c.items():\n"
    "        items = value.items() if isinstance(value, dict) else [(key, value)]\n"
    "        for name, text in items:\n"
    "            where, _, option = name.partition('.')\n"
    "            if where == section:\n"
    "                found[option.replace('_', '-')] = text\n"
    "index = found.get('index-url') or PyPI.simple_url\n"
    "print('index', index)\n"
    "hosts = [index] + found.get('extra-index-url', '').split() + found.get('find-links', "
    "'').split()\n"
    "for kind in ('extra-index-url', 'find-links', 'trusted-host'):\n"
    "    for value in found.get(kind, '').split():\n"
    "        print(kind, value)\n"
    "if any(urlsplit(u).hostname == urlsplit(PyPI.simple_url).hostname for u in hosts):\n"
    "    print('storage', 'https://' + PyPI.file_storage_domain)\n"
    "if found.get('cert'):\n"
    "    print('cert', found['cert'])\n";

/* pip's index, by pip's own code: its configuration files, PIP_ variables, and the default built
 * into it. */
static int pip_resolve(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char *const argv[] = {"python3", "-c", PIP_SCRIPT, NULL};
    static const struct {
        const char *kind, *variable;
    } URLS[] = {{"index", "PIP_INDEX_URL"},
                {"extra-index-url", "PIP_EXTRA_INDEX_URL"},
                {"find-links", "PIP_FIND_LINKS"},
                {"storage", NULL}};
    _cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
    int r =
        host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, err);
    if (r < 0)
        return r;
    char *text = r == 0 ? buf_cstr(&out) : NULL;
    if (!text)
        return error_set(
            err, ENOENT,
            "cannot ask pip for its index: python3 of this host has no pip" NAME_THE_HOST);
    for (char *line; r == 0 && (line = strsep(&text, "\n"));) {
        char *value = strchr(line, ' ');
        if (!value)
            continue;
        *value++ = 0;
        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(URLS); i++)
            if (strcmp(line, URLS[i].kind) == 0)
                r = package_add_url(h, value, URLS[i].variable, err);
        if (strcmp(line, "trusted-host") == 0)
            r = package_add_env(h, "PIP_TRUSTED_HOST", value, err);
        if (strcmp(line, "cert") == 0)
            r = package_add_file(h, "PIP_CERT", value, err);
    }
    /* By its own option pip uses the proxy also for an index on this machine, which no_proxy would
     * leave out. */
    return r < 0 ? r : package_add_env(h, "PIP_PROXY", "http://127.0.0.1:3128", err);
}

/* npm's registries, as npm itself prints its configuration; secrets in it are shown as
 * (protected). */
static int npm_resolve(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char *const argv[] = {"npm", "config", "list", "--json", NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
    const char *key;
    json_t *value;
    int r =
        host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, err);
    if (r < 0)
        return r;
    _cleanup_json_ json_t *config =
        r == 0 && out.len ? json_loadb((const char *)out.data, out.len, 0, NULL) : NULL;
    if (!config)
        return error_set(err, EIO, "'npm config list --json' failed on this host with status %d",
                         r);
    const char *registry = json_string_value(json_object_get(config, "registry"));
    if (!registry)
        return error_set(err, ENOENT, "npm names no registry" NAME_THE_HOST);
    r = package_add_url(h, registry, "npm_config_registry", err);
    json_object_foreach(config, key, value)
    {
        size_t n = strlen(key);
        bool scoped = key[0] == '@' && n > 9 && strcmp(key + n - 9, ":registry") == 0;
        if (r == 0 && scoped && json_is_string(value))
            r = package_add_url(h, json_string_value(value), NULL, err);
    }
    const char *cafile = json_string_value(json_object_get(config, "cafile"));
    return r < 0 || !cafile ? r : package_add_file(h, "npm_config_cafile", cafile, err);
}

static const char CARGO_MANIFEST[] =
    "[package]\nname = \"hutch-probe\"\nversion = \"0.0.0\"\nedition = \"2018\"\n"
    "[lib]\npath = \"/dev/null\"\n[dependencies]\nlibc = \"*\"\n";

/* What cargo complains about when it fetches a crate through a proxy that does not exist. */
static int cargo_ask(const char *workspace, struct buf *out, struct error *err)
{
    static const char *const env[] = {"CARGO_NET_RETRY=0", "CARGO_NET_OFFLINE=false",
                                      "CARGO_HTTP_PROXY=http://127.0.0.1:9",
                                      "CARGO_TERM_COLOR=never", NULL};
    char folder[] = "/tmp/hutch-cargo-XXXXXX", manifest[64], lock[64];
    if (!mkdtemp(folder))
        return error_errno(err, errno, "cannot make a temporary folder");
    snprintf(manifest, sizeof manifest, "%s/Cargo.toml", folder);
    snprintf(lock, sizeof lock, "%s/Cargo.lock", folder);
    const char *const argv[] = {"cargo", "fetch", "--manifest-path", manifest, NULL};
    int fd = open(manifest, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : io_write_all(fd, CARGO_MANIFEST, sizeof CARGO_MANIFEST - 1);
    cleanup_close(&fd);
    if (r < 0)
        error_errno(err, -r, "cannot write %s", manifest);
    else
        r = host_command_run(
            &(struct host_command){
                .argv = argv, .env = env, .workspace = workspace, .errors = true},
            out, err);
    unlink(manifest);
    unlink(lock);
    rmdir(folder);
    return r;
}

/*
 * cargo's registry. No stable command prints it, least of all the default one. So cargo is asked to
 * fetch a crate through a proxy that does not exist, and names in its complaint the index that it
 * tried; the index then says in its config.json where crates are downloaded from, which may be
 * another host. Where that cannot be asked, their download will be refused, and the refusal names
 * the host.
 */
static int cargo_resolve(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char words[] = "failed to download from `";
    _cleanup_buf_ struct buf said = BUF_INIT(OUTPUT_MAX), out = BUF_INIT(OUTPUT_MAX);
    int r = cargo_ask(workspace, &said, err);
    if (r < 0)
        return r;
    const char *text = buf_cstr(&said), *at = text ? strstr(text, words) : NULL;
    const char *begin = at ? at + sizeof words - 1 : NULL, *end = at ? strchr(begin, '`') : NULL;
    _cleanup_free_ char *url = end ? strndup(begin, (size_t)(end - begin)) : NULL;
    if (!url)
        return error_set(err, ENOENT, "cargo does not say which registry it uses" NAME_THE_HOST);
    r = package_add_url(h, url, NULL, err);
    if (r < 0)
        return r;
    const char *const argv[] = {"curl", "-fsS", "--proto", "=http,https", "--max-time",
                                "15",   "--",   url,       NULL};
    r = host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, NULL);
    _cleanup_json_ json_t *config =
        r == 0 && out.len ? json_loadb((const char *)out.data, out.len, 0, NULL) : NULL;
    const char *downloads = json_string_value(json_object_get(config, "dl"));
    return downloads ? package_add_url(h, downloads, NULL, err) : 0;
}

/* apt's archives, as apt itself reads its sources in all their formats. */
static int apt_resolve(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char *const argv[] = {"apt-get", "indextargets", "--format", "$(SITE)", NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
    int r =
        host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, err);
    if (r < 0)
        return r;
    char *text = r == 0 ? buf_cstr(&out) : NULL;
    for (char *line; text && (line = strsep(&text, "\n"));)
        if ((r = package_add_url(h, line, NULL, err)) < 0)
            return r;
    if (h->n_hosts == 0)
        return error_set(err, ENOENT, "apt has no source on the network" NAME_THE_HOST);
    return 0;
}

static const struct package_manager {
    const char *name;
    int (*resolve)(const char *workspace, struct package_hosts *h, struct error *err);
} PACKAGE_MANAGERS[] = {
    {"pip", pip_resolve}, {"npm", npm_resolve}, {"cargo", cargo_resolve},
    {"apt", apt_resolve}, {NULL, NULL},
};

static const struct package_manager *package_manager_find(const char *name)
{
    for (const struct package_manager *m = PACKAGE_MANAGERS; m->name; m++)
        if (strcmp(m->name, name) == 0)
            return m;
    return NULL;
}

bool package_group_is_known(const char *name)
{
    return package_manager_find(name) != NULL;
}

int package_group_resolve(const char *name, const char *workspace, struct package_hosts *hosts,
                          struct error *err)
{
    const struct package_manager *m = package_manager_find(name);
    if (!m)
        return error_set(err, EINVAL, "there is no group '@%.32s'; the groups are " PACKAGE_GROUPS,
                         name);
    int r = m->resolve(workspace, hosts, err);
    return r < 0 ? error_wrap(err, "@%s", name) : 0;
}
