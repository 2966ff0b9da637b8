#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_box.h"
#include "git_transfer.h"
#include "io.h"
#include "banned.h"

#define LINE_MAX_BYTES 1200
#define SHORT_ID       10
#define INDEX_MAX      (1u << 30)

/*
 * --- the index ---
 *
 * read-tree with two trees does to an index what a fast-forward does: an entry that the person
 * staged stays if the commits do not touch it, and refuses the move if they do. It runs in the
 * quarantine on a copy, with the quarantine's configuration: neither filters nor a file system
 * monitor of the repository run. No file is touched.
 */

/* Holds the repository's index.lock until it is committed or dropped. */
struct index_update {
    int lock; /* -1: not held */
    char *lock_path, *made_path;
    const char *index_path;
};
#define INDEX_NONE ((struct index_update){.lock = -1})

static void index_drop(struct index_update *i)
{
    if (i->lock >= 0)
        unlink(i->lock_path);
    cleanup_close(&i->lock);
    free(i->lock_path);
    free(i->made_path);
    *i = INDEX_NONE;
}

/*
 * Takes the lock and makes, in the quarantine, the index that belongs to `to` of the one that
 * belongs to `from` ("": no commit yet). What the person has staged stays staged. 0; 1 if that is
 * not possible, with the reason in err; or a negative errno.
 */
static int index_prepare(const struct git_repo *host, const struct git_transfer *t,
                         const char *from, const char *to, struct index_update *ret,
                         struct error *err)
{
    static const char *const empty_tree[] = {"mktree", NULL};
    static const char *const refresh[] = {"update-index", "-q", "--refresh", NULL};
    bool root = geteuid() == 0;
    char none[GIT_ID_SIZE];
    struct stat st;
    _cleanup_buf_ struct buf bytes = BUF_INIT(INDEX_MAX);
    _cleanup_(index_drop) struct index_update i = INDEX_NONE;
    i.index_path = host->index;
    i.lock_path = str_printf("%s.lock", host->index);
    i.made_path = str_printf("%s/index", t->path);
    _cleanup_free_ char *file = str_printf("GIT_INDEX_FILE=%s", i.made_path);
    if (!i.lock_path || !i.made_path || !file)
        return error_set(err, ENOMEM, "no memory");

    /* As git does it: the process that creates index.lock may replace the index. */
    mode_t mode = stat(host->index, &st) == 0 ? st.st_mode & 0666 : 0644;
    i.lock = open(i.lock_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    if (i.lock < 0 && errno == EEXIST) {
        error_set(err, EBUSY, "another git is at work in your repository (index.lock)");
        return 1;
    }
    if (i.lock < 0 ||
        (root && stat(host->git_dir, &st) == 0 && fchown(i.lock, st.st_uid, st.st_gid) < 0))
        return error_errno(err, errno, "cannot lock the index");
    unlink(i.made_path);
    int r = io_read_file(AT_FDCWD, host->index, &bytes);
    if (r == 0) {
        _cleanup_fd_ int fd = open(i.made_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        r = fd < 0 ? -errno : io_write_all(fd, bytes.data, bytes.len);
        if (r == 0 && root && stat(t->path, &st) == 0 && fchown(fd, st.st_uid, st.st_gid) < 0)
            r = -errno;
    }
    if (r < 0 && r != -ENOENT) /* a repository without a commit has none yet */
        return error_errno(err, -r, "cannot read the index");

    const char *const env[] = {file, NULL};
    struct git_call call = {
        .git_dir = t->path, .work_tree = host->work_tree, .env = env, .hostile = true};
    if (!*from) {
        call.args = empty_tree;
        r = git_line(&call, none, sizeof none, err);
        if (r != 0 || !git_id_is_valid(none))
            return r < 0 ? r : error_set(err, EPROTO, "git mktree gave no tree");
        from = none;
    }
    const char *const merge[] = {"read-tree", "-i", "-m", from, to, NULL};
    call.args = merge;
    r = git_run(&call, NULL, err);
    if (r > 0) {
        error_set(err, EBUSY, "what you have staged is in the way");
        return 1;
    }
    call.args = refresh; /* its status only says that there are changes */
    if (r == 0)
        r = git_run(&call, NULL, err);
    if (r < 0)
        return r;
    *ret = i;
    i = INDEX_NONE;
    return 0;
}

/* --- the delivery --- */

/* Where HEAD of the person's repository is. */
struct head {
    char *branch;         /* refs/heads/…; NULL: detached */
    char id[GIT_ID_SIZE]; /* empty: no commit yet */
};

struct delivery {
    const struct git_repo *host;
    const struct git_transfer *from;
    const struct git_deliver_options *o;
    struct head head;
    struct buf elsewhere; /* branches checked out in other worktrees, a line each */
    char name[GIT_IDENTITY_SIZE], email[GIT_IDENTITY_SIZE];
    char head_why[ERROR_TEXT_MAX]; /* why HEAD did not follow the box's; empty: it did */
    bool installed;                /* the objects are in the person's repository */
};

static void delivery_free(struct delivery *d)
{
    free(d->head.branch);
    buf_free(&d->elsewhere);
}

static void delivery_say(const struct delivery *d, const char *fmt, ...) PRINTF(2, 3);

static void delivery_say(const struct delivery *d, const char *fmt, ...)
{
    char line[LINE_MAX_BYTES];
    int n = d->o->label ? snprintf(line, sizeof line, "%.300s: ", d->o->label) : 0;
    va_list args;
    va_start(args, fmt);
    vsnprintf(line + n, sizeof line - (size_t)n, fmt, args);
    va_end(args);
    if (d->o->say)
        d->o->say(d->o->data, line);
}

static bool delivery_elsewhere(struct delivery *d, const char *branch)
{
    if (d->head.branch && strcmp(d->head.branch, branch) == 0)
        return false;
    char line[GIT_REF_BYTES + 16];
    snprintf(line, sizeof line, "\nbranch %s\n", branch);
    const char *all = buf_cstr(&d->elsewhere);
    return all && strstr(all, line);
}

/* 1, 0, or a negative errno. */
static int delivery_is_ancestor(const struct delivery *d, const char *old, const char *new,
                                struct error *err)
{
    const char *const args[] = {"merge-base", "--is-ancestor", old, new, NULL};
    int r = git_run(&(struct git_call){.git_dir = d->from->path, .args = args, .hostile = true},
                    NULL, err);
    return r < 0 ? r : r == 0;
}

/* How many commits of `new` are on none of the person's branches; -1: not known. */
static long delivery_count_new(const struct delivery *d, const char *new)
{
    static const char *const args[] = {"rev-list", "--count", "--stdin", NULL};
    _cleanup_buf_ struct buf in = BUF_INIT(64u << 20);
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    buf_printf(&in, "%s\n", new);
    for (size_t i = 0; i < d->from->host.count; i++)
        buf_printf(&in, "^%s\n", d->from->host.items[i].id);
    if (d->head.id[0])
        buf_printf(&in, "^%s\n", d->head.id);
    int r = git_run(&(struct git_call){.git_dir = d->from->path,
                                       .args = args,
                                       .input = in.data,
                                       .n_input = in.len,
                                       .hostile = true},
                    &out, NULL);
    const char *text = r == 0 ? buf_cstr(&out) : NULL;
    return text ? strtol(text, NULL, 10) : -1;
}

static const char *commits_text(long n, char text[32])
{
    snprintf(text, 32, "%ld commit%s", n, n == 1 ? "" : "s");
    return text;
}

/* git that writes to the person's repository, with a name for its reflogs. */
static int delivery_change_host(struct delivery *d, const char *const *args, const void *input,
                                size_t n, struct error *err)
{
    char name[192], email[192];
    snprintf(name, sizeof name, "GIT_COMMITTER_NAME=%s", d->name[0] ? d->name : "hutch");
    snprintf(email, sizeof email, "GIT_COMMITTER_EMAIL=%s",
             d->email[0] ? d->email : "hutch@localhost");
    const char *const env[] = {name, email, NULL};
    return git_run(
        &(struct git_call){
            .git_dir = d->host->git_dir, .args = args, .env = env, .input = input, .n_input = n},
        NULL, err);
}

/* Copies the new objects into the person's repository; git checks once more that none takes
 * another's place. */
static int delivery_install_objects(struct delivery *d, struct error *err)
{
    static const char *const args[] = {"index-pack", "--stdin", NULL};
    struct stat st;
    if (d->installed || !d->from->pack)
        return 0;
    _cleanup_fd_ int fd = open(d->from->pack, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size <= 0)
        return error_errno(err, fd < 0 ? errno : EIO, "cannot read the box's commits");
    _cleanup_free_ char *objects = str_printf("GIT_OBJECT_DIRECTORY=%s", d->host->objects);
    if (!objects)
        return error_set(err, ENOMEM, "no memory");
    const char *const env[] = {objects, NULL};
    void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED)
        return error_errno(err, errno, "cannot read the box's commits");
    int r = git_check(&(struct git_call){.git_dir = d->from->path,
                                         .args = args,
                                         .env = env,
                                         .input = bytes,
                                         .n_input = (size_t)st.st_size,
                                         .hostile = true},
                      NULL, err);
    munmap(bytes, (size_t)st.st_size);
    d->installed = r == 0;
    return r;
}

/* Sets a ref from a value that it must have: `old` "" means that there must be none, NULL that it
 * may be any. 0, 1 if the ref did not have it (err says so), or a negative errno. */
static int delivery_set_ref(struct delivery *d, const char *name, const char *new, const char *old,
                            struct error *err)
{
    char message[128], input[GIT_REF_BYTES + 3 * GIT_ID_SIZE + 64], zeros[GIT_ID_SIZE];
    size_t length = strlen(new);
    memset(zeros, '0', length);
    zeros[length] = 0;
    snprintf(message, sizeof message, "hutch: apply %.60s", d->o->id);
    int n = snprintf(input, sizeof input, "%supdate %s %s%s%s\n",
                     strcmp(name, "HEAD") ? "" : "option no-deref\n", name, new, old ? " " : "",
                     !old   ? ""
                     : *old ? old
                            : zeros);
    const char *const args[] = {"update-ref", "-m", message, "--create-reflog", "--stdin", NULL};
    int r = delivery_install_objects(d, err);
    if (r < 0 || n >= (int)sizeof input)
        return r < 0 ? r : error_set(err, ENAMETOOLONG, "the name of a branch is too long");
    r = delivery_change_host(d, args, input, (size_t)n, err);
    return r > 0 ? 1 : r;
}

/* Keeps a commit that cannot go where the box has it. `name` is refs/heads/…, or HEAD. */
static int delivery_keep_aside(struct delivery *d, const char *name, const char *id,
                               const char *why, struct error *err)
{
    char ref[GIT_REF_BYTES + 128], text[32];
    const char *tail = strncmp(name, "refs/", 5) == 0 ? name + 5 : name;
    long n = delivery_count_new(d, id);
    if (n == 0)
        return 0; /* the person has all of it */
    snprintf(ref, sizeof ref, "refs/hutch/%.60s/%s", d->o->id, tail);
    const struct git_ref *there = git_refs_find(&d->from->host, ref);
    if (there && strcmp(there->id, id) == 0)
        return 0; /* an earlier apply has said so */
    int r = delivery_set_ref(d, ref, id, NULL, err);
    if (r != 0)
        return r < 0 ? r : error_wrap(err, "cannot keep %s", ref);
    delivery_say(d, "%s was not moved: %s. Its %s from the box: %s (git merge %s)",
                 strncmp(tail, "heads/", 6) == 0 ? tail + 6 : tail, why,
                 n > 0 ? commits_text(n, text) : "commits", ref, ref);
    return 0;
}

/* Why HEAD, the index and the branch that the box has checked out cannot become what they are in
 * the box; NULL if they can. */
static int head_refusal(struct delivery *d, const char **ret_why, struct error *err)
{
    const struct git_transfer *t = d->from;
    const struct git_ref *own = t->head ? git_refs_find(&t->host, t->head) : NULL;
    bool same = t->head && d->head.branch ? strcmp(t->head, d->head.branch) == 0
                                          : !t->head && !d->head.branch;
    int r = d->head.id[0] ? delivery_is_ancestor(d, d->head.id, t->head_id, err) : 1;
    if (r == 0 && !same && git_refs_have_id(&t->past, d->head.id))
        r = 1; /* the box went from there to another branch */
    if (r < 0)
        return r;
    *ret_why = NULL;
    if (r == 0)
        *ret_why = "the box's commits do not follow yours";
    else if (!d->o->all_applied)
        *ret_why = "not all files of the box were applied";
    else if (!t->head && d->head.branch)
        *ret_why = "HEAD is on no branch in the box";
    else if (t->head && delivery_elsewhere(d, t->head))
        *ret_why = "another worktree has it checked out";
    else if (!same && own && strcmp(own->id, t->head_id) != 0) {
        r = delivery_is_ancestor(d, own->id, t->head_id, err);
        *ret_why = r == 0 ? "the box's commits do not follow yours" : NULL;
        return r < 0 ? r : 0;
    }
    return 0;
}

/* Moves the branch of the box's HEAD, HEAD and the index, under the lock of the index. 0, 1 with
 * the reason in err, or a negative errno. */
static int head_move(struct delivery *d, struct error *err)
{
    const struct git_transfer *t = d->from;
    _cleanup_(index_drop) struct index_update index = INDEX_NONE;
    bool same = t->head && d->head.branch && strcmp(t->head, d->head.branch) == 0;
    const struct git_ref *own = t->head ? git_refs_find(&t->host, t->head) : NULL;
    const char *old = !t->head ? d->head.id : own ? own->id : "";
    char message[128], now[4096];
    static const char *const ask[] = {"symbolic-ref", "-q", "HEAD", NULL};
    const char *const point[] = {"symbolic-ref", "-m", message, "HEAD", t->head, NULL};
    snprintf(message, sizeof message, "hutch: apply %.60s", d->o->id);
    int r = delivery_install_objects(d, err);
    if (r == 0)
        r = index_prepare(d->host, t, d->head.id, t->head_id, &index, err);
    if (r == 0) {
        r = git_line(&(struct git_call){.git_dir = d->host->git_dir, .args = ask, .hostile = true},
                     now, sizeof now, err);
        r = r < 0 ? r : 0;
    }
    if (r == 0 && strcmp(now, d->head.branch ? d->head.branch : "") != 0) {
        error_set(err, EBUSY, "you switched to another branch since the box started");
        r = 1;
    }
    if (r == 0 && strcmp(old, t->head_id) != 0)
        r = delivery_set_ref(d, t->head ? t->head : "HEAD", t->head_id, old, err);
    if (r == 0 && t->head && !same) {
        r = delivery_change_host(d, point, NULL, 0, err);
        r = r > 0 ? -EIO : r;
    }
    if (r != 0)
        return r;
    /* Replace the repository's index. */
    _cleanup_buf_ struct buf bytes = BUF_INIT(INDEX_MAX);
    r = io_read_file(AT_FDCWD, index.made_path, &bytes);
    if (r == 0)
        r = io_write_all(index.lock, bytes.data, bytes.len);
    if (r == 0 && rename(index.lock_path, index.index_path) < 0)
        r = -errno;
    if (r == 0)
        close(TAKE_FD(index.lock)); /* the name is the index now */
    return r < 0 ? error_errno(err, -r, "cannot replace the index") : 0;
}

static int head_deliver(struct delivery *d, struct error *err)
{
    const struct git_transfer *t = d->from;
    struct error reason = {0};
    const char *why = NULL;
    char text[32];
    bool same = t->head && d->head.branch ? strcmp(t->head, d->head.branch) == 0
                                          : !t->head && !d->head.branch;
    if (!t->head_id[0] || (same && strcmp(t->head_id, d->head.id) == 0))
        return 0;
    long n = delivery_count_new(d, t->head_id);
    int r = head_refusal(d, &why, err);
    if (r == 0 && !why) {
        r = head_move(d, &reason);
        if (r < 0)
            return error_set(err, -r, "%s", reason.text);
        why = r > 0 ? reason.text : NULL;
    }
    if (r < 0)
        return r;
    if (why) { /* a branch is dealt with among the others */
        snprintf(d->head_why, sizeof d->head_why, "%s", why);
        return t->head ? 0 : delivery_keep_aside(d, "HEAD", t->head_id, why, err);
    }
    if (same)
        delivery_say(d, "%s: fast-forwarded by %s to %.*s",
                     t->head ? t->head + strlen("refs/heads/") : "HEAD", commits_text(n, text),
                     SHORT_ID, t->head_id);
    else
        delivery_say(d, "switched to %s %.*s, as in the box (%s)",
                     t->head ? t->head + strlen("refs/heads/") : "commit", SHORT_ID, t->head_id,
                     n > 0 ? commits_text(n, text) : "no new commits");
    free(d->head.branch);
    d->head.branch = t->head ? strdup(t->head) : NULL;
    snprintf(d->head.id, sizeof d->head.id, "%s", t->head_id);
    return 0;
}

/* A branch, tag or note that is not checked out here. */
static int ref_deliver(struct delivery *d, const struct git_ref *ref, struct error *err)
{
    struct error reason = {0};
    const struct git_ref *own = git_refs_find(&d->from->host, ref->name);
    bool tag = strncmp(ref->name, "refs/tags/", 10) == 0,
         branch = strncmp(ref->name, "refs/heads/", 11) == 0;
    const char *label = strchr(ref->name + strlen("refs/"), '/') + 1, *why = NULL;
    char text[32];
    if (own && strcmp(own->id, ref->id) == 0)
        return 0;
    bool is_box_head = d->from->head && strcmp(d->from->head, ref->name) == 0;
    if (d->head.branch && strcmp(d->head.branch, ref->name) == 0) {
        if (strcmp(d->head.id, ref->id) == 0)
            return 0; /* just delivered */
        why =
            is_box_head ? d->head_why : "it is checked out here, and the box is on another branch";
    } else if (branch && delivery_elsewhere(d, ref->name))
        why = "another worktree has it checked out";
    else if (own && tag)
        why = "you have another tag of that name";
    if (!why && own) {
        int r = delivery_is_ancestor(d, own->id, ref->id, err);
        if (r < 0)
            return r;
        why = r ? NULL : "the box's commits do not follow yours";
    }
    long n = delivery_count_new(d, ref->id);
    int r = why ? 1 : delivery_set_ref(d, ref->name, ref->id, own ? own->id : "", &reason);
    if (r < 0)
        return error_set(err, -r, "%s", reason.text);
    if (r > 0)
        return delivery_keep_aside(d, ref->name, ref->id, why ? why : reason.text, err);
    if (own)
        delivery_say(d, "%s: fast-forwarded by %s to %.*s", label, commits_text(n, text), SHORT_ID,
                     ref->id);
    else
        delivery_say(d, "new %s %s at %.*s",
                     tag      ? "tag"
                     : branch ? "branch"
                              : "notes",
                     label, SHORT_ID, ref->id);
    if (is_box_head && d->head_why[0])
        delivery_say(d, "the box is on %s, your repository stays where it is: %s (git switch %s)",
                     label, d->head_why, label);
    return 0;
}

/* Oldest first, so that the newest is stash@{0} here, too. */
static int stashes_deliver(struct delivery *d, struct error *err)
{
    static const char *const list[] = {"log", "-g", "--format=%H", "refs/stash", "--", NULL};
    const struct git_transfer *t = d->from;
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    size_t added = 0;
    if (t->n_stashes == 0)
        return 0;
    const char *own = NULL;
    if (git_refs_find(&t->host, "refs/stash")) {
        int r = git_check(&(struct git_call){.git_dir = d->host->git_dir, .args = list}, &out, err);
        if (r < 0)
            return r;
        own = buf_cstr(&out);
    }
    for (size_t i = t->n_stashes; i-- > 0;) {
        const char *const store[] = {"stash",          "store", "-q", "-m", t->stashes[i].message,
                                     t->stashes[i].id, NULL};
        if (own && strstr(own, t->stashes[i].id))
            continue;
        int r = delivery_install_objects(d, err);
        if (r == 0)
            r = delivery_change_host(d, store, NULL, 0, err);
        if (r != 0)
            return r < 0 ? r : error_wrap(err, "cannot keep a stash of the box");
        added++;
    }
    if (added)
        delivery_say(d, "%zu stash%s from the box: see git stash list", added,
                     added == 1 ? "" : "es");
    return 0;
}

int git_deliver(const struct git_repo *host, const struct git_transfer *from,
                const struct git_deliver_options *o, struct error *err)
{
    _cleanup_(delivery_free) struct delivery d = {
        .host = host, .from = from, .o = o, .elsewhere = BUF_INIT(0)};
    static const char *const branch[] = {"symbolic-ref", "-q", "HEAD", NULL};
    static const char *const commit[] = {"rev-parse", "-q", "--verify", "HEAD^{commit}", NULL};
    static const char *const worktrees[] = {"worktree", "list", "--porcelain", NULL};
    struct git_call call = {.git_dir = host->git_dir, .args = branch, .hostile = true};
    char name[4096];
    git_identity(host->work_tree, d.name, d.email);
    int r = git_line(&call, name, sizeof name, err);
    call.args = commit;
    if (r >= 0)
        r = git_line(&call, d.head.id, sizeof d.head.id, err);
    if (r >= 0 && *name && !(d.head.branch = strdup(name)))
        r = error_set(err, ENOMEM, "no memory");
    call.args = worktrees; /* their branches must not move beneath them */
    if (r >= 0)
        r = git_check(&call, &d.elsewhere, err);
    if (r == 0)
        r = head_deliver(&d, err);
    for (size_t i = 0; r == 0 && i < from->refs.count; i++)
        r = ref_deliver(&d, &from->refs.items[i], err);
    if (r == 0)
        r = stashes_deliver(&d, err);
    if (r == 0 && from->unsafe_names)
        delivery_say(&d, "%zu branch%s or tag%s of the box left out: unusual names",
                     from->unsafe_names, from->unsafe_names == 1 ? "" : "es",
                     from->unsafe_names == 1 ? "" : "s");
    return r;
}
