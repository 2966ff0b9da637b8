/* One function per package manager: it asks the program itself, and adds the hosts that it
 * names. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cleanup.h"
#include "io.h"
#include "json.h"
#include "packages.h"
#include "banned.h"

#define OUTPUT_MAX (1u << 20)

#define NAME_THE_HOST "; name the host instead, as allow:HOST"

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
static int resolve_pip(const char *workspace, struct package_hosts *h, struct error *err)
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
static int resolve_npm(const char *workspace, struct package_hosts *h, struct error *err)
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
static int ask_cargo(const char *workspace, struct buf *out, struct error *err)
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
static int resolve_cargo(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char words[] = "failed to download from `";
    _cleanup_buf_ struct buf said = BUF_INIT(OUTPUT_MAX), out = BUF_INIT(OUTPUT_MAX);
    int r = ask_cargo(workspace, &said, err);
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
static int resolve_apt(const char *workspace, struct package_hosts *h, struct error *err)
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

const char *package_group_list(void)
{
    return "@pip, @npm, @cargo, @apt";
}

const struct package_manager PACKAGE_MANAGERS[] = {
    {"pip", resolve_pip}, {"npm", resolve_npm}, {"cargo", resolve_cargo},
    {"apt", resolve_apt}, {NULL, NULL},
};
