/* `hutch box diff`, `apply` and `sync`, and what a person sees of applying changes elsewhere. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "text.h"
#include "io.h"
#include "keeper.h"
#include "relpath.h"
#include "banned.h"

/* Of a diff's line; the diff worker's own bound on what it diffs as text is far below. */
#define LINE_MAX_BYTES (256u << 20)

static void apply_on_path(void *data, const char *path, enum apply_outcome outcome, const char *why)
{
    struct apply_tally *t = data;
    t->done += outcome == APPLY_DONE;
    t->same += outcome == APPLY_SAME;
    t->merged += outcome == APPLY_MERGED;
    t->conflicts += outcome == APPLY_CONFLICT;
    t->refused += outcome == APPLY_REFUSED;
    if (outcome == APPLY_MERGED)
        say("merged: %s (%s)", path, why ? why : "your changes and the box's");
    else if (outcome == APPLY_CONFLICT)
        say("conflict: %s: %s", path,
            why ? why : "it changed in your folder since the box read it");
    else if (outcome == APPLY_REFUSED)
        say("not applied: %s: %s", path, why ? why : "refused");
}

static void apply_on_note(void *data, const char *line)
{
    struct apply_tally *t = data;
    t->notes++;
    say("%s", line);
}

struct tool_apply_options apply_tally_options(struct apply_tally *t)
{
    return (struct tool_apply_options){
        .report = {.say = apply_on_path, .data = t}, .note = apply_on_note, .data = t};
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
    const char *plural = done == 1 ? "" : "s";
    apply_say_choices(t);
    if (left)
        say("applied %zu change%s; %zu not applied", done, plural, left);
    else if (done)
        say("applied %zu change%s", done, plural);
    else if (!t->notes)
        say("nothing to apply");
}

int apply_box(struct box *box, const struct apply_options *files, uint64_t disk)
{
    struct error err = {0};
    struct apply_tally tally = {.command = "apply", .id = box_id(box)};
    struct tool_apply_options o = apply_tally_options(&tally);
    o.files = *files;
    o.disk = disk;
    o.cancel = interrupt_descriptor();
    int left = tool_apply(box, &o, &err);
    if (left < 0)
        return interrupt_signal() ? 128 + interrupt_signal() : say_failure(&err);
    apply_summary(&tally);
    return left ? 1 : 0;
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
    bool colours = !stat && *say_colour(STDOUT_FILENO, "\033[m");
    if (!f)
        return -errno;
    rewind(f);
    while ((n = getline(&line, &room, f)) > 0)
        if (diff_print_line(line, (size_t)n, colours) < 0)
            break;
    return 0;
}

static int box_diff_run(const struct command *self, int argc, char **argv)
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
    if (r < 0)
        error_errno(&err, -r, "cannot read the diff");
    return r < 0 ? say_failure(&err) : 0;
}

static const struct option DIFF_OPTIONS[] = {
    {"stat", 0, NULL, "print one line per file", NULL, OPTION_ALWAYS, 0, option_parse_flag},
    {0},
};

const struct command_body COMMAND_BOX_DIFF = {
    .usage = "ID [--stat]", .options = {{DIFF_OPTIONS, OPTION_ALWAYS}}, .run = box_diff_run};

/* What `apply` and `sync` share: the box, the choice and the paths. */
struct apply_words {
    const char *on_conflict;
    bool new_folder, allow_git_dirs;
    struct box *box;
    struct apply_options files;
};

#define AT(member) offsetof(struct apply_words, member)

enum { FOR_APPLY = 1, FOR_SYNC = 2 };

static const struct option APPLY_OPTIONS[] = {
    {"on-conflict", 0, "mine|theirs|markers",
     "keep the folder's version, the box's, or both with conflict markers", "none",
     FOR_APPLY | FOR_SYNC, AT(on_conflict), option_parse_string},
    {"allow-git-dirs", 0, NULL, "also apply files that make a folder a git directory", NULL,
     FOR_APPLY, AT(allow_git_dirs), option_parse_flag},
    {"new-folder", 0, NULL, "apply even if another folder is now at the workspace's path", NULL,
     FOR_APPLY, AT(new_folder), option_parse_flag},
    {0},
};

/* False: *ret_status is what to end with. */
static bool apply_parse_words(const struct command *self, int argc, char **argv,
                              struct apply_words *ret, int *ret_status)
{
    static const char *const choices[] = {
        [APPLY_MINE] = "mine", [APPLY_THEIRS] = "theirs", [APPLY_MARKERS] = "markers"};
    struct error err = {0};
    int n = 0;
    *ret = (struct apply_words){0};
    if (!command_words(self, argc, argv, ret, 1, -1, &n, ret_status))
        return false;
    for (size_t i = APPLY_MINE; ret->on_conflict && i <= APPLY_MARKERS; i++)
        if (strcmp(ret->on_conflict, choices[i]) == 0)
            ret->files.on_conflict = (enum apply_choice)i;
    if (ret->on_conflict && !ret->files.on_conflict)
        error_set(&err, EINVAL, "--on-conflict must be mine, theirs or markers, not '%s'",
                  ret->on_conflict);

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
    ret->files.paths = (const char *const *)argv + 1;
    ret->files.n_paths = (size_t)n - 1;
    ret->files.replaced_folder = ret->new_folder;
    ret->files.allow_git_dirs = ret->allow_git_dirs;
    if (err.code)
        *ret_status = say_usage(&err);
    else if (keeper_find(argv[0], &ret->box, &err) < 0)
        *ret_status = say_failure(&err);
    return err.code == 0;
}

static int box_apply_run(const struct command *self, int argc, char **argv)
{
    struct apply_words words;
    struct error err = {0};
    int status = 0;
    if (!apply_parse_words(self, argc, argv, &words, &status))
        return status;
    status = interrupt_watch(&err) < 0 ? say_failure(&err) : apply_box(words.box, &words.files, 0);
    box_close(words.box);
    return interrupt_signal() ? 128 + interrupt_signal() : status;
}

const struct command_body COMMAND_BOX_APPLY = {
    .usage = "ID [OPTIONS] [PATH...]",
    .options = {{APPLY_OPTIONS, FOR_APPLY}},
    .notes =
        "With PATHs, applies only those and what is below them. Where you and the box changed "
        "different lines of a text, both changes are merged. Other files that you changed since "
        "the box read them are conflicts: they are listed and not applied, and the exit status is "
        "1; choose with --on-conflict. Commits that cannot be fast-forwarded go to refs/hutch/ID.",
    .run = box_apply_run};

static int box_sync_run(const struct command *self, int argc, char **argv)
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
        char conflicts[64] = "";
        apply_say_choices(&tally);
        if (tally.conflicts)
            snprintf(conflicts, sizeof conflicts, ", %zu in conflict", tally.conflicts);
        say("the box has the folder's changes; merged %zu file%s that both changed%s", done,
            done == 1 ? "" : "s", conflicts);
    }
    box_close(words.box);
    return left < 0 ? say_failure(&err) : left ? 1 : 0;
}

const struct command_body COMMAND_BOX_SYNC = {
    .usage = "ID [--on-conflict CHOICE] [PATH...]",
    .options = {{APPLY_OPTIONS, FOR_SYNC}},
    .notes =
        "Files that the box did not change show your version immediately. Files that you and the "
        "box changed are merged; conflicts are listed and stay as they are in the box, and the "
        "exit status is 1.",
    .run = box_sync_run};
