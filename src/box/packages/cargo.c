/*
 * cargo's registry. No stable command prints it, least of all the default one. So cargo is asked to
 * fetch a crate through a proxy that does not exist, and names in its complaint the index that it
 * tried; the index then says in its config.json where crates are downloaded from.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "io.h"
#include "packages.h"
#include "banned.h"

#define OUTPUT_MAX (64u << 10)

static const char MANIFEST[] =
    "[package]\nname = \"hutch-probe\"\nversion = \"0.0.0\"\nedition = \"2018\"\n"
    "[lib]\npath = \"/dev/null\"\n[dependencies]\nlibc = \"*\"\n";

static int ask_cargo(const char *workspace, const char *folder, struct buf *out, struct error *err)
{
    static const char *const env[] = {"CARGO_NET_RETRY=0", "CARGO_NET_OFFLINE=false",
                                      "CARGO_HTTP_PROXY=http://127.0.0.1:9",
                                      "CARGO_TERM_COLOR=never", NULL};
    char manifest[128];
    snprintf(manifest, sizeof manifest, "%s/Cargo.toml", folder);
    const char *const argv[] = {"cargo", "fetch", "--manifest-path", manifest, NULL};
    _cleanup_fd_ int fd = open(manifest, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || io_write_all(fd, MANIFEST, sizeof MANIFEST - 1) < 0)
        return error_errno(err, errno, "cannot write %s", manifest);
    int r = host_command_run(
        &(struct host_command){.argv = argv, .env = env, .workspace = workspace, .errors = true},
        out, err);
    unlink(manifest);
    snprintf(manifest, sizeof manifest, "%s/Cargo.lock", folder);
    unlink(manifest);
    return r < 0 ? r : 0;
}

/* The text between the backticks behind "failed to download from". */
static char *find_index(const char *said)
{
    static const char words[] = "failed to download from `";
    const char *at = said ? strstr(said, words) : NULL;
    const char *end = at ? strchr(at + sizeof words - 1, '`') : NULL;
    return end ? strndup(at + sizeof words - 1, (size_t)(end - at) - (sizeof words - 1)) : NULL;
}

/* Crates may lie on another host than the index. Where that cannot be asked, their download will be
 * refused, and the refusal names the host. */
static int add_downloads(const char *workspace, const char *config_url, struct package_hosts *h,
                         struct error *err)
{
    const char *const argv[] = {"curl", "-fsS", "--proto",  "=http,https", "--max-time",
                                "15",   "--",   config_url, NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
    int r =
        host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, NULL);
    json_t *config =
        r == 0 && out.len ? json_loadb((const char *)out.data, out.len, 0, NULL) : NULL;
    const char *downloads = json_string_value(json_object_get(config, "dl"));
    r = downloads ? package_add_url(h, downloads, NULL, err) : 0;
    json_decref(config);
    return r;
}

int package_resolve_cargo(const char *workspace, struct package_hosts *h, struct error *err)
{
    char folder[] = "/tmp/hutch-cargo-XXXXXX";
    _cleanup_buf_ struct buf said = BUF_INIT(OUTPUT_MAX);
    if (!mkdtemp(folder))
        return error_errno(err, errno, "cannot make a temporary folder");
    int r = ask_cargo(workspace, folder, &said, err);
    rmdir(folder);
    _cleanup_free_ char *url = r == 0 ? find_index(buf_cstr(&said)) : NULL;
    if (r == 0 && !url)
        return error_set(
            err, ENOENT,
            "cargo does not say which registry it uses; name the host instead, as allow:HOST");
    if (r == 0)
        r = package_add_url(h, url, NULL, err);
    return r < 0 ? r : add_downloads(workspace, url, h, err);
}
