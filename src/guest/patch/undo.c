#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "beneath.h"
#include "cleanup.h"
#include "relpath.h"
#include "sys.h"
#include "undo.h"
#include "banned.h"

/* So many new files are held open until the end; of further ones only the number is known. */
#define HELD_MAX 256u

void undo_init(struct undo *u, int root)
{
    *u = (struct undo){.root = root};
}

static bool is_folder(const struct step *s)
{
    return s->kind == STEP_MAKE || s->kind == STEP_REMOVE;
}

void undo_free(struct undo *u)
{
    for (size_t i = 0; i < u->count; i++) {
        held_end(&u->steps[i].ours);
        if (is_folder(&u->steps[i]))
            free((char *)u->steps[i].path);
    }
    free(u->steps);
    *u = (struct undo){0};
}

/* A rename onto nothing. Where the filesystem cannot promise that, a link and the removal of the
 * old name can. */
static int move(int from_dir, const char *from, int to_dir, const char *to)
{
    if (sys_renameat2(from_dir, from, to_dir, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;
    if (linkat(from_dir, from, to_dir, to, 0) < 0)
        return -errno;
    return unlinkat(from_dir, from, 0) < 0 ? -errno : 0;
}

static struct swap swap_of(const struct step *s, int dir, char waiting[STAGE_NAME])
{
    stage_name(waiting, s->kind == STEP_TAKE ? 'o' : 'n', s->number);
    return (struct swap){dir, relpath_name(s->path), s->stage->dir, waiting};
}

/* Files are moved between the folder they are in and their stage. */
static int do_file(struct step *s, int dir)
{
    char waiting[STAGE_NAME];
    struct swap w = swap_of(s, dir, waiting);
    if (s->kind == STEP_TAKE)
        return move(w.dir, w.name, w.waiting_dir, w.waiting);
    int r = held_begin(&s->ours, w.waiting_dir, w.waiting);
    if (r < 0)
        return r;
    return s->kind == STEP_SWAP ? swap_do(&w) : move(w.waiting_dir, w.waiting, w.dir, w.name);
}

/* What somebody else put in the place of ours since then stays. */
static int undo_file(struct step *s, int dir)
{
    char waiting[STAGE_NAME];
    struct swap w = swap_of(s, dir, waiting);
    _cleanup_held_ struct held out = HELD_INIT;
    if (s->kind == STEP_TAKE)
        return move(w.waiting_dir, w.waiting, w.dir, w.name);
    if (s->kind == STEP_SWAP)
        return swap_back(&w, &s->ours);
    int r = move(w.dir, w.name, w.waiting_dir, w.waiting);
    if (r < 0 || held_begin(&out, w.waiting_dir, w.waiting) < 0 || held_is_same(&out, &s->ours))
        return r;
    r = move(w.waiting_dir, w.waiting, w.dir, w.name);
    return r == -EEXIST ? 0 : r;
}

static int remove_folder(struct step *s, int dir)
{
    struct stat st;
    const char *name = relpath_name(s->path);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    s->mode = st.st_mode & 07777;
    return unlinkat(dir, name, AT_REMOVEDIR) < 0 ? -errno : 0;
}

static int make_folder(const struct step *s, int dir, bool back)
{
    const char *name = relpath_name(s->path);
    if (mkdirat(dir, name, 0777) < 0)
        return -errno;
    return back && fchmodat(dir, name, s->mode, 0) < 0 ? -errno : 0;
}

static int run(const struct undo *u, struct step *s, bool back)
{
    _cleanup_fd_ int dir = -1;
    int r = beneath_open_parent(u->root, s->path, &dir);
    if (r < 0)
        return r;
    if (!is_folder(s))
        return back ? undo_file(s, dir) : do_file(s, dir);
    return (s->kind == STEP_REMOVE) != back ? remove_folder(s, dir) : make_folder(s, dir, back);
}

int undo_do(struct undo *u, struct step s)
{
    if (u->count == u->room) {
        size_t room = u->room ? u->room * 2 : 64;
        struct step *more = realloc(u->steps, room * sizeof *more);
        if (!more)
            return -ENOMEM;
        u->steps = more;
        u->room = room;
    }
    if (is_folder(&s)) {
        s.path = strdup(s.path);
        if (!s.path)
            return -ENOMEM;
    }
    s.ours = HELD_INIT;
    int r = run(u, &s, false);
    if (r < 0 || u->count >= HELD_MAX)
        held_end(&s.ours);
    if (r >= 0)
        u->steps[u->count++] = s;
    else if (is_folder(&s))
        free((char *)s.path);
    return r;
}

int undo_make_folders(struct undo *u, const char *path)
{
    char way[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof way)
        return -ENAMETOOLONG;
    memcpy(way, path, n + 1);
    for (char *slash = strchr(way, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        int r = undo_do(u, (struct step){.kind = STEP_MAKE, .path = way});
        *slash = '/';
        if (r < 0 && r != -EEXIST)
            return r;
    }
    return 0;
}

void undo_prune(struct undo *u, const char *path, const char *top)
{
    char way[PATH_MAX];
    size_t n = strlen(path);
    if (n >= sizeof way)
        return;
    memcpy(way, path, n + 1);
    for (;;) {
        char *slash = strrchr(way, '/');
        if (!slash)
            return;
        *slash = 0;
        if (strlen(way) < strlen(top) ||
            undo_do(u, (struct step){.kind = STEP_REMOVE, .path = way}) < 0)
            return;
    }
}

size_t undo_all(struct undo *u)
{
    size_t left = 0;
    for (size_t i = u->count; i-- > 0;)
        left += run(u, &u->steps[i], true) < 0;
    return left;
}
