/*
 * What a box changed, with lines counted: the list of changes says what became of each path, the
 * statistics of the diff how many lines. What lies beneath a .git is left out, as apply leaves it
 * out.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "encoding.h"
#include "git_repo.h"
#include "io.h"
#include "relpath.h"
#include "workbox.h"
#include "banned.h"

#define STAT_MAX    (64u << 20)
#define QUOTED_MAX  (1u << 20)
#define COUNTED_MAX 100000u /* changes; of more the lines are not counted */

void agent_changes_free(struct agent_changes *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->items[i].path);
    free(c->items);
    *c = (struct agent_changes){0};
}

int agent_changes_copy(const struct agent_changes *from, struct agent_changes *ret)
{
    struct agent_changes c = {.items = calloc(from->count + 1, sizeof *c.items)};
    c.commits = from->commits;
    c.added = from->added;
    c.deleted = from->deleted;
    for (; c.items && c.count < from->count; c.count++) {
        struct agent_change *one = &c.items[c.count];
        *one = from->items[c.count];
        one->path = strdup(one->path);
        if (!one->path)
            break;
    }
    if (c.items && c.count == from->count) {
        *ret = c;
        return 0;
    }
    agent_changes_free(&c);
    *ret = (struct agent_changes){0};
    return -ENOMEM;
}

static const char *kind_name(enum wire_change kind)
{
    return kind == WIRE_ADDED ? "added" : kind == WIRE_DELETED ? "deleted" : "modified";
}

/* Takes the paths over. */
static int take_list(struct box_changes *from, struct agent_changes *to)
{
    struct git_path g;
    to->items = calloc(from->count + 1, sizeof *to->items);
    if (!to->items)
        return -ENOMEM;
    for (size_t i = 0; i < from->count; i++)
        if (git_path_split(from->items[i].path, &g))
            to->commits |= g.kind == GIT_PATH_COMMITS;
        else if (!relpath_touches_git(from->items[i].path))
            to->items[to->count++] = (struct agent_change){.path = TAKE_PTR(from->items[i].path),
                                                           .kind = kind_name(from->items[i].kind)};
    return 0;
}

/* One line: ADDED<tab>DELETED<tab>PATH, or "-" for both, or FROM => TO for the path. */
struct stat_line {
    uint64_t added, deleted;
    bool binary;
    const char *path;
};

static bool parse_line(char *line, struct stat_line *ret)
{
    char *end;
    *ret = (struct stat_line){0};
    if (strncmp(line, "-\t-\t", 4) == 0) {
        ret->binary = true;
        ret->path = line + 4;
        return true;
    }
    if (*line < '0' || *line > '9')
        return false;
    ret->added = strtoull(line, &end, 10);
    if (*end != '\t')
        return false;
    ret->deleted = strtoull(end + 1, &end, 10);
    ret->path = end + 1;
    return *end == '\t';
}

/* Where each change is in the list, by its name as the diff writes it. */
static json_t *index_names(const struct agent_changes *c)
{
    json_t *index = json_object();
    for (size_t i = 0; index && i < c->count; i++) {
        _cleanup_buf_ struct buf quoted = BUF_INIT(QUOTED_MAX);
        cquote_append(&quoted, "", c->items[i].path);
        const char *name = buf_cstr(&quoted);
        if (name)
            json_object_set_new(index, name, json_integer((json_int_t)i));
    }
    return index;
}

/* The change that a line is about; of a rename, the new name is. */
static struct agent_change *find_change(struct agent_changes *c, const json_t *index,
                                        const char *path)
{
    const json_t *at = json_object_get(index, path);
    for (const char *arrow = path; !at && (arrow = strstr(arrow, " => "));)
        at = json_object_get(index, arrow += 4);
    return at ? &c->items[json_integer_value(at)] : NULL;
}

static void join(struct agent_changes *c, char *text)
{
    struct stat_line l;
    json_t *index = index_names(c);
    for (char *line; (line = strsep(&text, "\n"));) {
        struct agent_change *one = parse_line(line, &l) ? find_change(c, index, l.path) : NULL;
        if (!one)
            continue;
        one->added = l.added;
        one->deleted = l.deleted;
        one->binary = l.binary;
        c->added += l.added;
        c->deleted += l.deleted;
    }
    json_decref(index);
}

static int add_lines(struct workbox *w, struct agent_changes *c, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(STAT_MAX);
    _cleanup_fd_ int file = memfd_create("stat", MFD_CLOEXEC);
    if (file < 0)
        return error_errno(err, errno, "cannot count the changes");
    int r = box_diff(w->box, true, file, err);
    if (r < 0)
        return r;
    if (lseek(file, 0, SEEK_SET) < 0 || io_read_all(file, &text) < 0 || !buf_cstr(&text))
        return 0; /* too many to be counted: the list itself is there */
    join(c, (char *)text.data);
    return 0;
}

int workbox_changes(struct workbox *w, struct agent_changes *ret, struct error *err)
{
    struct box_changes list = {0};
    struct agent_changes c = {0};
    if (w->mode != BOX_COW || (w->pristine && w->plain)) {
        *ret = c;
        return 0;
    }
    int r = box_changes(w->box, &list, err);
    if (r == 0 && take_list(&list, &c) < 0)
        r = error_set(err, ENOMEM, "out of memory");
    box_changes_free(&list);
    if (r == 0 && w->git.worktree.needed)
        c.commits = !w->delivered && git_worktree_moved(w->box);
    c.commits &= !w->delivered;
    if (r == 0 && c.count > 0 && c.count <= COUNTED_MAX)
        r = add_lines(w, &c, err);
    if (r < 0) {
        agent_changes_free(&c);
        return r;
    }
    *ret = c;
    return 0;
}
