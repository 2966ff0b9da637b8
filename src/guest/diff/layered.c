/*
 * LAYERED: which of the paths in the request the box's layers decide about.
 *
 * A layer decides about a path that it holds (a whiteout counts), that lies beneath something of it
 * that is no folder, or beneath an opaque folder. All other paths show the base.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "layered.h"
#include "relpath.h"
#include "banned.h"

/* `path` is changed meanwhile. */
static int layer_decides(int layer, char *path, bool *ret)
{
    _cleanup_fd_ int dir = fcntl(layer, F_DUPFD_CLOEXEC, 3);
    if (dir < 0)
        return -errno;
    for (char *at = path;;) {
        struct stat st;
        char *slash = strchr(at, '/');
        if (slash)
            *slash = 0;
        int r = fstatat(dir, at, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
        int next = r == 0 && slash && S_ISDIR(st.st_mode)
                       ? openat(dir, at, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
                       : -1;
        if (next < 0 && r == 0 && slash && S_ISDIR(st.st_mode))
            r = -errno;
        if (slash)
            *slash = '/';
        if (next < 0) {
            *ret = r == 0;
            return r == -ENOENT ? 0 : r;
        }
        cleanup_close(&dir);
        dir = next;
        if (tree_is_opaque(dir)) {
            *ret = true;
            return 0;
        }
        at = slash + 1;
    }
}

int layered_answer(const struct tree *t, const struct wire_frame *request, struct answer *a,
                   struct error *err)
{
    struct wire_field field;
    for (size_t at = 0; wire_next(request, &at, &field);) {
        bool decides = false;
        if (field.key != WIRE_K_PATH)
            continue;
        if (!relpath_is_valid(field.data, field.size))
            return error_set(err, EINVAL, "the request holds an invalid path");
        _cleanup_free_ char *path = strndup((const char *)field.data, field.size);
        if (!path)
            return error_errno(err, ENOMEM, "cannot look at the layers");
        for (size_t i = 0; !decides && i < t->n_layers; i++) {
            int r = layer_decides(t->layers[i], path, &decides);
            if (r < 0)
                return error_errno(err, -r, "cannot look at the layers");
        }
        if (decides) {
            answer_begin(a, WIRE_ENTRY);
            wire_put(&a->frame, WIRE_K_PATH, field.data, field.size);
            answer_end(a);
        }
    }
    answer_begin(a, WIRE_RESULT);
    answer_end(a);
    return answer_flush(a);
}
