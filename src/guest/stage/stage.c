#include <errno.h>
#include <limits.h>
#include <string.h>

#include "folder.h"
#include "pour.h"
#include "relpath.h"
#include "stage.h"
#include "sweep.h"
#include "banned.h"

static bool is_sane(const struct wire_field *f)
{
    unsigned depth = 1;
    if (f->size >= PATH_MAX || !relpath_is_valid(f->data, f->size))
        return false;
    for (size_t i = 0; i < f->size; i++)
        depth += f->data[i] == '/';
    return depth <= STAGE_DEPTH_MAX;
}

static int clear_one(const struct wire_field *f, struct error *err)
{
    _cleanup_free_ char *path = strndup((const char *)f->data, f->size);
    int r = path ? stage_clear(path) : -ENOMEM;
    return r < 0 ? error_errno(err, -r, "cannot clear %.400s", path ? path : "") : 0;
}

static int take_request(struct stage *s, struct error *err)
{
    struct wire_field f;
    int r = 0;
    for (size_t at = 0; r == 0 && wire_next(&s->call->request, &at, &f);) {
        if (f.key == WIRE_K_CLEAR)
            r = clear_one(&f, err);
        else if (f.key == WIRE_K_OWN && !is_sane(&f))
            r = error_set(err, EINVAL, "%.*s: is no path beneath the workspace",
                          (int)(f.size < 400 ? f.size : 400), (const char *)f.data);
        else if (f.key == WIRE_K_OWN &&
                 (r = stage_paths_add(&s->own, f.data, f.size, STAGE_ROOTS_MAX)) < 0)
            r = error_errno(err, -r, "too many paths to stage");
    }
    return r;
}

/* The path of the next file, which must come behind the one before. */
static int take_path(struct stage *s, const struct wire_frame *f, const char **ret,
                     struct error *err)
{
    struct wire_field path = {0};
    const char *before = s->files.count ? s->files.items[s->files.count - 1] : "";
    if (!wire_find(f, WIRE_K_PATH, &path) || !is_sane(&path))
        return error_set(err, EINVAL, "a file to stage has no path beneath the workspace");
    int r = stage_paths_add(&s->files, path.data, path.size, STAGE_FILES_MAX);
    if (r < 0)
        return error_errno(err, -r, "too many files to stage");
    *ret = s->files.items[s->files.count - 1];
    if (s->files.count > 1 && strcmp(before, *ret) >= 0)
        return error_set(err, EINVAL, "%.400s: the files to stage do not come in order", *ret);
    return 0;
}

static int put_link(struct pour *p, const struct wire_field *data)
{
    char target[PATH_MAX];
    if (data->size == 0 || data->size >= sizeof target || memchr(data->data, 0, data->size))
        return -EINVAL;
    memcpy(target, data->data, data->size);
    target[data->size] = 0;
    return pour_link(p, target);
}

/* What does not fit into the ENTRY follows in DATA frames, which are read to their end. */
static int put_file(struct stage *s, struct pour *p, const struct wire_field *data)
{
    int r = pour_begin(p);
    if (r == 0)
        r = pour_bytes(p, data->data, data->size);
    for (uint64_t at = data->size; at < p->size;) {
        struct wire_frame f;
        struct wire_field more = {0};
        if (wire_read(s->call->in, &f) <= 0 || f.type != WIRE_DATA ||
            !wire_find(&f, WIRE_K_DATA, &more) || more.size == 0)
            r = -EPROTO;
        if (r == -EPROTO)
            break;
        if (r == 0)
            r = pour_bytes(p, more.data, more.size);
        at += more.size;
    }
    if (r == 0)
        r = pour_end(p);
    pour_close(p);
    return r;
}

static void tell_put(struct stage *s, const struct pour *p, const char *path)
{
    if (p->differs && p->existed)
        stage_tell(s, WIRE_MODIFIED, path, false);
    else if (p->differs && stage_is_own(s, path))
        stage_tell(s, WIRE_DELETED, path, false);
}

static int put(struct stage *s, const struct wire_frame *f, struct error *err)
{
    struct wire_field data = {0};
    struct pour p = POUR_INIT;
    const char *path = NULL;
    int r = take_path(s, f, &path, err);
    if (r < 0)
        return r;
    wire_find(f, WIRE_K_DATA, &data);
    mode_t mode = (mode_t)wire_find_u64(f, WIRE_K_MODE, 0644);
    r = stage_open_parent(s, path);
    if (r == 0) {
        p.dir = s->folder;
        p.name = relpath_name(path);
        p.mode = mode & 0777;
        p.size = wire_find_u64(f, WIRE_K_SIZE, data.size);
        r = S_ISLNK(mode) ? put_link(&p, &data) : put_file(s, &p, &data);
    }
    if (r < 0)
        return error_errno(err, -r, "cannot stage %.400s", path);
    tell_put(s, &p, path);
    return 0;
}

static int take_files(struct stage *s, struct error *err)
{
    for (;;) {
        struct wire_frame f;
        if (wire_read(s->call->in, &f) <= 0 || f.type != WIRE_ENTRY)
            return error_set(err, EPROTO, "the files to stage broke off");
        if (wire_find_u64(&f, WIRE_K_EOF, 0))
            return 0;
        int r = put(s, &f, err);
        if (r < 0)
            return r;
    }
}

static void put_result(struct stage *s)
{
    struct buf *out = &s->call->out;
    size_t at = wire_begin(out, WIRE_RESULT);
    wire_put_u64(out, WIRE_K_COUNT, s->changes);
    if (s->told < s->changes)
        wire_put_u64(out, WIRE_K_TOO_MANY, s->changes - s->told);
    wire_end(out, at);
}

int stage_serve(struct file_call *c, struct error *err)
{
    _cleanup_(stage_free) struct stage s = STAGE_INIT(c);
    int r = take_request(&s, err);
    if (r == 0)
        r = take_files(&s, err);
    if (r == 0)
        r = stage_sweep(&s, err);
    if (r == 0)
        put_result(&s);
    return r;
}
