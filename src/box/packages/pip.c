/* pip's index, by pip's own code: its configuration files, PIP_ variables, and the default built
 * into it. */
#include <errno.h>
#include <string.h>

#include "cleanup.h"
#include "packages.h"
#include "banned.h"

#define OUTPUT_MAX (64u << 10)

/* Prints "KIND VALUE" lines. What a command's own section says counts before the global one, and a
 * variable before both, as in pip. */
static const char SCRIPT[] =
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

static int take_line(struct package_hosts *h, char *line, struct error *err)
{
    char *value = strchr(line, ' ');
    if (!value)
        return 0;
    *value++ = 0;
    if (strcmp(line, "index") == 0)
        return package_add_url(h, value, "PIP_INDEX_URL", err);
    if (strcmp(line, "extra-index-url") == 0)
        return package_add_url(h, value, "PIP_EXTRA_INDEX_URL", err);
    if (strcmp(line, "find-links") == 0)
        return strstr(value, "://") ? package_add_url(h, value, "PIP_FIND_LINKS", err) : 0;
    if (strcmp(line, "storage") == 0)
        return package_add_url(h, value, NULL, err);
    if (strcmp(line, "trusted-host") == 0)
        return package_add_env(h, "PIP_TRUSTED_HOST", value, err);
    return strcmp(line, "cert") == 0 ? package_add_file(h, "PIP_CERT", value, err) : 0;
}

int package_resolve_pip(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char *const argv[] = {"python3", "-c", SCRIPT, NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
    int r =
        host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, err);
    char *text = r == 0 ? (char *)buf_cstr(&out) : NULL;
    if (r < 0)
        return r;
    if (!text)
        return error_set(
            err, ENOENT,
            "cannot ask pip for its index: python3 of this host has no pip; name the host instead,"
            " as allow:HOST");
    for (char *line; (line = strsep(&text, "\n"));)
        if ((r = take_line(h, line, err)) < 0)
            return r;
    /* By its own option pip uses the proxy also for an index on this machine, which no_proxy would
     * leave out.
     */
    return package_add_env(h, "PIP_PROXY", "http://127.0.0.1:3128", err);
}
