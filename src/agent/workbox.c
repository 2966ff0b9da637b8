/*
 * An agent's box: starting it or finding it again, snapshots and forks; what it changed in the
 * workspace, listed with lines counted, compared between two states, and as a patch beside the
 * history and back.
 *
 * The list of changes says what became of each path, the statistics of the diff how many lines.
 * What lies beneath a .git is left out, as apply leaves it out. Whether two states of a box differ
 * at a path in the same way shows the diff itself: it has one section per file, whose text is the
 * same exactly if the file is.
 *
 * A patch is loaded in pieces of whole files, because the guest takes a diff of limited size; a
 * piece that does not apply (the person changed one of its files meanwhile) is tried again file by
 * file, so that only what cannot be restored is missing.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ask.h"
#include "encoding.h"
#include "git.h"
#include "io.h"
#include "json.h"
#include "relpath.h"
#include "session.h"
#include "workbox.h"
#include "banned.h"

#define STAT_MAX      (64u << 20)
#define QUOTED_MAX    (1u << 20)
#define COUNTED_MAX   100000u /* changes; of more the lines are not counted */
#define PIECE_MAX     (8u << 20)
#define MISSING_SHOWN 5
#define SECTION       "diff --git "

static struct workbox *workbox_alloc(struct error *err)
{
    struct workbox *w = calloc(1, sizeof *w);
    if (!w) {
        error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    w->hearing = -1;
    return w;
}

int workbox_new(const struct box_options *o, struct workbox **ret, struct error *err)
{
    const struct keeper_life life = {.ttl_ns = WORKBOX_IDLE_NS, .idle = true};
    struct workbox *w = workbox_alloc(err);
    if (!w)
        return -ENOMEM;
    w->mode = o->mode;
    w->pristine = w->plain = true;
    struct box_options with = *o;
    git_box_prepare(&with, &w->git);
    int r = keeper_begin(&with, &life, &w->hearing, err);
    if (r < 0) {
        workbox_free(w, false);
        return r;
    }
    *ret = w;
    return 0;
}

int workbox_ready(struct workbox *w, struct error *err)
{
    if (w->hearing < 0)
        return 0;
    struct registry_id id;
    int r = keeper_hear(w->hearing, &id, err);
    close(TAKE_FD(w->hearing));
    if (r == 0)
        r = keeper_attach(&id, &w->box, err);
    if (r == 0 && w->git.worktree.needed) {
        r = git_box_install(&w->git, w->box, err);
        w->pristine = w->plain = false; /* the box is not as it began: an undo must not lose that */
    }
    return r;
}

int workbox_find(const char *id, struct workbox **ret, struct error *err)
{
    _cleanup_box_info_ struct box_info info = {0};
    /* The beginning of a name would do for a person; a history has all of it. */
    if (strlen(id) != REGISTRY_ID_LEN || strchr(id, '/') || strchr(id, '.'))
        return error_set(err, ENOENT, "the box '%.32s' is gone", id);
    struct workbox *w = workbox_alloc(err);
    if (!w)
        return -ENOMEM;
    int r = keeper_find(id, &w->box, err);
    if (r == 0)
        r = box_info(w->box, &info, err);
    if (r < 0) {
        workbox_free(w, false);
        return r == -EPIPE ? -ENOENT : r;
    }
    w->mode = info.mode;
    w->git.worktree.needed = info.workspace && git_worktree_is_linked(info.workspace);
    *ret = w;
    return 0;
}

struct workbox *workbox_free(struct workbox *w, bool remove)
{
    if (!w)
        return NULL;
    if (remove && workbox_ready(w, NULL) == 0 && w->box)
        keeper_remove(w->box, NULL);
    cleanup_close(&w->hearing);
    box_close(w->box);
    git_box_free(&w->git);
    free(w);
    return NULL;
}

const char *workbox_id(const struct workbox *w)
{
    return w->box ? box_id(w->box) : "";
}

int workbox_snapshot(struct workbox *w, char ret_name[KEEPER_SNAPSHOT_NAME], struct error *err)
{
    w->delivered = false;
    if (w->pristine) {
        w->pristine = false;
        snprintf(ret_name, KEEPER_SNAPSHOT_NAME, "%s", KEEPER_ORIGIN);
        return 0;
    }
    return keeper_snapshot(w->box, ret_name, err);
}

void workbox_reverted_free(struct workbox_reverted *r)
{
    for (size_t i = 0; i < r->count; i++)
        free(r->paths[i]);
    free(r->paths);
    buf_free(&r->failures);
    *r = WORKBOX_REVERTED_INIT;
}

static void reverted_add(void *data, const char *path, const char *why)
{
    struct workbox_reverted *r = data;
    if (why && r->failed++ < 5) {
        buf_printf(&r->failures, "%s%.400s: %s", r->failures.len ? "; " : "", path, why);
        return;
    }
    char *copy = why || !list_grow(&r->paths, r->count, sizeof *r->paths) ? NULL : strdup(path);
    if (copy)
        r->paths[r->count++] = copy;
}

int workbox_restore(struct workbox *w, const char *name, struct workbox_reverted *reverted,
                    struct error *err)
{
    const struct restore_report report = {.say = reverted_add, .data = reverted};
    int r = keeper_restore(w->box, name, &report, err);
    w->delivered = false;
    if (r == 0)
        w->pristine = strcmp(name, KEEPER_ORIGIN) == 0 && reverted->count == 0;
    return r;
}

int workbox_fork(struct workbox *w, const char *snapshot, struct workbox **ret, struct error *err)
{
    _cleanup_reverted_ struct workbox_reverted reverted = WORKBOX_REVERTED_INIT;
    const struct restore_report report = {.say = reverted_add, .data = &reverted};
    struct registry_id id;
    struct workbox *fork = workbox_alloc(err);
    if (!fork)
        return -ENOMEM;
    if (!snapshot && w->pristine)
        snapshot = KEEPER_ORIGIN;
    int r = keeper_fork(w->box, snapshot, 1, &report, &id, err);
    if (r == 0)
        r = keeper_attach(&id, &fork->box, err);
    if (r < 0) {
        workbox_free(fork, false);
        return r;
    }
    fork->mode = w->mode;
    fork->pristine = true; /* as the fork began: that is its origin */
    fork->plain =
        w->plain && snapshot && strcmp(snapshot, KEEPER_ORIGIN) == 0 && reverted.count == 0;
    *ret = fork;
    return 0;
}

int workbox_sync(struct workbox *w, const struct apply_options *o,
                 const struct apply_report *report, struct error *err)
{
    return w->mode != BOX_COW || w->pristine ? 0 : box_sync(w->box, o, report, err);
}

void agent_changes_free(struct agent_changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].path);
    free(c->items);
    *c = (struct agent_changes){0};
}

int agent_changes_copy(const struct agent_changes *from, struct agent_changes *ret)
{
    struct agent_changes c = *from;
    c.count = 0;
    c.items = calloc(from->count + 1, sizeof *c.items);
    for (; c.items && c.count < from->count; c.count++) {
        c.items[c.count] = from->items[c.count];
        c.items[c.count].path = strdup(from->items[c.count].path);
        if (!c.items[c.count].path)
            break;
    }
    *ret = c;
    if (c.items && c.count == from->count)
        return 0;
    agent_changes_free(ret);
    return -ENOMEM;
}

/* Adds the numbers of `git diff --numstat`: ADDED<tab>DELETED<tab>PATH, `-` for both of a binary
 * file, FROM => TO for the path of a renamed one. */
static void changes_add_lines(struct agent_changes *c, char *text)
{
    _cleanup_json_ json_t *index = json_object(); /* where each is, by its name in the diff */
    for (size_t i = 0; i < c->count; i++) {
        _cleanup_buf_ struct buf quoted = BUF_INIT(QUOTED_MAX);
        cquote_append(&quoted, "", c->items[i].path);
        if (buf_cstr(&quoted))
            json_object_set_new(index, (char *)quoted.data, json_integer((json_int_t)i));
    }
    for (char *line; (line = strsep(&text, "\n"));) {
        char *end = line;
        uint64_t added = 0, deleted = 0;
        bool binary = strncmp(line, "-\t-\t", 4) == 0;
        if (!binary && (*line < '0' || *line > '9'))
            continue;
        if (!binary) {
            added = strtoull(line, &end, 10);
            deleted = *end == '\t' ? strtoull(end + 1, &end, 10) : 0;
            if (*end != '\t')
                continue;
        }
        const char *path = binary ? line + 4 : end + 1;
        const json_t *at = json_object_get(index, path);
        for (const char *arrow = path; !at && (arrow = strstr(arrow, " => "));)
            at = json_object_get(index, arrow += 4);
        if (!at)
            continue;
        struct agent_change *one = &c->items[json_integer_value(at)];
        one->added = added;
        one->deleted = deleted;
        one->binary = binary;
        c->added += added;
        c->deleted += deleted;
    }
}

int workbox_changes(struct workbox *w, struct agent_changes *ret, struct error *err)
{
    struct box_changes list = {0};
    struct agent_changes c = {0};
    struct git_path g;
    if (w->mode != BOX_COW || (w->pristine && w->plain)) {
        *ret = c;
        return 0;
    }
    int r = box_changes(w->box, &list, err);
    c.items = r == 0 ? calloc(list.count + 1, sizeof *c.items) : NULL;
    if (r == 0 && !c.items)
        r = error_set(err, ENOMEM, "out of memory");
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        enum wire_change kind = list.items[i].kind;
        if (git_path_split(list.items[i].path, &g))
            c.commits |= g.kind == GIT_PATH_COMMITS;
        else if (!relpath_touches_git(list.items[i].path))
            c.items[c.count++] = (struct agent_change){.path = TAKE_PTR(list.items[i].path),
                                                       .kind = kind == WIRE_ADDED     ? "added"
                                                               : kind == WIRE_DELETED ? "deleted"
                                                                                      : "modified"};
    }
    box_changes_free(&list);
    if (r == 0 && w->git.worktree.needed)
        c.commits = !w->delivered && git_worktree_moved(w->box);
    c.commits &= !w->delivered;

    if (r == 0 && c.count > 0 && c.count <= COUNTED_MAX) {
        _cleanup_buf_ struct buf text = BUF_INIT(STAT_MAX);
        _cleanup_fd_ int file = memfd_create("stat", MFD_CLOEXEC);
        r = file < 0 ? error_errno(err, errno, "cannot count the changes")
                     : box_diff(w->box, true, file, err);
        /* Where they are too many to be counted, the list itself is there. */
        if (r == 0 && lseek(file, 0, SEEK_SET) == 0 && io_read_all(file, &text) == 0 &&
            buf_cstr(&text))
            changes_add_lines(&c, (char *)text.data);
    }
    if (r < 0) {
        agent_changes_free(&c);
        return r;
    }
    *ret = c;
    return 0;
}

/* Where the next section of a diff begins: at a line that begins with SECTION, which no other line
 * does. */
static const char *section_end(const char *at, const char *end)
{
    for (const char *line = at; (line = memchr(line, '\n', (size_t)(end - line)));) {
        line++;
        if ((size_t)(end - line) >= strlen(SECTION) && memcmp(line, SECTION, strlen(SECTION)) == 0)
            return line;
    }
    return end;
}

/* A digest of each section of the box's diff, by its first line. */
static int diff_hashes(struct workbox *w, json_t *hashes, struct error *err)
{
    struct stat st;
    _cleanup_fd_ int file = io_unnamed_file();
    int r = file < 0 ? error_errno(err, -file, "cannot compare the changes")
                     : box_diff(w->box, false, file, err);
    if (r < 0)
        return r;
    if (fstat(file, &st) < 0)
        return error_errno(err, errno, "cannot compare the changes");
    if (st.st_size == 0)
        return 0;
    char *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED)
        return error_errno(err, errno, "cannot compare the changes");
    const char *end = text + st.st_size;
    for (const char *at = text, *next; at < end; at = next) {
        next = section_end(at, end);
        uint64_t hash = digest(DIGEST_BEGIN, at, (size_t)(next - at));
        const char *newline = memchr(at, '\n', (size_t)(next - at));
        json_object_setn_new_nocheck(hashes, at, (size_t)((newline ? newline : next) - at),
                                     json_integer((json_int_t)hash));
    }
    munmap(text, (size_t)st.st_size);
    return 0;
}

int workbox_fingerprints(struct workbox *w, json_t **ret, struct error *err)
{
    struct agent_changes c = {0};
    _cleanup_json_ json_t *hashes = json_object(), *prints = json_object();
    int r = workbox_changes(w, &c, err);
    if (r == 0 && c.count)
        r = diff_hashes(w, hashes, err);
    for (size_t i = 0; r == 0 && i < c.count; i++) {
        _cleanup_buf_ struct buf header = BUF_INIT(QUOTED_MAX);
        buf_append_str(&header, SECTION);
        cquote_append(&header, "a/", c.items[i].path);
        buf_append(&header, " ", 1);
        cquote_append(&header, "b/", c.items[i].path);
        const json_t *hash =
            header.failed ? NULL : json_object_getn(hashes, (const char *)header.data, header.len);
        json_object_set_new_nocheck(prints, c.items[i].path,
                                    json_integer(json_integer_value(hash)));
    }
    agent_changes_free(&c);
    if (r == 0)
        *ret = TAKE_PTR(prints);
    return r;
}

size_t fingerprints_differ(const json_t *a, const json_t *b)
{
    const char *path;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)a, path, value) n +=
        !json_object_get(b, path) || !json_equal(value, json_object_get(b, path));
    json_object_foreach((json_t *)b, path, value) n += !json_object_get(a, path);
    return n;
}

int workbox_save(struct workbox *w, int folder, const char *name, struct error *err)
{
    char temporary[NAME_MAX];
    struct stat st = {0};
    if (w->mode != BOX_COW)
        return 0;
    snprintf(temporary, sizeof temporary, "%s.new", name);
    _cleanup_fd_ int file =
        openat(folder, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0)
        return error_errno(err, errno, "cannot save the changes as %s", name);
    int r = box_diff(w->box, false, file, err);
    if (r == 0 && fstat(file, &st) < 0)
        r = error_errno(err, errno, "cannot save the changes as %s", name);
    if (r == 0 && st.st_size > (off_t)WORKBOX_PATCH_MAX)
        r = error_set(err, EFBIG, "the changes exceed %u MB and were not saved beside the history",
                      WORKBOX_PATCH_MAX >> 20);
    if (r == 0 && st.st_size == 0)
        unlinkat(folder, name, 0);
    else if (r == 0 && (fsync(file) < 0 || renameat(folder, temporary, folder, name) < 0))
        r = error_errno(err, errno, "cannot save the changes as %s", name);
    if (r < 0 || st.st_size == 0)
        unlinkat(folder, temporary, 0);
    return r;
}

/* 0, or 1 if it does not apply: nothing was changed then. */
static int patch_apply_piece(struct tool_session *s, const char *from, const char *to,
                             struct error *err)
{
    struct tool_call nobody = {.session = s, .cancel = -1};
    struct wire_frame f;
    _cleanup_ask_ struct ask a;
    ask_begin(&a, &nobody, WIRE_PATCH);
    ask_path(&a, ".");
    wire_put_u64(&a.out, WIRE_K_STRIP, 1);
    wire_put_u64(&a.out, WIRE_K_FUZZ, 0);
    int r = ask_send(&a, err);
    if (r == 0)
        r = ask_data(&a, from, (size_t)(to - from), true, err);
    bool rejected = false;
    while (r >= 0 && (r = ask_next(&a, &f, err)) > 0) {
        struct wire_field reason;
        rejected |= wire_find(&f, WIRE_K_TEXT, &reason);
    }
    if (r == -EPIPE || r == -ECANCELED || r == -ETIMEDOUT)
        return r; /* the box itself fails */
    return r < 0 || rejected || wire_find_u64(&f, WIRE_K_CODE, 0) != 0;
}

/* Loads a patch; `names` gets the first of the files that do not fit. Returns how many do not. */
static int patch_load(struct tool_session *s, const char *at, const char *end, struct buf *names,
                      struct error *err)
{
    int missing = 0;
    for (const char *next; at < end; at = next) {
        next = section_end(at, end);
        while (next < end && (size_t)(section_end(next, end) - at) <= PIECE_MAX)
            next = section_end(next, end);
        int r = patch_apply_piece(s, at, next, err);
        for (const char *stop; r > 0 && at < next; at = stop) {
            stop = section_end(at, next);
            r = patch_apply_piece(s, at, stop, err);
            if (r > 0 && missing++ < MISSING_SHOWN) {
                const char *newline = memchr(at, '\n', (size_t)(stop - at));
                size_t skip = strlen(SECTION), n = (size_t)((newline ? newline : stop) - at);
                if (n > skip)
                    buf_printf(names, "%s%.*s", names->len ? "; " : "",
                               (int)(n - skip < 200 ? n - skip : 200), at + skip);
            }
            r = r < 0 ? r : 1;
        }
        if (r < 0)
            return r;
    }
    return missing;
}

int workbox_load(struct workbox *w, int folder, const char *name, struct error *err)
{
    _cleanup_buf_ struct buf names = BUF_INIT(4096);
    struct tool_session *s = NULL;
    struct stat st;
    _cleanup_fd_ int file = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0)
        return error_errno(err, errno, "cannot read the saved changes %s", name);
    if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > (off_t)WORKBOX_PATCH_MAX)
        return error_set(err, EFBIG, "the saved changes %s are not a regular file of at most %u MB",
                         name, WORKBOX_PATCH_MAX >> 20);
    if (st.st_size == 0)
        return 0;
    char *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, file, 0);
    if (text == MAP_FAILED)
        return error_errno(err, errno, "cannot read the saved changes");
    w->pristine = false;
    int missing = tool_session_new(w->box, &s, err);
    if (missing == 0)
        missing = patch_load(s, text, text + st.st_size, &names, err);
    tool_session_free(s);
    munmap(text, (size_t)st.st_size);
    if (missing > 0)
        error_set(err, ESTALE, "%d file%s of the saved changes no longer fit the folder: %s%s",
                  missing, missing == 1 ? "" : "s", buf_cstr(&names) ? (char *)names.data : "",
                  missing > MISSING_SHOWN ? "; …" : "");
    return missing;
}
