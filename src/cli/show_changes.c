/* `hutch box diff`, `apply` and `sync`, and what a person sees of applying changes elsewhere. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "command_options.h"
#include "commands.h"
#include "interrupt.h"
#include "io.h"
#include "keeper.h"
#include "output.h"
#include "relpath.h"
#include "show_changes.h"
#include "text.h"
#include "banned.h"

/* Of a diff's line; the diff worker's own bound on what it diffs as text is far below. */
#define LINE_MAX_BYTES (256u << 20)

static void apply_say(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct apply_tally *t = data;
    switch (outcome) {
    case APPLY_DONE:
        t->done++;
        break;
    case APPLY_SAME:
        t->same++;
        break;
    case APPLY_MERGED:
        t->merged++;
        say("merged: %s (%s)", path, why ? why : "your changes and the box's");
        break;
    case APPLY_CONFLICT:
        t->conflicts++;
        say("conflict: %s: %s", path,
            why ? why : "it changed in your folder since the box read it");
        break;
    case APPLY_REFUSED:
        t->refused++;
        say("not applied: %s: %s", path, why ? why : "refused");
        break;
    }
}

static const char *plural_s(size_t n)
{
    return n == 1 ? "" : "s";
}

static void apply_say_choices(const struct apply_tally *t)
{
    if (t->conflicts && t->id)
        say("choose with 'hutch box %s %s --on-conflict mine|theirs|markers [PATH...]'", t->command,
            t->id);
}

void apply_summary(const struct apply_tally *t)
{
    size_t done = t->done + t->merged, left = t->conflicts + t->refused;
    apply_say_choices(t);
    if (left)
        say("applied %zu change%s; %zu left alone", done, plural_s(done), left);
    else if (done)
        say("applied %zu change%s", done, plural_s(done));
    else if (!t->notes)
        say("nothing to apply");
}

static void apply_note(void *data, const char *line)
{
    struct apply_tally *t = data;
    t->notes++;
    say("%s", line);
}

struct tool_apply_options apply_tally_options(struct apply_tally *t)
{
    return (struct tool_apply_options){
        .report = {.say = apply_say, .data = t}, .note = apply_note, .data = t};
}

int show_apply(struct box *box, const struct apply_options *files, uint64_t disk, struct error *err)
{
    struct apply_tally tally = {.command = "apply", .id = box_id(box)};
    struct tool_apply_options o = apply_tally_options(&tally);
    o.files = *files;
    o.disk = disk;
    o.cancel = interrupt_descriptor();
    int r = tool_apply(box, &o, err);
    if (r >= 0)
        apply_summary(&tally);
    return r;
}

/* Prints one line of a diff to a terminal, with nothing in it that the terminal would obey. */
static int diff_print_line(const char *line, size_t n, bool colours)
{
    static const struct {
        const char *start, *colour;
    } COLOURS[] = {
        {"diff --git ", "\033[1m"}, {"+++ ", "\033[1m"}, {"--- ", "\033[1m"},
        {"@@ ", "\033[36m"},        {"+", "\033[32m"},   {"-", "\033[31m"},
    };
    _cleanup_buf_ struct buf out = BUF_INIT(LINE_MAX_BYTES);
    struct harmless h = {0};
    const char *colour = NULL;
    size_t text = n && line[n - 1] == '\n' ? n - 1 : n;
    for (size_t i = 0; colours && !colour && i < ARRAY_SIZE(COLOURS); i++)
        if (strncmp(line, COLOURS[i].start, strlen(COLOURS[i].start)) == 0)
            colour = COLOURS[i].colour;
    buf_append_str(&out, colour ? colour : "");
    harmless_append(&h, line, text, &out);
    buf_append_str(&out, colour ? "\033[m" : "");
    buf_append(&out, line + text, n - text);
    if (out.failed) {
        output_failed(ENOBUFS);
        return -ENOBUFS;
    }
    return output_write(out.data, out.len);
}

/* A terminal gets lines that are harmless to it; anything else gets the diff byte for byte. */
static int diff_print(int file, bool stat)
{
    char data[64 << 10];
    ssize_t n = 0;
    if (!isatty(STDOUT_FILENO)) {
        for (off_t at = 0; (n = pread(file, data, sizeof data, at)) > 0; at += n)
            if (output_write(data, (size_t)n) < 0)
                return 0;
        return n < 0 ? -errno : 0;
    }
    _cleanup_fclose_ FILE *f = fdopen(dup(file), "r");
    _cleanup_free_ char *line = NULL;
    size_t room = 0;
    bool colours = !stat && say_colours(STDOUT_FILENO);
    if (!f)
        return -errno;
    rewind(f);
    while ((n = getline(&line, &room, f)) > 0)
        if (diff_print_line(line, (size_t)n, colours) < 0)
            break;
    return 0;
}

int command_box_diff(const struct command *self, int argc, char **argv)
{
    bool stat = false;
    struct error err = {0};
    _cleanup_box_ struct box *b = NULL;
    _cleanup_fd_ int file = io_unnamed_file();
    int n, status;
    if (!command_words(self, argc, argv, &stat, 1, 1, &n, &status))
        return status;
    if (file < 0)
        error_errno(&err, -file, "cannot create a temporary file");
    if (file < 0 || keeper_find(argv[0], &b, &err) < 0 || box_diff(b, stat, file, &err) < 0)
        return say_failure(&err);
    int r = diff_print(file, stat);
    if (r < 0) {
        error_errno(&err, -r, "cannot read the diff");
        return say_failure(&err);
    }
    return 0;
}

/* What `apply` and `sync` share: the box, the choice and the paths. */
struct apply_words {
    struct box *box;
    struct apply_options files;
};

/* False: *ret_status is what to end with. */
static bool apply_parse_words(const struct command *self, int argc, char **argv,
                              struct apply_words *ret, int *ret_status)
{
    static const char *const choices[] = {
        [APPLY_MINE] = "mine", [APPLY_THEIRS] = "theirs", [APPLY_MARKERS] = "markers"};
    struct apply_command_options given = {0};
    struct error err = {0};
    int n = 0;
    *ret = (struct apply_words){0};
    if (!command_words(self, argc, argv, &given, 1, -1, &n, ret_status))
        return false;
    for (size_t i = APPLY_MINE; given.on_conflict && i <= APPLY_MARKERS; i++)
        if (strcmp(given.on_conflict, choices[i]) == 0)
            ret->files.on_conflict = (enum apply_choice)i;
    if (given.on_conflict && !ret->files.on_conflict)
        error_set(&err, EINVAL, "--on-conflict must be mine, theirs or markers, not '%s'",
                  given.on_conflict);

    /* Paths as people type them: relative to the folder, perhaps with ./ in front or a / behind. */
    for (int i = 1; i < n; i++) {
        while (strncmp(argv[i], "./", 2) == 0)
            argv[i] += 2;
        size_t len = strlen(argv[i]);
        while (len > 1 && argv[i][len - 1] == '/')
            argv[i][--len] = 0;
        if (!relpath_is_valid(argv[i], len))
            error_set(&err, EINVAL, "'%s' is not a path relative to the box's folder", argv[i]);
    }
    if (err.code) {
        *ret_status = say_usage(&err);
        return false;
    }
    ret->files.paths = (const char *const *)argv + 1;
    ret->files.n_paths = (size_t)n - 1;
    ret->files.replaced_folder = given.new_folder;
    ret->files.allow_git_dirs = given.allow_git_dirs;
    if (keeper_find(argv[0], &ret->box, &err) == 0)
        return true;
    *ret_status = say_failure(&err);
    return false;
}

int command_box_apply(const struct command *self, int argc, char **argv)
{
    struct apply_words words;
    struct error err = {0};
    int status = 0;
    if (!apply_parse_words(self, argc, argv, &words, &status))
        return status;
    int left = interrupt_watch(&err);
    if (left >= 0)
        left = show_apply(words.box, &words.files, 0, &err);
    box_close(words.box);
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
    if (!apply_parse_words(self, argc, argv, &words, &status))
        return status;
    struct apply_tally tally = {.command = self->name, .id = box_id(words.box)};
    const struct tool_apply_options how = apply_tally_options(&tally);
    int left = box_sync(words.box, &words.files, &how.report, &err);
    size_t done = tally.done + tally.merged;
    if (left >= 0) {
        apply_say_choices(&tally);
        if (tally.conflicts)
            say("the box has the folder's changes; merged %zu file%s that both changed, %zu in "
                "conflict",
                done, plural_s(done), tally.conflicts);
        else
            say("the box has the folder's changes; merged %zu file%s that both changed", done,
                plural_s(done));
    }
    box_close(words.box);
    return left < 0 ? say_failure(&err) : left ? 1 : 0;
}
