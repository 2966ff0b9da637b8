/* `hutch box fork`, `snapshot` and `restore`. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "box_options.h"
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
        keeper_fork(registry, &id, NULL, o.count, forks, &err) < 0)
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
    if (boxes_find(argv[0], &registry, &id, &err) < 0 || keeper_snapshot(registry, &id, name, &err) < 0)
        return say_failure(&err);
    printf(json ? "{\"snapshot\":\"%s\"}\n" : "%s\n", name);
    return 0;
}

int command_box_restore(const struct command *self, int argc, char **argv)
{
    struct registry_id id;
    struct error err = {0};
    _cleanup_fd_ int registry = -1;
    int n, status;
    if (!command_words(self, argc, argv, NULL, 2, 2, &n, &status))
        return status;
    if (boxes_find(argv[0], &registry, &id, &err) < 0 || keeper_restore(registry, &id, argv[1], &err) < 0)
        return say_failure(&err);
    return 0;
}
