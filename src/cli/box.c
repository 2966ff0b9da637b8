/* `hutch box`: new, fork, snapshot, restore, set, ls and rm. exec is in run.c; diff, apply and sync
 * are in changes.c. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "thread.h"
#include "git_box.h"
#include "keeper.h"
#include "run_options.h"
#include "options.h"
#include "text.h"
#include "banned.h"

static int box_new_run(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    struct registry_id id;
    int used = 0;
    run_options_init(&o);
    int r = run_options_parse(&o, self->body->options, argc, argv, &used, &err);
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r == 0 && used < argc)
        r = error_set(&err, EINVAL, "'%s' is not an option; run commands with 'hutch box exec'",
                      argv[used]);
    if (r < 0)
        return say_usage(&err);
    _cleanup_git_box_ struct git_box git = {0};
    registry_tidy();
    if (box_spec_resolve(&o.spec, &err) < 0)
        return say_failure(&err);
    run_options_say_notes(&o);
    git_box_prepare(&o.spec.box, &git);
    if (keeper_start(&o.spec.box, &(struct keeper_life){.ttl_ns = o.ttl_ns}, &id, &err) < 0)
        return say_failure(&err);
    if (git.worktree.needed) {
        _cleanup_box_ struct box *b = NULL;
        r = keeper_attach(&id, &b, &err);
        if (r == 0)
            r = git_box_install(&git, b, &err);
        if (r < 0 && b) /* one that cannot be prepared is not left behind */
            keeper_remove(b, NULL);
        if (r < 0)
            return say_failure(&err);
    }
    printf(o.json ? "{\"id\":\"%s\"}\n" : "%s\n", id.text);
    return 0;
}

const struct command_body COMMAND_BOX_NEW = {
    .usage = "[OPTIONS]",
    .options = {{RUN_OPTIONS, FOR_NEW}, {BOX_OPTIONS, BOX_OPTION_NEW}},
    .notes = "Prints the ID of the box, which exists until 'hutch box rm' or the end of its --ttl. "
             "An ID may be shortened as long as it stays unique.",
    .run = box_new_run};

struct fork_options {
    uint64_t count;
    bool json;
};

static int box_fork_run(const struct command *self, int argc, char **argv)
{
    struct fork_options o = {.count = 1};
    struct registry_id forks[KEEPER_FORKS_MAX];
    struct error err = {0};
    _cleanup_box_ struct box *b = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    if (o.count > KEEPER_FORKS_MAX) {
        say("--count: at most %d forks at a time", KEEPER_FORKS_MAX);
        return EXIT_USAGE;
    }
    if (keeper_find(argv[0], &b, &err) < 0 || keeper_fork(b, NULL, o.count, NULL, forks, &err) < 0)
        return say_failure(&err);
    json_t *ids = json_array();
    for (size_t i = 0; i < o.count; i++) {
        json_array_append_new(ids, json_string(forks[i].text));
        if (!o.json)
            printf("%s\n", forks[i].text);
    }
    if (o.json)
        output_json(json_pack("{s:O}", "ids", ids), JSON_COMPACT);
    json_decref(ids);
    return 0;
}

static const struct option FORK_OPTIONS[] = {
    {"count", 'n', "N", "number of forks", "1", OPTION_ALWAYS, offsetof(struct fork_options, count),
     option_parse_count},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, offsetof(struct fork_options, json),
     option_parse_flag},
    {0},
};

const struct command_body COMMAND_BOX_FORK = {
    .usage = "ID [-n N] [--json]", .options = {{FORK_OPTIONS, OPTION_ALWAYS}}, .run = box_fork_run};

static int box_snapshot_run(const struct command *self, int argc, char **argv)
{
    bool json = false;
    struct error err = {0};
    char name[KEEPER_SNAPSHOT_NAME];
    _cleanup_box_ struct box *b = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &json, 1, 1, &n, &status))
        return status;
    if (keeper_find(argv[0], &b, &err) < 0 || keeper_snapshot(b, name, &err) < 0)
        return say_failure(&err);
    printf(json ? "{\"snapshot\":\"%s\"}\n" : "%s\n", name);
    return 0;
}

const struct command_body COMMAND_BOX_SNAPSHOT = {
    .usage = "ID [--json]", .options = {{JSON_OPTION, OPTION_ALWAYS}}, .run = box_snapshot_run};

/* Applied paths that a restore took back in the box, and those that it could not. */
struct restore_tally {
    size_t reverted, failed;
};

static void box_restore_say(void *data, const char *path, const char *why)
{
    struct restore_tally *t = data;
    char name[512];
    t->reverted += !why;
    t->failed += why != NULL;
    if (why)
        say("not restored: %s: %s", say_clean(path, name, sizeof name), why);
}

static int box_restore_run(const struct command *self, int argc, char **argv)
{
    struct restore_tally tally = {0};
    struct error err = {0};
    _cleanup_box_ struct box *b = NULL;
    int n, status;
    if (!command_words(self, argc, argv, NULL, 2, 2, &n, &status))
        return status;
    const struct restore_report report = {.say = box_restore_say, .data = &tally};
    if (keeper_find(argv[0], &b, &err) < 0 || keeper_restore(b, argv[1], &report, &err) < 0)
        return say_failure(&err);
    if (tally.reverted)
        say("%zu path%s applied to the folder since %s; the pending diff reverts %s: see 'hutch "
            "box apply %s'",
            tally.reverted, tally.reverted == 1 ? " was" : "s were", argv[1],
            tally.reverted == 1 ? "it" : "them", box_id(b));
    return tally.failed ? 1 : 0;
}

const struct command_body COMMAND_BOX_RESTORE = {.usage = "ID SNAPSHOT", .run = box_restore_run};

static int box_set_run(const struct command *self, int argc, char **argv)
{
    _cleanup_box_info_ struct box_info info = {0};
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    _cleanup_box_ struct box *b = NULL;
    int n, status;
    run_options_init(&o);
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    if (!o.spec.fields) {
        say("nothing to change: give --net, --memory, --cpus, --pids or --timeout");
        return EXIT_USAGE;
    }
    if (keeper_find(argv[0], &b, &err) < 0 || box_info(b, &info, &err) < 0)
        return say_failure(&err);
    /* Groups are resolved here, with the caller's environment and PATH; the keeper would use those
     * of the command that started it. The working folder is never the box's workspace. */
    o.spec.box.workspace = info.workspace;
    int r = box_spec_resolve_groups(&o.spec, &err);
    if (r == 0)
        r = box_adjust(b, &o.spec.box, o.spec.fields, &err);
    o.spec.box.workspace = NULL;
    if (r < 0)
        return say_failure(&err);
    run_options_say_notes(&o);
    return 0;
}

const struct command_body COMMAND_BOX_SET = {
    .usage = "ID OPTION...",
    .options = {{BOX_OPTIONS, BOX_OPTION_SET}},
    .notes =
        "The network changes immediately, between off and allow; connections that are no longer "
        "allowed end. With control groups, limits change immediately; without, for later "
        "commands.",
    .run = box_set_run};

static int box_ls_run(const struct command *self, int argc, char **argv)
{
    static const char *const modes[] = {
        [BOX_COW] = "cow", [BOX_DIRECT] = "direct", [BOX_RO] = "ro"};
    bool json = false;
    struct error err = {0};
    struct registry_list boxes = {0};
    _cleanup_fd_ int registry = -1;
    int n, status;
    if (!command_words(self, argc, argv, &json, 0, 0, &n, &status))
        return status;
    int r = registry_open(false, &registry, &err);
    if (r == 0)
        r = registry_all(registry, &boxes, &err);
    if (r < 0 && r != -ENOENT)
        return say_failure(&err);
    json_t *list = json ? json_array() : NULL;
    if (!json && boxes.count)
        printf("ID        MODE      AGE   LEFT  RUNNING  SNAPSHOTS  WORKSPACE\n");
    for (size_t i = 0; i < boxes.count; i++) {
        _cleanup_box_info_ struct box_info info = {0};
        _cleanup_box_ struct box *b = NULL;
        const struct registry_id *id = &boxes.ids[i];
        r = keeper_attach(id, &b, &err);
        if (r == 0)
            r = box_info(b, &info, &err);
        if (r < 0 && r != -ENOENT) /* else it ended meanwhile */
            say("the box '%s' does not respond: %s", id->text, err.text);
        if (r < 0)
            continue;
        const char *mode = (size_t)info.mode < ARRAY_SIZE(modes) ? modes[info.mode] : "?";
        char age[32], left[32], workspace[4096];
        const struct box_limits *l = &info.limits;
        const char *folder = info.workspace;
        if (json) {
            bool utf8 = folder && utf8_valid((const uint8_t *)folder, strlen(folder));
            json_t *ttl = info.left_ns < 0 ? json_null() : json_real((double)info.left_ns / 1e9);
            json_t *cpus = l->cpus > 0 ? json_real(l->cpus) : json_null();
            json_t *timeout = l->timeout_ns ? json_real((double)l->timeout_ns / 1e9) : json_null();
            json_array_append_new(
                list,
                json_pack("{s:s, s:s?, s:s, s:f, s:o, s:I, s:I, s:i, s:s?, s:I, s:I, s:o, "
                          "s:o}",
                          "id", id->text, "workspace", utf8 ? folder : NULL, "mode", mode,
                          "age_seconds", (double)info.age_ns / 1e9, "ttl_seconds", ttl, "running",
                          (json_int_t)info.commands, "snapshots", (json_int_t)info.snapshots, "pid",
                          (int)info.keeper, "net", info.net, "memory", (json_int_t)l->memory,
                          "pids", (json_int_t)l->pids, "cpus", cpus, "timeout_seconds", timeout));
        } else {
            printf("%s  %-6s  %5s  %5s  %7" PRIu64 "  %9" PRIu64 "  %s\n", id->text, mode,
                   units_rough_time(info.age_ns, age, sizeof age),
                   units_rough_time(info.left_ns, left, sizeof left), info.commands, info.snapshots,
                   folder ? say_clean(folder, workspace, sizeof workspace) : "-");
        }
    }
    if (json)
        output_json(list, JSON_INDENT(2));
    registry_list_free(&boxes);
    return 0;
}

const struct command_body COMMAND_BOX_LS = {
    .usage = "[--json]", .options = {{JSON_OPTION, OPTION_ALWAYS}}, .run = box_ls_run};

static int box_rm_run(const struct command *self, int argc, char **argv)
{
    int n, status;
    if (!command_words(self, argc, argv, NULL, 1, -1, &n, &status))
        return status;
    status = 0;
    for (int i = 0; i < n; i++) {
        struct error err = {0};
        _cleanup_box_ struct box *b = NULL;
        if (keeper_find(argv[i], &b, &err) < 0 || keeper_remove(b, &err) < 0)
            status = say_failure(&err);
    }
    return status;
}

const struct command_body COMMAND_BOX_RM = {.usage = "ID...", .run = box_rm_run};
