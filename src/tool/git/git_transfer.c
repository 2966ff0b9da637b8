#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "git_transfer.h"
#include "io.h"
#include "text.h"
#include "banned.h"

#define LIST_MAX       (16u << 20) /* bytes of what the box says about its refs */
#define PAST_MAX       "1000"
#define PACK_MAX       (1ull << 30)
#define IDS_MAX        (64u << 20)
#define STASH_TEXT_MAX 200

/* Runs in the box, where a hostile repository may do what it likes. GIT_DIR keeps git from
 * searching the parent folders. One line per fact, the first word says which. */
static const char LIST_SCRIPT[] =
    "command -v git >/dev/null || exit 90\n"
    "cd -- \"$1\" || exit 91\n"
    "[ -e .git ] || exit 91\n"
    "export GIT_DIR=.git\n"
    "format=$(git rev-parse --show-object-format) || exit 92\n"
    "echo \"format $format\"\n"
    "echo \"head $(git rev-parse -q --verify 'HEAD^{commit}')\"\n"
    "echo \"branch $(git symbolic-ref -q HEAD)\"\n"
    "git for-each-ref --format='ref %(objectname) %(refname)' refs/heads refs/tags refs/notes\n"
    "git rev-parse -q --verify refs/stash >/dev/null && git log -g -n 100 --format='stash %H %gs' "
    "refs/stash "
    "--\n"
    "git log -g -n " PAST_MAX " --format='past %H' HEAD -- 2>/dev/null\n"
    "exit 0\n";

/* stdin: what the host has, of which the box may lack some; $2: what it wants. */
static const char PACK_SCRIPT[] =
    "cd -- \"$1\" || exit 91\n"
    "export GIT_DIR=.git\n"
    "have=$(git rev-list --no-walk --ignore-missing --stdin)\n"
    "printf '%s\\n--not\\n%s\\n' \"$2\" \"$have\" | git -c pack.threads=1 -c pack.windowMemory=64m"
    " pack-objects -q --stdout --revs --thin --delta-base-offset\n";

/* One script in the box. Returns its exit status or a negative errno. */
static int transfer_run(struct box *box, const char *script, const char *folder, const char *wanted,
                        int in, int out, const struct git_transfer_options *o, struct error *err)
{
    const char *const argv[] = {"/bin/sh", "-c", script, "sh", folder, wanted, NULL};
    static const char *const env[] = {"LC_ALL=C",
                                      "GIT_TERMINAL_PROMPT=0",
                                      "GIT_OPTIONAL_LOCKS=0",
                                      "GIT_NO_LAZY_FETCH=1",
                                      "GIT_PAGER=cat",
                                      NULL};
    struct box_result result = {0};
    const struct box_command c = {.argv = (char *const *)argv,
                                  .env = (char *const *)env,
                                  .cwd = "/",
                                  .timeout_ns = o->timeout_ns ? o->timeout_ns : GIT_TIMEOUT_NS,
                                  .in = in,
                                  .out = out,
                                  .err = -1,
                                  .cancel = o->cancel > 0 ? o->cancel : -1};
    int r = box_exec(box, &c, &result, err);
    if (r < 0)
        return r == -ECANCELED ? error_set(err, ECANCELED, "interrupted") : r;
    int status = result.exit_code;
    if (result.limit == WIRE_LIMIT_TIMEOUT)
        status = error_set(err, ETIMEDOUT, "git in the box took too long and was ended");
    box_result_free(&result);
    return status;
}

/* --- what the box says about its repository --- */

/* One line of the list. -EINVAL for what no git would say. */
static int transfer_take_line(struct git_transfer *t, const struct git_repo *host, char *line)
{
    char *value = strchr(line, ' ');
    if (!value)
        return -EINVAL;
    *value++ = 0;
    if (strcmp(line, "format") == 0)
        return strcmp(value, host->format) == 0 ? 0 : -ENOTSUP;
    if (strcmp(line, "branch") == 0) {
        if (git_ref_name_is_safe(value) && !t->head && !(t->head = strdup(value)))
            return -ENOMEM;
        return 0;
    }
    if (strcmp(line, "head") == 0 && !*value)
        return 0;
    char *rest = strchr(value, ' ');
    if (rest)
        *rest++ = 0;
    if (!git_id_is_valid(value) || (strlen(value) == 64) != (strcmp(host->format, "sha256") == 0))
        return -EINVAL;
    if (strcmp(line, "head") == 0)
        snprintf(t->head_id, sizeof t->head_id, "%s", value);
    else if (strcmp(line, "past") == 0)
        return git_refs_add(&t->past, "", value);
    else if (strcmp(line, "stash") == 0) {
        struct git_stash *all = realloc(t->stashes, (t->n_stashes + 1) * sizeof *all);
        if (!all)
            return -ENOMEM;
        t->stashes = all;
        if (t->n_stashes == GIT_TRANSFER_STASHES)
            return 0;
        struct git_stash *one = &all[t->n_stashes];
        snprintf(one->id, sizeof one->id, "%s", value);
        one->message = foreign_text(rest ? rest : "", rest ? strlen(rest) : 0, STASH_TEXT_MAX);
        t->n_stashes += one->message != NULL;
        return one->message ? 0 : -ENOMEM;
    } else if (strcmp(line, "ref") == 0 && rest && git_ref_name_is_safe(rest))
        return git_refs_add(&t->refs, rest, value);
    else if (strcmp(line, "ref") == 0)
        t->unsafe_names++;
    else
        return -EINVAL;
    return 0;
}

static int transfer_list(struct box *box, const char *folder, const struct git_repo *host,
                         const struct git_transfer_options *o, struct git_transfer *t,
                         struct error *err)
{
    /* A file in memory that takes so many bytes and not one more: a box that says more is cut
     * off. */
    _cleanup_fd_ int room = memfd_create("hutch-git", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    _cleanup_buf_ struct buf text = BUF_INIT(LIST_MAX + 1);
    if (room < 0 || ftruncate(room, LIST_MAX) < 0 || fcntl(room, F_ADD_SEALS, F_SEAL_GROW) < 0)
        return error_errno(err, errno, "cannot read the box's branches");
    int r = transfer_run(box, LIST_SCRIPT, folder, "", -1, room, o, err);
    if (r < 0)
        return r;
    if (r == 90 || r == 127)
        return error_set(err, ENODATA, "there is no git in the box");
    if (r != 0)
        return error_set(err, ENODATA, "the box has no git repository there that git can read");
    off_t n = lseek(room, 0, SEEK_CUR);
    void *to = n < 0 ? NULL : buf_reserve(&text, (size_t)n + 1);
    if (!to || pread(room, to, (size_t)n, 0) != n)
        return error_set(err, EIO, "cannot read the box's branches");
    text.len = (size_t)n;
    char *at = buf_cstr(&text);
    for (char *line; r == 0 && at && (line = strsep(&at, "\n"));)
        r = *line ? transfer_take_line(t, host, line) : 0;
    if (r == -ENOTSUP)
        return error_set(err, ENOTSUP,
                         "the box's repository has another object format than yours (%s)",
                         host->format);
    return r < 0 ? error_set(err, -r,
                             "the box says something about its branches that git would not say")
                 : 0;
}

/* --- the quarantine --- */

static int quarantine_write(const char *folder, const char *name, const void *data, size_t n)
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        return -ENAMETOOLONG;
    _cleanup_fd_ int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    return fd < 0 ? -errno : io_write_all(fd, data, n);
}

/* A bare repository with the person's objects, its shallow boundary, and attributes that keep every
 * filter out. */
static int quarantine_make(struct git_transfer *t, const struct git_repo *host, struct error *err)
{
    static const char NO_FILTERS[] = "* -text -ident !filter !diff !merge !working-tree-encoding\n";
    _cleanup_buf_ struct buf shallow = BUF_INIT(IDS_MAX);
    char format[32], text[PATH_MAX + 2];
    struct stat st;
    int r = git_make_temporary("hutch-git", &t->path, err);
    if (r < 0)
        return r;
    if (geteuid() == 0 && stat(host->git_dir, &st) == 0 && chown(t->path, st.st_uid, st.st_gid) < 0)
        return error_errno(err, errno, "cannot make a temporary folder");
    snprintf(format, sizeof format, "--object-format=%s", host->format);
    const char *const args[] = {"init", "-q", "--bare", "--template=", format, t->path, NULL};
    r = git_check(&(struct git_call){.args = args, .owner_of = t->path}, NULL, err);
    if (r < 0)
        return r;
    snprintf(text, sizeof text, "%s/info", t->path);
    if (mkdir(text, 0755) < 0 && errno != EEXIST)
        r = -errno;
    if (snprintf(text, sizeof text, "%s\n", host->objects) >= (int)sizeof text)
        r = -ENAMETOOLONG;
    if (r == 0)
        r = quarantine_write(t->path, "objects/info/alternates", text, strlen(text));
    if (r == 0)
        r = quarantine_write(t->path, "info/attributes", NO_FILTERS, sizeof NO_FILTERS - 1);
    if (r == 0 && host->is_shallow)
        r = io_read_file(AT_FDCWD, host->shallow, &shallow);
    if (r == 0 && shallow.len)
        r = quarantine_write(t->path, "shallow", shallow.data, shallow.len);
    return r < 0 ? error_errno(err, -r, "cannot prepare a temporary repository") : 0;
}

/* --- the objects --- */

static void refs_append_ids(struct buf *b, const char *prefix, const struct git_refs *refs)
{
    for (size_t i = 0; i < refs->count; i++)
        buf_printf(b, "%s%s\n", prefix, refs->items[i].id);
}

/* Adds an id that the host has no ref for, once; one more than are allowed are enough. */
static int wanted_add(const struct git_transfer *t, const char *id, struct git_refs *wanted)
{
    if (!id[0] || wanted->count > GIT_TRANSFER_REFS_MAX || git_refs_have_id(&t->host, id) ||
        git_refs_have_id(wanted, id))
        return 0;
    return git_refs_add(wanted, "", id);
}

/* The box writes straight into index-pack, which stops reading at the limit: the box's git ends by
 * that. */
static int transfer_receive_pack(struct box *box, const char *folder, const char *wanted, int have,
                                 const struct git_transfer_options *o, struct git_transfer *t,
                                 struct error *err)
{
    char limit[64];
    struct child git = CHILD_NONE;
    struct error said = {0};
    _cleanup_buf_ struct buf out = BUF_INIT(0);
    snprintf(limit, sizeof limit, "--max-input-size=%llu",
             (unsigned long long)(o->max_bytes ? o->max_bytes : PACK_MAX));
    const char *const args[] = {"index-pack", "--stdin", "--fix-thin", "--strict", limit, NULL};
    const struct git_call call = {.git_dir = t->path,
                                  .args = args,
                                  .timeout_ns = o->timeout_ns,
                                  .cancel = o->cancel,
                                  .hostile = true};
    int r = git_run_begin(&call, &git, err);
    if (r < 0)
        return r;
    io_set_nonblock(git.in, false);
    int status = transfer_run(box, PACK_SCRIPT, folder, wanted, have, git.in, o, err);
    r = git_run_finish(&call, &git, &out, &said);
    if (status < 0)
        return status;
    if (r == -ECANCELED)
        return error_set(err, ECANCELED, "interrupted");
    if (r != 0)
        return error_set(err, EBADMSG, "%s", said.text);
    /* index-pack prints "pack", a tab and the pack's name. */
    char *text = buf_cstr(&out), *name = text ? strchr(text, '\t') : NULL;
    if (name)
        name[1 + strcspn(name + 1, "\n")] = 0;
    if (name && git_id_is_valid(name + 1))
        t->pack = str_printf("%s/objects/pack/pack-%s.pack", t->path, name + 1);
    return t->pack ? 0 : error_set(err, EPROTO, "git index-pack did not name the pack");
}

static int transfer_objects(struct box *box, const char *folder,
                            const struct git_transfer_options *o, struct git_transfer *t,
                            struct error *err)
{
    static const char *const connected[] = {"rev-list", "--objects", "--quiet", "--stdin", NULL};
    struct git_refs wanted = {0};
    _cleanup_buf_ struct buf ids = BUF_INIT(1u << 20), have = BUF_INIT(IDS_MAX),
                             in = BUF_INIT(IDS_MAX);
    int r = 0;
    for (size_t i = 0; r == 0 && i < t->refs.count; i++)
        r = wanted_add(t, t->refs.items[i].id, &wanted);
    for (size_t i = 0; r == 0 && i < t->n_stashes; i++)
        r = wanted_add(t, t->stashes[i].id, &wanted);
    if (r == 0)
        r = wanted_add(t, t->head_id, &wanted);
    size_t count = wanted.count;
    refs_append_ids(&ids, "", &wanted);
    refs_append_ids(&have, "", &t->host);
    refs_append_ids(&in, "", &wanted);
    refs_append_ids(&in, "^", &t->host);
    git_refs_free(&wanted);
    if (r < 0 || have.failed || in.failed)
        return error_set(err, ENOMEM, "no memory");
    if (count == 0)
        return 0;
    const char *text = count > GIT_TRANSFER_REFS_MAX ? NULL : buf_cstr(&ids);
    if (!text)
        return error_set(err, E2BIG, "the box has more than %u new branches, tags and stashes",
                         GIT_TRANSFER_REFS_MAX);
    _cleanup_fd_ int have_fd = io_memory_file(have.data, have.len);
    if (have_fd < 0)
        return error_errno(err, -have_fd, "cannot ask the box for its commits");
    r = transfer_receive_pack(box, folder, text, have_fd, o, t, err);
    if (r < 0)
        return r;

    /* All that the new refs reach must be there, as `git fetch` checks it. */
    r = git_run(&(struct git_call){.git_dir = t->path,
                                   .args = connected,
                                   .input = in.data,
                                   .n_input = in.len,
                                   .timeout_ns = o->timeout_ns,
                                   .cancel = o->cancel,
                                   .hostile = true},
                NULL, err);
    return r <= 0 ? r : error_set(err, EBADMSG, "objects are missing");
}

int git_transfer(struct box *box, const char *folder, const struct git_repo *host,
                 const struct git_transfer_options *o, struct git_transfer *ret, struct error *err)
{
    static const char *const update[] = {"update-ref", "--stdin", NULL};
    _cleanup_git_transfer_ struct git_transfer t = {0};
    _cleanup_buf_ struct buf in = BUF_INIT(IDS_MAX);
    int r = transfer_list(box, folder, host, o, &t, err);
    if (r == 0)
        r = git_refs_read(host->git_dir, &t.host, err);
    if (r == 0)
        r = quarantine_make(&t, host, err);
    if (r == 0)
        r = transfer_objects(box, folder, o, &t, err);
    for (size_t i = 0; i < t.refs.count; i++)
        buf_printf(&in, "create refs/box/%s %s\n", t.refs.items[i].name + strlen("refs/"),
                   t.refs.items[i].id);
    for (size_t i = 0; i < t.n_stashes; i++)
        buf_printf(&in, "create refs/box/stash/%zu %s\n", i, t.stashes[i].id);
    if (t.head_id[0])
        buf_printf(&in, "create refs/box/HEAD %s\n", t.head_id);
    const struct git_call name_refs = {
        .git_dir = t.path, .args = update, .input = in.data, .n_input = in.len, .hostile = true};
    if (r == 0 && in.failed)
        r = error_set(err, ENOMEM, "no memory");
    if (r == 0 && in.len && (r = git_run(&name_refs, NULL, err)) > 0)
        r = -EBADMSG;
    if (r == 0) {
        *ret = t;
        t = (struct git_transfer){0};
    }
    return r;
}

void git_transfer_free(struct git_transfer *t)
{
    if (t->path)
        git_remove_tree(t->path);
    for (size_t i = 0; i < t->n_stashes; i++)
        free(t->stashes[i].message);
    free(t->stashes);
    free(t->path);
    free(t->head);
    free(t->pack);
    git_refs_free(&t->refs);
    git_refs_free(&t->past);
    git_refs_free(&t->host);
    *t = (struct git_transfer){0};
}
