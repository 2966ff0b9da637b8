/* `hutch box`: the table of its subcommands, and what they share. */
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "box_options.h"
#include "boxes.h"
#include "commands.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

static const struct option FORK_OPTIONS[] = {
    {"count", 'n', "N", "how many", "1", OPTION_ALWAYS, offsetof(struct fork_options, count),
     option_parse_count},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, offsetof(struct fork_options, json),
     option_parse_flag},
    {0},
};

static const struct option DIFF_OPTIONS[] = {
    {"stat", 0, NULL, "only a summary: one line per file", NULL, OPTION_ALWAYS, 0,
     option_parse_flag},
    {0},
};

#define ON_CONFLICT                                                                                \
    {                                                                                              \
        "on-conflict", 0, "CHOICE",                                                                \
            "which version wins: mine (the folder's), theirs (the box's), markers", "none",        \
            OPTION_ALWAYS, offsetof(struct apply_command_options, on_conflict),                    \
            option_parse_string                                                                    \
    }

static const struct option APPLY_OPTIONS[] = {
    ON_CONFLICT,
    {"allow-git-dirs", 0, NULL, "also apply files that make a folder a git directory", NULL,
     OPTION_ALWAYS, offsetof(struct apply_command_options, allow_git_dirs), option_parse_flag},
    {"new-folder", 0, NULL,
     "apply to the folder that took the place of the one the box started with", NULL, OPTION_ALWAYS,
     offsetof(struct apply_command_options, new_folder), option_parse_flag},
    {0},
};

static const struct option SYNC_OPTIONS[] = {
    ON_CONFLICT,
    {0},
};

static const char NEW_NOTES[] =
    "Prints the ID of the box, which lives until 'hutch box rm' or the end of "
    "its --ttl. Wherever an ID is asked for, a\n"
    "beginning of it that no other box has will do.\n";

static const char EXEC_NOTES[] = "The exit status is that of 'hutch run'.\n";

static const char APPLY_NOTES[] = "With PATHs, only those and what is below them. Where you and "
                                  "the box changed different lines of a "
                                  "text,\n"
                                  "both changes are merged. Other files that you changed since the "
                                  "box read them are conflicts: they are\n"
                                  "named and left alone, and the exit status is 1; choose with "
                                  "--on-conflict. Commits that cannot be "
                                  "fast-forwarded go\n"
                                  "to refs/hutch/ID.\n";

static const char SYNC_NOTES[] =
    "Files that the box did not change show your version at once. Those that you and the box "
    "changed are\n"
    "merged; conflicts are named and stay as they are in the box, and the exit status is 1.\n";

static const char SET_NOTES[] = "The network changes at once, between off and allow; connections "
                                "that are no longer allowed end.\n"
                                "Limits hold for the whole box at once where there are control "
                                "groups, else for later commands.\n";

const struct command BOX_COMMANDS[] = {
    {"box ", "new", "make a box that stays", "[OPTIONS]", RUN_OPTIONS, FOR_NEW, NULL, NEW_NOTES,
     IN_HUTCH(command_box_new)},
    {"box ", "exec", "run a command in a box", "ID [OPTIONS] [--] COMMAND [ARG...]", RUN_OPTIONS,
     FOR_EXEC, NULL, EXEC_NOTES, IN_HUTCH(command_box_exec)},
    {"box ", "fork", "make boxes that start from the present files of another",
     "ID [-n N] [--json]", FORK_OPTIONS, OPTION_ALWAYS, NULL, NULL, IN_HUTCH(command_box_fork)},
    {"box ", "snapshot", "keep the present files of a box under a name", "ID [--json]", JSON_OPTION,
     OPTION_ALWAYS, NULL, NULL, IN_HUTCH(command_box_snapshot)},
    {"box ", "restore", "put a box back to a snapshot; its processes end", "ID SNAPSHOT", NULL, 0,
     NULL, NULL, IN_HUTCH(command_box_restore)},
    {"box ", "diff", "show what the box changed in its workspace, as git does", "ID [--stat]",
     DIFF_OPTIONS, OPTION_ALWAYS, NULL, NULL, IN_HUTCH(command_box_diff)},
    {"box ", "apply",
     "write the changes and commits of a box to the folder that its workspace shows",
     "ID [OPTIONS] [PATH...]", APPLY_OPTIONS, OPTION_ALWAYS, NULL, APPLY_NOTES,
     IN_HUTCH(command_box_apply)},
    {"box ", "sync", "bring the changes of the folder into a box",
     "ID [--on-conflict CHOICE] [PATH...]", SYNC_OPTIONS, OPTION_ALWAYS, NULL, SYNC_NOTES,
     IN_HUTCH(command_box_sync)},
    {"box ", "set", "change the network or limits of a box that runs", "ID OPTION...", RUN_OPTIONS,
     FOR_SET, NULL, SET_NOTES, IN_HUTCH(command_box_set)},
    {"box ", "ls", "list the boxes", "[--json]", JSON_OPTION, OPTION_ALWAYS, NULL, NULL,
     IN_HUTCH(command_box_ls)},
    {"box ", "rm", "end boxes and forget them", "ID...", NULL, 0, NULL, NULL,
     IN_HUTCH(command_box_rm)},
    {0},
};

int boxes_find(const char *given, int *ret_registry, struct registry_id *ret, struct error *err)
{
    _cleanup_fd_ int registry = -1;
    int r = registry_open(false, &registry, err);
    if (r == -ENOENT)
        return error_set(err, ENOENT, "there is no box '%s'; there are none at all", given);
    if (r == 0)
        r = registry_find(registry, given, ret, err);
    if (r == 0)
        *ret_registry = TAKE_FD(registry);
    return r;
}

static json_t *names_json(const struct registry_id *ids, size_t n, bool list)
{
    if (!list)
        return json_pack("{s:s}", "id", ids[0].text);
    json_t *names = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(names, json_string(ids[i].text));
    return json_pack("{s:o}", "ids", names);
}

int boxes_print(const struct registry_id *ids, size_t n, bool json, bool list)
{
    if (json) {
        json_t *object = names_json(ids, n, list);
        json_dumpf(object, stdout, JSON_COMPACT);
        json_decref(object);
        printf("\n");
    }
    for (size_t i = 0; !json && i < n; i++)
        printf("%s\n", ids[i].text);
    return 0;
}
