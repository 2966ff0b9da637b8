/* npm's registries, as npm itself prints its configuration; secrets in it are shown as (protected).
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "cleanup.h"
#include "packages.h"
#include "banned.h"

#define OUTPUT_MAX (256u << 10)

static int take_registries(struct package_hosts *h, const json_t *config, struct error *err)
{
    const char *key;
    json_t *value;
    int r = 0;
    const char *registry = json_string_value(json_object_get(config, "registry"));
    if (!registry)
        return error_set(err, ENOENT,
                         "npm names no registry; name the host instead, as allow:HOST");
    r = package_add_url(h, registry, "npm_config_registry", err);
    json_object_foreach((json_t *)config, key, value)
    {
        size_t n = strlen(key);
        bool scoped = key[0] == '@' && n > 9 && strcmp(key + n - 9, ":registry") == 0;
        if (r == 0 && scoped && json_is_string(value))
            r = package_add_url(h, json_string_value(value), NULL, err);
    }
    const char *cafile = json_string_value(json_object_get(config, "cafile"));
    return r < 0 || !cafile ? r : package_add_file(h, "npm_config_cafile", cafile, err);
}

int package_resolve_npm(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char *const argv[] = {"npm", "config", "list", "--json", NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
    int r =
        host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, err);
    if (r < 0)
        return r;
    json_t *config =
        r == 0 && out.len ? json_loadb((const char *)out.data, out.len, 0, NULL) : NULL;
    if (!config)
        return error_set(err, EIO, "'npm config list --json' failed on this host with status %d",
                         r);
    r = take_registries(h, config, err);
    json_decref(config);
    return r;
}
