/* `hutch box diff`, `apply` and `sync`. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "show_apply.h"
#include "show_diff.h"
#include "command_options.h"
#include "boxes.h"
#include "commands.h"
#include "interrupt.h"
#include "output.h"
#include "relpath.h"
#include "say.h"
#include "banned.h"

/* A terminal gets lines that are harmless to it; anything else gets the diff byte for byte. */
static int print_diff(int file, bool stat)
{
    char data[64 << 10];
    ssize_t n = 0;
    if (isatty(STDOUT_FILENO)) {
        int r = show_diff(file, STDOUT_FILENO, !stat && say_colours(STDOUT_FILENO));
        if (r < 0)
            output_failed(-r);
        return 0;
    }
    for (off_t at = 0; (n = pread(file, data, sizeof data, at)) > 0; at += n)
        if (output_write(data, (size_t)n) < 0)
            return 0;
    return n < 0 ? -errno : 0;
}

int command_box_diff(const struct command *self, int argc, char **argv)
{
    bool stat = false;
    struct registry_id id;
    struct error err = {0};
    _cleanup_fd_ int registry = -1;
    _cleanup_fd_ int file = -1;
    int n, status;
    if (!command_words(self, argc, argv, &stat, 1, 1, &n, &status))
        return status;
    if (boxes_find(argv[0], &registry, &id, &err) < 0 ||
        keeper_diff_file(registry, &id, stat, &file, &err) < 0)
        return say_failure(&err);
    int r = print_diff(file, stat);
    if (r < 0) {
        error_errno(&err, -r, "cannot read the diff");
        return say_failure(&err);
    }
    return 0;
}

static int parse_choice(const char *text, enum apply_choice *ret, struct error *err)
{
    static const char *const CHOICES[] = {
        [APPLY_MINE] = "mine", [APPLY_THEIRS] = "theirs", [APPLY_MARKERS] = "markers"};
    for (size_t i = APPLY_MINE; text && i <= APPLY_MARKERS; i++)
        if (strcmp(text, CHOICES[i]) == 0) {
            *ret = (enum apply_choice)i;
            return 0;
        }
    return text ? error_set(err, EINVAL, "--on-conflict must be mine, theirs or markers, not '%s'",
                            text)
                : 0;
}

/* Paths as people type them: relative to the folder, perhaps with ./ in front or a slash behind. */
static int clean_paths(char **paths, size_t n, struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        while (strncmp(paths[i], "./", 2) == 0)
            paths[i] += 2;
        size_t len = strlen(paths[i]);
        while (len > 1 && paths[i][len - 1] == '/')
            paths[i][--len] = 0;
        if (!relpath_is_valid(paths[i], len))
            return error_set(err, EINVAL, "'%s' is no path relative to the folder of the box",
                             paths[i]);
    }
    return 0;
}

/* What `apply` and `sync` share: the box, the choice and the paths. */
struct apply_words {
    struct tool_box box;
    struct apply_options files;
};

/* False: *ret_status is what to end with. */
static bool take_words(const struct command *self, int argc, char **argv, struct apply_words *ret,
                       int *ret_status)
{
    struct apply_command_options given = {0};
    struct error err = {0};
    int n = 0;
    *ret = (struct apply_words){.box = {.registry = -1}};
    if (!command_words(self, argc, argv, &given, 1, -1, &n, ret_status))
        return false;
    if (parse_choice(given.on_conflict, &ret->files.on_conflict, &err) < 0 ||
        clean_paths(argv + 1, (size_t)n - 1, &err) < 0) {
        *ret_status = say_usage(&err);
        return false;
    }
    ret->files.paths = (const char *const *)argv + 1;
    ret->files.n_paths = (size_t)n - 1;
    ret->files.replaced_folder = given.new_folder;
    ret->files.allow_git_dirs = given.allow_git_dirs;
    if (boxes_find(argv[0], &ret->box.registry, &ret->box.id, &err) == 0)
        return true;
    *ret_status = say_failure(&err);
    return false;
}

int command_box_apply(const struct command *self, int argc, char **argv)
{
    struct apply_words words;
    struct error err = {0};
    int status = 0;
    if (!take_words(self, argc, argv, &words, &status))
        return status;
    int left = interrupt_watch(&err);
    if (left >= 0)
        left = show_apply(&words.box, &words.files, 0, &err);
    close(words.box.registry);
    if (interrupt_signal())
        return 128 + interrupt_signal();
    if (left < 0)
        return say_failure(&err);
    return left ? 1 : 0;
}

int command_box_sync(const struct command *self, int argc, char **argv)
{
    struct apply_words words;
    struct error err = {0};
    int status = 0;
    if (!take_words(self, argc, argv, &words, &status))
        return status;
    struct apply_tally tally = {.command = self->name, .id = words.box.id.text};
    const struct tool_apply_options how = apply_tally_options(&tally);
    int left = keeper_sync(words.box.registry, &words.box.id, &words.files, &how.report, &err);
    close(words.box.registry);
    if (left < 0)
        return say_failure(&err);
    sync_summary(&tally);
    return left ? 1 : 0;
}
