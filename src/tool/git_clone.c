/*
 * Clones a repository into the box. The host fetches it, with the person's credentials, into a
 * temporary bare repository: no file of it is checked out here, no hook or filter runs, no
 * submodule is followed. It crosses as a bundle; git in the box unpacks it and checks it out, where
 * `origin` is the address without credentials.
 *
 * An address is a way to send data to somebody, so the person confirms each host that is neither
 * one of the remotes of their own repository nor allowed by --allow-clone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "io.h"
#include "forge.h"
#include "session.h"
#include "text.h"
#include "banned.h"

#define CLONE_TIMEOUT_NS (1800 * 1000000000LL)
#define UNPACK_NS        (600 * 1000000000LL)
#define SHALLOW_MAX      (64u << 10) /* it is an argument in the box */

/* In the box: $1 folder, $2 URL, $3 branch, tag or commit, $4 the shallow boundary or nothing. */
static const char UNPACK[] =
    "command -v git >/dev/null || exit 90\n"
    "[ -z \"$(ls -A -- \"$1\" 2>/dev/null)\" ] || exit 91\n"
    "git init -q -- \"$1\" && cd -- \"$1\" && cat >.git/clone.bundle || exit 92\n"
    "if [ -n \"$4\" ]; then printf '%s\\n' \"$4\" >.git/shallow; fi\n"
    "git fetch -q .git/clone.bundle '+refs/heads/*:refs/remotes/origin/*' "
    "'+refs/tags/*:refs/tags/*' || exit 93\n"
    "rm -f .git/clone.bundle .git/FETCH_HEAD\n"
    "git remote add origin \"$2\" || exit 93\n"
    "if git rev-parse -q --verify \"refs/remotes/origin/$3\" >/dev/null; then\n"
    "  git checkout -q -B \"$3\" --track \"origin/$3\" || exit 94\n"
    "else git checkout -q --detach \"$3\" -- || exit 94; fi\n"
    "git rev-parse HEAD\n";

struct clone {
    const struct tool_host *host;
    struct remote remote;
    const char *ref; /* NULL: the default branch */
    bool ref_is_id;
    char path[1024]; /* in the box */
    char branch[GIT_BRANCH_MAX + 1];
    char format[16];
    char *folder; /* temporary, on the host */
    char repo[512], bundle[512];
    struct buf shallow;
};

static void clone_free(struct clone *k)
{
    if (k->folder)
        git_remove_tree(k->folder);
    free(k->folder);
    buf_free(&k->shallow);
    remote_free(&k->remote);
}

static int clone_set_source(struct clone *k, const char *url, const char *ref, struct error *err)
{
    int r = remote_open(url, &k->remote, err);
    if (r < 0)
        return r;
    if (k->remote.url.password[0] || (k->remote.url.user[0] && k->remote.url.scheme != GIT_SSH))
        return error_set(
            err, EINVAL,
            "url: leave user and password out; hutch adds the user's credentials itself");
    k->ref = ref;
    k->ref_is_id = ref && git_id_is_valid(ref);
    return ref && !k->ref_is_id ? git_branch_check(ref, "ref", err) : 0;
}

static int clone_read_input(struct tool_call *c, struct clone *k, struct error *err)
{
    const char *path = input_string(c, "path");
    int r = clone_set_source(k, input_string(c, "url"), input_string(c, "ref"), err);
    if (r < 0)
        return r;
    if (k->ref_is_id && json_object_get(c->input, "depth"))
        return error_set(err, EINVAL,
                         "depth: does not go with a commit as ref; name a branch or a tag");
    const char *name = strrchr(k->remote.url.path, '/');
    snprintf(k->path, sizeof k->path, "%.1000s",
             path   ? path
             : name ? name + 1
                    : k->remote.url.path);
    for (const char *at = k->path; *at; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            return error_set(err, EINVAL, "path: has a control character");
    return k->path[0] == '-' ? error_set(err, EINVAL, "path: begins with '-'") : 0;
}

/* Asks the person, unless the host is one that they allowed or one of their own remotes. */
static int clone_confirm(struct tool_call *c, const struct clone *k, struct error *err)
{
    char text[GIT_URL_MAX + 64], place[300], option[400];
    const struct tool_host *h = k->host;
    const struct git_url *u = &k->remote.url;
    git_url_authority(u, place, sizeof place);
    for (size_t i = 0; i < h->n_clones; i++)
        if (strcasecmp(h->clones[i], place) == 0 || strcasecmp(h->clones[i], u->host) == 0)
            return 0;
    _cleanup_git_repo_ struct git_repo repo = {0};
    if (h->workspace && !h->direct && git_repo_open(h->workspace, &repo, NULL) == 0 &&
        remote_host_is_known(&repo, u))
        return 0;
    snprintf(text, sizeof text, "From:    %s\n", u->url);
    snprintf(option, sizeof option, "--allow-clone %s", place);
    return host_confirm(c, "Clone this repository into the box?", text, option, err);
}

/* `deep` 0: all of its history. */
static int clone_fetch(struct clone *k, int64_t deep, uint64_t max, int cancel, struct error *err)
{
    char depth[32];
    const char *args[20] = {"clone",       "-q",         "--bare",
                            "--template=", "--no-local", "--no-recurse-submodules"};
    size_t n = 6;
    if (deep) {
        snprintf(depth, sizeof depth, "--depth=%lld", (long long)deep);
        args[n++] = depth;
    }
    if (k->ref && !k->ref_is_id) {
        args[n++] = "--branch";
        args[n++] = k->ref;
    }
    args[n++] = "--";
    args[n++] = k->remote.url.url;
    args[n++] = k->repo;
    int r = remote_git(
        &k->remote,
        &(struct remote_call){
            .args = args, .file_max = max, .timeout_ns = CLONE_TIMEOUT_NS, .cancel = cancel},
        NULL, err);
    /* The kernel ended index-pack, which had no time to say why. */
    if (r < 0 &&
        (strstr(err->text, "invalid index-pack output") || strstr(err->text, "File too large")))
        return error_set(err, EFBIG,
                         "the repository is larger than %llu MB, the most that the box can write;"
                         " try depth 1, or the user can raise --disk",
                         (unsigned long long)(max >> 20));
    return r < 0 ? error_wrap(err, "cannot clone %s", k->remote.url.url) : 0;
}

static int clone_bundle(struct clone *k, int cancel, struct error *err)
{
    static const char *const format[] = {"rev-parse", "--show-object-format", NULL};
    static const char *const head[] = {"symbolic-ref", "-q", "--short", "HEAD", NULL};
    static const char *const any[] = {"rev-list", "-n", "1", "--all", NULL};
    const char *const bundle[] = {"bundle", "create", "-q", k->bundle, "--all", NULL};
    char first[GIT_ID_SIZE] = "", shallow[600];
    struct git_call call = {
        .git_dir = k->repo, .args = format, .out_max = 4096, .cancel = cancel, .hostile = true};
    int r = git_line(&call, k->format, sizeof k->format, err);
    call.args = any;
    if (r == 0)
        r = git_line(&call, first, sizeof first, err);
    if (r == 0 && !first[0])
        return error_set(err, ENODATA, "the repository %s is empty", k->remote.url.url);
    call.args = head;
    if (r == 0 && !k->ref && git_line(&call, k->branch, sizeof k->branch, err) != 0)
        return error_set(err, ENODATA,
                         "the server does not say which branch is the default; name one in ref");
    call.args = bundle;
    call.timeout_ns = UNPACK_NS;
    if (r == 0)
        r = git_run(&call, NULL, err);
    if (r != 0)
        return r < 0 ? r : -EIO;
    snprintf(shallow, sizeof shallow, "%s/shallow", k->repo);
    k->shallow = BUF_INIT(SHALLOW_MAX);
    r = io_read_file(AT_FDCWD, shallow, &k->shallow);
    if (r == -ENOBUFS)
        return error_set(err, E2BIG, "the shallow clone has too many ends; leave depth out");
    return r < 0 && r != -ENOENT ? error_errno(err, -r, "cannot read the clone") : 0;
}

static int clone_unpack(struct tool_call *c, struct clone *k, struct error *err)
{
    char hash[40];
    struct box_result result = {0};
    const char *ref = k->ref ? k->ref : k->branch;
    while (k->shallow.len && k->shallow.data[k->shallow.len - 1] == '\n')
        k->shallow.len--;
    const char *shallow = k->shallow.len ? buf_cstr(&k->shallow) : "";
    const char *const argv[] = {"/bin/sh",         "-c", UNPACK,  "sh", k->path,
                                k->remote.url.url, ref,  shallow, NULL};
    snprintf(hash, sizeof hash, "GIT_DEFAULT_HASH=%s", k->format);
    const char *const env[] = {hash, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", NULL};
    _cleanup_fd_ int bundle = open(k->bundle, O_RDONLY | O_CLOEXEC);
    if (bundle < 0)
        return error_errno(err, errno, "cannot open the clone");
    const struct box_command command = {.argv = (char *const *)argv,
                                        .env = (char *const *)env,
                                        .timeout_ns = UNPACK_NS,
                                        .in = bundle,
                                        .out = -1,
                                        .err = -1,
                                        .capture = true,
                                        .cancel = c->cancel};
    int r = box_exec(tool_session_box(c->session), &command, &result, err);
    if (r == 0 && (result.exit_code != 0 || result.out.head.len < 40)) {
        size_t n = result.err.head.len < 500 ? result.err.head.len : 500;
        _cleanup_free_ char *said =
            foreign_text(n ? (const char *)result.err.head.data : "", n, 600);
        if (result.exit_code == 90)
            tool_fail(c, "git is not installed in the box; choose an image that has it");
        else if (result.exit_code == 91)
            tool_fail(c, "path: '%s' exists in the box and is not empty; give another path",
                      k->path);
        else if (result.exit_code == 94)
            tool_fail(c, "cloned into %s, but cannot check out '%s': %s", k->path, ref,
                      said ? said : "");
        else
            tool_fail(c, "cannot unpack the clone in the box (%s): %s",
                      result.limit             ? box_limit_name(result.limit)
                      : result.exit_code == 92 ? "writing it failed"
                                               : "git failed",
                      said ? said : "");
    } else if (r == 0) {
        char commit[GIT_ID_SIZE];
        const char *said = (const char *)result.out.head.data;
        const char *end = memchr(said, '\n', result.out.head.len);
        snprintf(commit, sizeof commit, "%.*s", end ? (int)(end - said) : 40, said);
        r = git_id_is_valid(commit)
                ? 0
                : error_set(err, EPROTO, "git in the box did not name the commit");
        c->result->data =
            json_pack("{s:s, s:s, s:s, s:s, s:b}", "path", k->path, "url", k->remote.url.url, "ref",
                      ref, "commit", commit, "shallow", k->shallow.len > 0);
        buf_printf(&c->result->text, "Cloned %s into %s: %s at %.12s%s.\n", k->remote.url.url,
                   k->path, ref, commit, k->shallow.len ? ", shallow" : "");
    }
    box_result_free(&result);
    return r;
}

static int git_clone_run(struct tool_call *c, struct error *err)
{
    _cleanup_(clone_free) struct clone k = {.host = tool_session_host(c->session)};
    int r = clone_read_input(c, &k, err);
    if (r == 0)
        r = clone_confirm(c, &k, err);
    if (r == 0)
        r = git_make_temporary("hutch-clone", &k.folder, err);
    if (r == 0) {
        snprintf(k.repo, sizeof k.repo, "%s/repo.git", k.folder);
        snprintf(k.bundle, sizeof k.bundle, "%s/bundle", k.folder);
        r = clone_fetch(&k, input_int(c, "depth", 0),
                        k.host->clone_max ? k.host->clone_max : HOST_CLONE_MAX, c->cancel, err);
    }
    if (r == 0)
        r = clone_bundle(&k, c->cancel, err);
    return r == 0 ? clone_unpack(c, &k, err) : r;
}

/* --- into a folder of the host --- */

/* A tree may name the same blob very often: adds up what a checkout would write. */
static int clone_check_size(const struct git_call *repo, uint64_t max, struct error *err)
{
    static const char *const args[] = {"ls-tree", "-r", "-l", "-z", "--full-tree", "HEAD", NULL};
    _cleanup_buf_ struct buf list = BUF_INIT(0);
    struct git_call call = *repo;
    uint64_t total = 0;
    call.args = args;
    int r = git_run(&call, &list, err);
    if (r == -ENOBUFS)
        return error_set(err, EFBIG, "the repository has too many files");
    if (r != 0)
        return r < 0 ? r : -EIO;
    /* MODE TYPE ID SIZE<tab>PATH, ended by a NUL; the size of a submodule is a dash. */
    const char *at = buf_cstr(&list), *end = at + list.len;
    for (; at && at < end; at += strlen(at) + 1) {
        const char *size = at;
        for (int word = 0; word < 3; word++) {
            size += strcspn(size, " ");
            size += strspn(size, " ");
        }
        total += strtoull(size, NULL, 10) + 4096;
        if (total > max)
            return error_set(err, EFBIG, "the files of the repository are larger than %llu MB",
                             (unsigned long long)(max >> 20));
    }
    return 0;
}

int git_clone_folder(const struct git_clone_options *o, const char *folder,
                     char ret_commit[GIT_ID_SIZE], struct error *err)
{
    static const char *const work[] = {"config", "core.bare", "false", NULL};
    static const char *const reset[] = {"reset", "-q", "--hard", NULL};
    static const char *const head[] = {"rev-parse", "-q", "--verify", "HEAD", NULL};
    _cleanup_(clone_free) struct clone k = {0};
    int r = clone_set_source(&k, o->url, o->ref, err);
    if (r == 0 && (size_t)snprintf(k.repo, sizeof k.repo, "%s/.git", folder) >= sizeof k.repo)
        r = error_set(err, ENAMETOOLONG, "the folder's path is too long");
    if (r == 0)
        r = clone_fetch(&k, k.ref_is_id ? 0 : o->depth, o->max, o->cancel, err);
    if (r < 0)
        return r;
    struct git_call call = {.git_dir = k.repo,
                            .args = work,
                            .timeout_ns = UNPACK_NS,
                            .cancel = o->cancel,
                            .hostile = true};
    const char *const detach[] = {"update-ref", "--no-deref", "HEAD", k.ref, NULL};
    r = git_check(&call, NULL, err);
    call.args = detach;
    if (r == 0 && k.ref_is_id)
        r = git_check(&call, NULL, err);
    if (r == 0)
        r = clone_check_size(&call, o->max, err);
    call.work_tree = folder;
    call.args = reset;
    if (r == 0)
        r = git_check(&call, NULL, err);
    call.args = head;
    return r == 0 ? git_line(&call, ret_commit, GIT_ID_SIZE, err) : r;
}

/* clang-format off */
const struct tool TOOL_GIT_CLONE = {
    .name = "git_clone",
    .title = "Clone a repository",
    .summary = "Clones a git repository from the network into the box, with the user's"
               " credentials, also where the box itself has no network. Hosts other than those of"
               " the user's own remotes must be confirmed by the user. Submodules and LFS files"
               " are not fetched.",
    .input = SCHEMA({
        "type": "object", "additionalProperties": false, "required": ["url"], "properties": {
        "url": {"type": "string", "minLength": 1, "maxLength": 1900,
            "description": "https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH."},
        "path": {"type": "string", "minLength": 1, "maxLength": 1000,
            "description": "Folder below /workspace, absent or empty (default: repository name)."},
        "ref": {"type": "string", "minLength": 1, "maxLength": 200,
            "description": "Branch, tag or full commit id (default: the default branch)."},
        "depth": {"type": "integer", "minimum": 1, "maximum": 1000000,
            "description": "Fetch only this many commits of one branch."}}}),
    .output = SCHEMA({
        "type": "object", "required": ["path", "url", "ref", "commit", "shallow"], "properties": {
        "path": {"type": "string"},
        "url": {"type": "string", "description": "Of origin, without credentials."},
        "ref": {"type": "string", "description": "What is checked out."},
        "commit": {"type": "string"},
        "shallow": {"type": "boolean", "description": "The history was cut by depth."}}}),
    .flags = TOOL_CHANGES | TOOL_HOST,
    .run = git_clone_run,
};
/* clang-format on */
