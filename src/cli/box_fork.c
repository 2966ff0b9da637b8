/* `hutch box fork`, `snapshot` and `restore`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "command_options.h"
#include "boxes.h"
#include "commands.h"
#include "say.h"
#include "banned.h"

int command_box_fork(const struct command *self, int argc, char **argv)
{
    struct fork_options o = {.count = 1};
    struct registry_id id, forks[KEEPER_FORKS_MAX];
    struct error err = {0};
    _cleanup_fd_ int registry = -1;
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    if (o.count > KEEPER_FORKS_MAX) {
        say("--count: no more than %d boxes can be forked at once", KEEPER_FORKS_MAX);
        return EXIT_USAGE;
    }
    if (boxes_find(argv[0], &registry, &id, &err) < 0 ||
        keeper_fork(registry, &id, NULL, o.count, NULL, forks, &err) < 0)
        return say_failure(&err);
    return boxes_print(forks, o.count, o.json, true);
}

int command_box_snapshot(const struct command *self, int argc, char **argv)
{
    bool json = false;
    struct registry_id id;
    struct error err = {0};
    char name[KEEPER_SNAPSHOT_NAME];
    _cleanup_fd_ int registry = -1;
    int n, status;
    if (!command_words(self, argc, argv, &json, 1, 1, &n, &status))
        return status;
    if (boxes_find(argv[0], &registry, &id, &err) < 0 ||
        keeper_snapshot(registry, &id, name, &err) < 0)
        return say_failure(&err);
    printf(json ? "{\"snapshot\":\"%s\"}\n" : "%s\n", name);
    return 0;
}

/* Applied paths that a restore took back in the box, and those that it could not. */
struct restore_tally {
    size_t reverted, failed;
};

static void restore_say(void *data, const char *path, const char *why)
{
    struct restore_tally *t = data;
    char name[512];
    t->reverted += !why;
    t->failed += why != NULL;
    if (why)
        say("not restored: %s: %s", say_clean(path, name, sizeof name), why);
}

int command_box_restore(const struct command *self, int argc, char **argv)
{
    struct restore_tally tally = {0};
    struct registry_id id;
    struct error err = {0};
    _cleanup_fd_ int registry = -1;
    int n, status;
    if (!command_words(self, argc, argv, NULL, 2, 2, &n, &status))
        return status;
    const struct restore_report report = {.say = restore_say, .data = &tally};
    if (boxes_find(argv[0], &registry, &id, &err) < 0 ||
        keeper_restore(registry, &id, argv[1], &report, &err) < 0)
        return say_failure(&err);
    if (tally.reverted)
        say("%zu path%s applied to the folder since %s: the pending diff reverts %s, 'hutch box "
            "apply %s' "
            "does "
            "so",
            tally.reverted, tally.reverted == 1 ? " was" : "s were", argv[1],
            tally.reverted == 1 ? "it" : "them", id.text);
    return tally.failed ? 1 : 0;
}
