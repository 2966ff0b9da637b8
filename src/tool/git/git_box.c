#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_box.h"
#include "io.h"
#include "text.h"
#include "banned.h"

#define IDENTITY_MAX (64u << 10)
#define CONFIG_MAX   (1u << 20)
#define OBJECTS_AT   "/run/git-objects"
#define FILE_MAX     (512u << 20)

/* A value of a configuration file. */
static void config_put_quoted(struct buf *b, const char *text)
{
    buf_append_str(b, "\"");
    for (; *text; text++) {
        if (*text == '\n')
            buf_append_str(b, "\\n");
        else if (*text == '"' || *text == '\\')
            buf_printf(b, "\\%c", *text);
        else
            buf_append(b, text, 1);
    }
    buf_append_str(b, "\"");
}

void git_identity(const char *folder, char name[GIT_IDENTITY_SIZE], char email[GIT_IDENTITY_SIZE])
{
    static const char *const args[] = {"config", "-z", "--get-regexp", "^user\\.(name|email)$",
                                       NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    const struct git_call call = {
        .folder = folder, .args = args, .personal = true, .out_max = IDENTITY_MAX};
    name[0] = email[0] = 0;
    if (git_run(&call, &out, NULL) != 0 || !buf_cstr(&out))
        return;
    /* KEY, a newline, VALUE, a NUL; of several values the last one counts. */
    const char *end = (const char *)out.data + out.len;
    for (const char *at = (const char *)out.data; at < end; at += strlen(at) + 1) {
        char *to = strncmp(at, "user.name\n", 10) == 0    ? name
                   : strncmp(at, "user.email\n", 11) == 0 ? email
                                                          : NULL;
        const char *value = to ? strchr(at, '\n') + 1 : "";
        size_t n = strlen(value), good = 0;
        /* It is written into a configuration file and a reflog: one line of printable text. */
        for (size_t length; good < n; good += length) {
            length = utf8_character((const uint8_t *)value + good, n - good);
            if (!length || utf8_is_control((const uint8_t *)value + good, length))
                break;
        }
        if (to && good == n && n < GIT_IDENTITY_SIZE)
            memcpy(to, value, n + 1);
    }
}

/* --- the configuration without credentials --- */

void git_mask_url(const char *url, struct buf *ret)
{
    const char *scheme = strstr(url, "://");
    size_t n = scheme ? strcspn(scheme + 3, "/?#") : 0;
    const char *user = scheme ? scheme + 3 : url, *at = n ? memrchr(user, '@', n) : NULL;
    if (!at) {
        buf_append_str(ret, url);
        return;
    }
    bool ssh = strncmp(url, "ssh://", 6) == 0 || strncmp(url, "git+ssh://", 10) == 0;
    const char *colon = memchr(user, ':', (size_t)(at - user));
    buf_append(ret, url, (size_t)(user - url));
    if (ssh)
        buf_printf(ret, "%.*s@", (int)((colon ? colon : at) - user), user);
    buf_append_str(ret, at + 1);
}

bool git_mask_allows(const char *key)
{
    static const char *const SECTIONS[] = {
        "credential.", "url.", "include.", "includeif.",    "http.",           "sendemail.",
        "imap.",       "gpg.", "lfs.",     "core.gitproxy", "core.sshcommand", "core.askpass"};
    static const char *const WORDS[] = {"password", "passwd", "token",
                                        "secret",   "cookie", "extraheader"};
    for (size_t i = 0; i < ARRAY_SIZE(SECTIONS); i++)
        if (strncasecmp(key, SECTIONS[i], strlen(SECTIONS[i])) == 0)
            return false;
    for (size_t i = 0; i < ARRAY_SIZE(WORDS); i++)
        if (strcasestr(key, WORDS[i]))
            return false;
    return !strstr(key, "://") || !strchr(strstr(key, "://"), '@');
}

int git_mask_config(const char *workspace, struct buf *ret)
{
    /* Most configurations have nothing to hide, and no git is started for them. */
    static const char *const SUSPECT[] = {"extraheader", "credential", "insteadof", "password",
                                          "passwd",      "token",      "secret",    "smtppass",
                                          "cookie",      "[include"};
    char path[PATH_MAX];
    struct stat st;
    _cleanup_buf_ struct buf text = BUF_INIT(CONFIG_MAX);
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    if (snprintf(path, sizeof path, "%s/.git/config", workspace) >= (int)sizeof path ||
        lstat(path, &st) < 0 || !S_ISREG(st.st_mode))
        return 0;
    int r = io_read_file(AT_FDCWD, path, &text);
    if (r == 0 && buf_cstr(&text)) {
        bool needed = false;
        for (size_t i = 0; i < ARRAY_SIZE(SUSPECT); i++)
            needed |= strcasestr((const char *)text.data, SUSPECT[i]) != NULL;
        for (const char *at = (const char *)text.data; (at = strstr(at, "://")); at += 3)
            needed |= memchr(at + 3, '@', strcspn(at + 3, "/\n")) != NULL;
        if (!needed)
            return 0;
    }
    const char *const args[] = {"config", "--file", path, "--no-includes", "-z", "--list", NULL};
    if (r == 0)
        r = git_run(&(struct git_call){.args = args, .owner_of = path, .out_max = CONFIG_MAX}, &out,
                    NULL);
    /* SECTION.NAME or SECTION.SUBSECTION.NAME, a newline and the value; without the newline it is a
     * bare name. */
    size_t begin = ret->len;
    for (size_t at = 0, n; r == 0 && buf_cstr(&out) && at < out.len; at += n + 1) {
        char *entry = (char *)out.data + at, *value = strchr(entry, '\n');
        n = strlen(entry);
        if (value)
            *value++ = 0;
        char *first = strchr(entry, '.'), *last = strrchr(entry, '.');
        if (!first || !git_mask_allows(entry))
            continue;
        buf_printf(ret, "[%.*s", (int)(first - entry), entry);
        if (last > first) {
            *last = 0;
            buf_append_str(ret, " ");
            config_put_quoted(ret, first + 1);
        }
        buf_printf(ret, "]\n\t%s", last + 1);
        if (value) {
            _cleanup_buf_ struct buf clean = BUF_INIT(CONFIG_MAX);
            git_mask_url(value, &clean);
            buf_append_str(ret, " = ");
            config_put_quoted(ret, buf_cstr(&clean) ? (const char *)clean.data : "");
        }
        buf_append_str(ret, "\n");
    }
    if (r != 0 || ret->failed) {
        ret->len = begin;
        ret->failed = false;
        buf_append_str(ret, "[core]\n\trepositoryformatversion = 0\n\tbare = false\n");
    }
    return 1;
}

/* --- workspaces whose .git is a file --- */

/* Where everything points that could be delivered. */
#define WORKTREE_STATE                                                                             \
    "{ git for-each-ref; git symbolic-ref -q HEAD; git rev-parse -q --verify HEAD; git stash "     \
    "list; }"

/* Files that the host has written before lie in the folder already. */
static const char WORKTREE_INSTALL[] =
    "set -e\n"
    "cd ~/.hutch-git\n"
    "mkdir -p objects/info objects/pack refs/heads refs/tags info\n"
    "echo " OBJECTS_AT " >objects/info/alternates\n"
    "[ -s index ] || rm -f index\n"
    "[ -s shallow ] || rm -f shallow\n"
    "[ -s info/sparse-checkout ] || rm -f info/sparse-checkout\n"
    "printf 'gitdir: %s\\n' \"$PWD\" >/workspace/.git\n"
    "export GIT_DIR=$PWD\n" WORKTREE_STATE " >hutch-state || true\n";

bool git_worktree_is_linked(const char *folder)
{
    struct stat st;
    char path[PATH_MAX];
    return snprintf(path, sizeof path, "%s/.git", folder) < (int)sizeof path &&
           lstat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Runs a script in the box, which reads the input. */
static int worktree_run(struct box *box, const char *script, const char *arg,
                        const struct buf *input, struct error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", arg, NULL};
    struct box_result result = {0};
    _cleanup_fd_ int in = io_memory_file(input->data, input->len);
    if (in < 0)
        return error_errno(err, -in, "cannot prepare the repository in the box");
    const struct box_command c = {.argv = (char *const *)argv,
                                  .cwd = "/",
                                  .timeout_ns = GIT_TIMEOUT_NS,
                                  .in = in,
                                  .out = -1,
                                  .err = -1,
                                  .cancel = -1};
    int r = box_exec(box, &c, &result, err);
    if (r == 0 && result.exit_code != 0)
        r = error_set(err, EIO, "cannot prepare the repository in the box (exit status %d)",
                      result.exit_code);
    box_result_free(&result);
    return r;
}

static int worktree_put(struct box *box, const char *name, const struct buf *data,
                        struct error *err)
{
    static const char SCRIPT[] = "mkdir -p ~/.hutch-git/info && cat >~/.hutch-git/\"$1\"";
    return data->failed ? error_set(err, ENOMEM, "no memory")
                        : worktree_run(box, SCRIPT, name, data, err);
}

/* What git must know to read the repository. Everything else may hold secrets, or paths of the
 * host. */
static int worktree_put_config(const struct git_repo *repo, struct box *box, struct error *err)
{
    static const char *const args[] = {
        "config", "-z", "--get-regexp",
        ("^core\\.(autocrlf|eol|safecrlf|filemode|ignorecase|symlinks|"
         "precomposeunicode|sparsecheckout(cone)?)$"),
        NULL};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    _cleanup_buf_ struct buf text = BUF_INIT(64u << 10);
    bool sha256 = strcmp(repo->format, "sha256") == 0;
    int r = git_run(&(struct git_call){.git_dir = repo->git_dir, .args = args}, &out, err);
    if (r < 0 || !buf_cstr(&out))
        return r < 0 ? r : error_set(err, ENOMEM, "no memory");
    buf_printf(
        &text,
        "[core]\n\trepositoryformatversion = %d\n\tbare = false\n\tlogallrefupdates = true\n",
        sha256);
    const char *end = (const char *)out.data + out.len;
    for (const char *at = (const char *)out.data; at < end; at += strlen(at) + 1) {
        const char *value = strchr(at, '\n');
        size_t n = value ? strspn(value + 1, "abcdefghijklmnopqrstuvwxyz") : 0;
        if (value && n > 0 && !value[1 + n])
            buf_printf(&text, "\t%.*s = %s\n", (int)(value - at - 5), at + 5, value + 1);
    }
    if (sha256)
        buf_append_str(&text, "[extensions]\n\tobjectformat = sha256\n");
    return worktree_put(box, "config", &text, err);
}

int git_box_install(const struct git_box *g, struct box *box, struct error *err)
{
    static const struct buf nothing;
    const struct git_repo *repo = &g->worktree.repo;
    char head[PATH_MAX], sparse[PATH_MAX];
    if (!g->worktree.needed)
        return 0;
    snprintf(head, sizeof head, "%s/HEAD", repo->git_dir);
    snprintf(sparse, sizeof sparse, "%s/info/sparse-checkout", repo->git_dir);
    const char *const copies[][2] = {{head, "HEAD"},
                                     {repo->index, "index"},
                                     {repo->shallow, "shallow"},
                                     {sparse, "info/sparse-checkout"}};
    struct git_refs refs = {0};
    _cleanup_buf_ struct buf packed = BUF_INIT(64u << 20);
    int r = worktree_put_config(repo, box, err);
    if (r == 0)
        r = git_refs_read(repo->git_dir, &refs, err);
    if (r < 0)
        return r;
    buf_append_str(&packed, "# pack-refs with: sorted\n");
    for (size_t i = 0; i < refs.count; i++)
        buf_printf(&packed, "%s %s\n", refs.items[i].id, refs.items[i].name);
    git_refs_free(&refs);
    r = worktree_put(box, "packed-refs", &packed, err);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(copies); i++) {
        _cleanup_buf_ struct buf data = BUF_INIT(FILE_MAX);
        r = io_read_file(AT_FDCWD, copies[i][0], &data);
        if (r < 0 && r != -ENOENT) /* a file that is not there is empty */
            return error_errno(err, -r, "cannot read %s", copies[i][0]);
        r = worktree_put(box, copies[i][1], &data, err);
    }
    return r == 0 ? worktree_run(box, WORKTREE_INSTALL, "", &nothing, err) : r;
}

bool git_worktree_moved(struct box *box)
{
    static const struct buf nothing;
    static const char SCRIPT[] =
        "cd ~/.hutch-git && export GIT_DIR=$PWD && " WORKTREE_STATE " | cmp -s - hutch-state";
    return worktree_run(box, SCRIPT, "", &nothing, NULL) < 0;
}

/* --- all of it --- */

void git_box_prepare(struct box_options *o, struct git_box *ret)
{
    char name[GIT_IDENTITY_SIZE], email[GIT_IDENTITY_SIZE];
    *ret = (struct git_box){0};
    git_identity(o->workspace ? o->workspace : "/", name, email);
    if (name[0] || email[0]) {
        struct buf b = BUF_INIT(BOX_GIT_SIZE - 1);
        buf_append_str(&b, name[0] ? "[user]\n\tname = " : "[user]");
        if (name[0])
            config_put_quoted(&b, name);
        buf_append_str(&b, email[0] ? "\n\temail = " : "");
        if (email[0])
            config_put_quoted(&b, email);
        buf_append_str(&b, "\n");
        o->git_config = ret->identity = b.failed ? NULL : buf_cstr(&b);
        if (!ret->identity)
            buf_free(&b);
    }
    if (!o->workspace || o->mode != BOX_COW)
        return;
    struct buf mask = BUF_INIT(BOX_GIT_MASK_SIZE - 1);
    if (git_mask_config(o->workspace, &mask) > 0) {
        ret->mask = buf_cstr(&mask);
        o->git_mask = ret->mask ? ret->mask : "";
    }
    if (!ret->mask)
        buf_free(&mask);
    /* Without git on the host, or with a .git file that leads nowhere, the box has no repository
     * either. */
    if (o->n_shares == BOX_SHARES_MAX || !git_worktree_is_linked(o->workspace) ||
        git_repo_open(o->workspace, &ret->worktree.repo, NULL) < 0)
        return;
    ret->worktree.needed = true;
    o->shares[o->n_shares++] =
        (struct box_share){.source = ret->worktree.repo.objects, .at = OBJECTS_AT};
}

void git_box_free(struct git_box *g)
{
    git_repo_free(&g->worktree.repo);
    free(g->identity);
    free(g->mask);
    g->identity = g->mask = NULL;
}
