/*
 * Toolchains that a user has installed for themselves: folders of their PATH below their home or
 * /opt, shown read-only at the same path and on the PATH of the box.
 *
 * What else lies in the home folder stays out. Of a known layout the parts with programs are shown
 * and those with credentials are not (~/.cargo/credentials.toml); of an unknown one the parent of
 * bin/ if nothing but the usual folders of an installation is in it, else bin/ alone. What these
 * tools write (registries, caches) goes to the home folder of the box, where their defaults lead.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box_host.h"
#include "box_options.h"
#include "cleanup.h"
#include "banned.h"

#define PATH_TEXT_MAX 16384

struct toolchains {
    struct box_spec *spec;
    const char *home;
};

/* The rest of a path below a folder, without the slash; NULL: it is not below it. */
static const char *path_below(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return n > 1 && strncmp(path, folder, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

static bool path_is_in(const char *path, const char *folder)
{
    return strcmp(path, folder) == 0 || path_below(path, folder);
}

static int toolchains_env(struct toolchains *t, const char *name, const char *value)
{
    struct box_options *o = &t->spec->box;
    char *text = NULL;
    size_t n = strlen(name);
    for (size_t i = 0; i < o->n_env; i++)
        if (strncmp(o->env[i], name, n) == 0 && o->env[i][n] == '=')
            return 0; /* the user set it */
    if (o->n_env == BOX_ENV_MAX)
        return 0;
    if (asprintf(&text, "%s=%s", name, value) < 0)
        return -ENOMEM;
    const char *kept = box_spec_keep(t->spec, text);
    if (kept)
        o->env[o->n_env++] = kept;
    return kept ? 0 : -ENOMEM;
}

/* Shows a folder at its own path. 1: the box has it; 0: it cannot be shown. */
static int toolchains_show(struct toolchains *t, const char *folder)
{
    struct box_options *o = &t->spec->box;
    _cleanup_free_ char *real = NULL;
    for (size_t i = 0; i < o->n_shares; i++)
        if (path_is_in(folder, o->shares[i].at))
            return 1;
    if (o->n_shares == BOX_SHARES_MAX || box_share_refuse_at(folder) ||
        host_folder_resolve(folder, &real) < 0 ||
        host_folder_refuse(real, true)) /* as if writable: then it does not hold the home folder */
        return 0;
    const char *source = box_spec_keep(t->spec, TAKE_PTR(real));
    const char *at = source ? box_spec_keep(t->spec, strdup(folder)) : NULL;
    if (!at)
        return -ENOMEM;
    o->shares[o->n_shares++] = (struct box_share){.source = source, .at = at};
    return 1;
}

static int toolchains_show_in_home(struct toolchains *t, const char *below)
{
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", t->home, below) >= sizeof path ||
        access(path, F_OK) < 0)
        return 0;
    return toolchains_show(t, path);
}

/* Is there a link in the folder that leads below another one? */
static bool has_link_into(const char *folder, const char *other)
{
    DIR *dir = opendir(folder);
    bool found = false;
    for (struct dirent *e; dir && !found && (e = readdir(dir));) {
        char target[PATH_MAX];
        ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof target - 1);
        target[n > 0 ? n : 0] = 0;
        found = path_below(target, other) || (n > 9 && strncmp(target, "../share/", 9) == 0);
    }
    if (dir)
        closedir(dir);
    return found;
}

/* Does a folder hold an installation and nothing else? */
static bool is_installation(const char *folder)
{
    static const char *const USUAL[] = {".",
                                        "..",
                                        "bin",
                                        "sbin",
                                        "lib",
                                        "lib32",
                                        "lib64",
                                        "libexec",
                                        "share",
                                        "include",
                                        "man",
                                        "doc",
                                        "docs",
                                        "src",
                                        "pkg",
                                        "api",
                                        "misc",
                                        "test",
                                        "conf",
                                        "jmods",
                                        "legal",
                                        "release",
                                        "VERSION",
                                        "LICENSE",
                                        "README",
                                        "PATENTS",
                                        "go.env",
                                        "codereview.cfg",
                                        "CHANGELOG.md",
                                        "README.md",
                                        "LICENSE.md",
                                        "CONTRIBUTING.md",
                                        "SECURITY.md"};
    DIR *dir = opendir(folder);
    bool usual = dir != NULL;
    for (struct dirent *e; usual && (e = readdir(dir));) {
        bool known = false;
        for (size_t i = 0; !known && i < ARRAY_SIZE(USUAL); i++)
            known = strcmp(e->d_name, USUAL[i]) == 0;
        usual = known;
    }
    if (dir)
        closedir(dir);
    return usual;
}

static int toolchains_add_unknown(struct toolchains *t, const char *folder, bool in_home)
{
    _cleanup_free_ char *parent = strdup(folder);
    char *slash = parent ? strrchr(parent, '/') : NULL;
    if (!slash)
        return -ENOMEM;
    bool bin = strcmp(slash, "/bin") == 0;
    *slash = 0;
    if (bin && !path_is_in(t->home, parent) && strcmp(parent, "/opt") != 0 &&
        (!in_home || is_installation(parent)))
        return toolchains_show(t, parent);
    return toolchains_show(t, folder);
}

/* A folder of PATH below the home folder; `below` is the rest of its path. */
static int toolchains_add_home(struct toolchains *t, const char *folder, const char *below)
{
    static const char *const SECRET[] = {".ssh",  ".gnupg",  ".aws",           ".config",
                                         ".kube", ".docker", ".password-store"};
    static const char *const LOCAL[] = {".local/share/pipx", ".local/pipx", ".local/share/uv/tools",
                                        ".local/share/uv/python"};
    char root[PATH_MAX];
    for (size_t i = 0; i < ARRAY_SIZE(SECRET); i++)
        if (path_is_in(below, SECRET[i]))
            return 0;
    if (strcmp(below, ".local/bin") == 0) {
        /* It has links into what pipx and uv installed. Not all of ~/.local/share/uv is shown:
         * credentials are there. */
        int r = toolchains_show(t, folder);
        snprintf(root, sizeof root, "%s/.local", t->home);
        for (size_t i = 0; r > 0 && has_link_into(folder, root) && i < ARRAY_SIZE(LOCAL); i++)
            if (toolchains_show_in_home(t, LOCAL[i]) < 0)
                return -ENOMEM;
        return r;
    }
    if (path_is_in(below, ".cargo")) {
        snprintf(root, sizeof root, "%s/.rustup", t->home);
        int r = toolchains_show_in_home(t, ".rustup");
        if (r > 0)
            r = toolchains_env(t, "RUSTUP_HOME", root);
        return r < 0 || strcmp(below, ".cargo/bin") != 0 ? r : toolchains_show(t, folder);
    }
    if (path_is_in(below, ".pyenv")) {
        snprintf(root, sizeof root, "%s/.pyenv", t->home);
        int r = toolchains_show(t, root);
        return r <= 0 || toolchains_env(t, "PYENV_ROOT", root) < 0 ? r : 1;
    }
    return toolchains_add_unknown(t, folder, true);
}

/* One folder of PATH. 1: the box has it, and it comes on the PATH there. */
static int toolchains_add(struct toolchains *t, const char *folder)
{
    static const char *const SEEN[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    const char *workspace = t->spec->box.workspace;
    struct stat st;
    _cleanup_free_ char *real = NULL;
    if (folder[0] != '/' || host_folder_resolve(folder, &real) < 0 || stat(real, &st) < 0)
        return 0;
    /* Anybody may have written what is in the workspace, or in a folder that all may write to. */
    if ((workspace && path_is_in(real, workspace)) || st.st_mode & S_IWOTH)
        return 0;
    for (size_t i = 0; i < ARRAY_SIZE(SEEN); i++)
        if (path_is_in(folder, SEEN[i]))
            return 1;
    const char *below = path_below(folder, t->home);
    if (below)
        return toolchains_add_home(t, folder, below);
    return path_below(folder, "/opt") ? toolchains_add_unknown(t, folder, false) : 0;
}

int box_spec_add_toolchains(struct box_spec *w, struct error *err)
{
    static const char STANDARD[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    const char *path = getenv("PATH"), *home = getenv("HOME");
    _cleanup_free_ char *rest = strdup(path ? path : "");
    _cleanup_buf_ struct buf text = BUF_INIT(PATH_TEXT_MAX);
    struct toolchains t = {.spec = w,
                           .home = home && home[0] == '/' && home[1] ? home : "/nonexistent"};
    int r = rest ? 0 : -ENOMEM;
    for (char *at = rest, *folder; r >= 0 && at && (folder = strsep(&at, ":"));) {
        size_t n = strlen(folder);
        while (n > 1 && folder[n - 1] == '/')
            folder[--n] = 0;
        r = toolchains_add(&t, folder);
        if (r > 0)
            buf_printf(&text, "%s:", folder);
    }
    buf_append_str(&text, STANDARD);
    if (r >= 0 && buf_cstr(&text))
        r = toolchains_env(&t, "PATH", buf_cstr(&text));
    return r < 0 ? error_set(err, ENOMEM, "no memory") : 0;
}
