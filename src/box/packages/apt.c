/* apt's archives, as apt itself reads its sources in all their formats. */
#include <errno.h>
#include <string.h>

#include "cleanup.h"
#include "packages.h"
#include "banned.h"

#define OUTPUT_MAX (1u << 20)

int package_resolve_apt(const char *workspace, struct package_hosts *h, struct error *err)
{
    static const char *const argv[] = {"apt-get", "indextargets", "--format", "$(SITE)", NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(OUTPUT_MAX);
    int r =
        host_command_run(&(struct host_command){.argv = argv, .workspace = workspace}, &out, err);
    char *text = r == 0 ? (char *)buf_cstr(&out) : NULL;
    if (r < 0)
        return r;
    for (char *line; text && (line = strsep(&text, "\n"));)
        if ((r = package_add_url(h, line, NULL, err)) < 0)
            return r;
    return h->n_hosts ? 0
                      : error_set(err, ENOENT,
                                  "apt has no source on the network; name the host instead, as"
                                  " allow:HOST");
}
