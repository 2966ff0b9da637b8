/* The desk: the conversation as a file of the person's, Markdown or HTML by its name. It never
 * replaces a file that is there. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "desk_private.h"
#include "history_export.h"
#include "banned.h"

static bool is_html(const char *name)
{
    const char *end = strrchr(name, '.');
    return end && (strcmp(end, ".html") == 0 || strcmp(end, ".htm") == 0);
}

static int open_new(const char *name, FILE **ret, struct error *err)
{
    _cleanup_fd_ int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return error_set(err, EEXIST, "%s is there already; name another file", name);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out)
        return error_errno(err, errno, "cannot make %s", name);
    (void)TAKE_FD(fd);
    *ret = out;
    return 0;
}

int desk_export(struct desk *d, const struct job *j, struct answer *a, struct error *err)
{
    struct history *h = agent_history(d->agent);
    FILE *out = NULL;
    int r = open_new(j->text, &out, err);
    if (r < 0)
        return r;
    r = history_export(h, is_html(j->text), out, err);
    bool failed = ferror(out);
    failed |= fclose(out) != 0;
    if (r == 0 && failed)
        r = error_set(err, EIO, "cannot write %s", j->text);
    return r < 0 ? r : buf_printf(&a->text, "Written to %s.\n", j->text);
}
