/* `hutch box diff` and `hutch box apply`. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "show_apply.h"
#include "show_diff.h"
#include "boxes.h"
#include "commands.h"
#include "say.h"
#include "banned.h"

/* For a terminal the diff is fetched whole first, then shown; anything else gets it byte for byte. */
static int diff_to_terminal(int registry, const struct registry_id *id, bool stat, struct error *err)
{
    _cleanup_fd_ int file = memfd_create("diff", MFD_CLOEXEC);
    if (file < 0)
        return error_errno(err, errno, "cannot make a temporary file");
    int r = keeper_diff(registry, id, stat, file, err);
    if (r < 0)
        return r;
    r = show_diff(file, STDOUT_FILENO, !stat && say_colours(STDOUT_FILENO));
    return r < 0 ? error_errno(err, -r, "cannot show the diff") : 0;
}

int command_box_diff(const struct command *self, int argc, char **argv)
{
    bool stat = false;
    struct registry_id id;
    struct error err = {0};
    _cleanup_fd_ int registry = -1;
    int n, status;
    if (!command_words(self, argc, argv, &stat, 1, 1, &n, &status))
        return status;
    if (boxes_find(argv[0], &registry, &id, &err) < 0 ||
        (isatty(STDOUT_FILENO) ? diff_to_terminal(registry, &id, stat, &err)
                               : keeper_diff(registry, &id, stat, STDOUT_FILENO, &err)) < 0)
        return say_failure(&err);
    return 0;
}

int command_box_apply(const struct command *self, int argc, char **argv)
{
    struct registry_id id;
    struct error err = {0};
    struct apply_tally tally = {0};
    struct apply_report report = {.say = apply_say, .data = &tally};
    _cleanup_fd_ int registry = -1;
    int n, status;
    if (!command_words(self, argc, argv, NULL, 1, 1, &n, &status))
        return status;
    if (boxes_find(argv[0], &registry, &id, &err) < 0)
        return say_failure(&err);
    int left = keeper_apply(registry, &id, &report, &err);
    if (left < 0)
        return say_failure(&err);
    apply_summary(&tally);
    return left ? 1 : 0;
}
