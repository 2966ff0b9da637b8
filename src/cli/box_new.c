/* `hutch box new`. */
#include "boxes.h"
#include "commands.h"
#include "git_box.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

/* A box that cannot be prepared is not left behind. */
static int install_git(const struct git_box *g, const struct registry_id *id, struct error *err)
{
    struct tool_box box = {.registry = -1, .id = *id};
    if (!g->worktree.needed)
        return 0;
    int r = registry_open(true, &box.registry, err);
    if (r == 0)
        r = git_box_install(g, &box, err);
    if (r < 0 && box.registry >= 0)
        keeper_remove(box.registry, id, NULL);
    cleanup_close(&box.registry);
    return r;
}

int command_box_new(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    struct registry_id id;
    int used = 0;
    run_options_init(&o);
    int r = run_options_parse(&o, self->options, argc, argv, &used, &err);
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r < 0)
        return say_usage(&err);
    if (used < argc) {
        say("'%s' is no option; a command is run with 'hutch box exec'", argv[used]);
        return EXIT_USAGE;
    }
    _cleanup_git_box_ struct git_box git = {0};
    registry_tidy();
    if (box_spec_resolve(&o.spec, &err) < 0)
        return say_failure(&err);
    run_options_say_notes(&o);
    git_box_prepare(&o.spec.box, true, &git);
    if (keeper_start(&o.spec.box, &(struct keeper_life){.ttl_ns = o.ttl_ns}, &id, &err) < 0)
        return say_failure(&err);
    r = install_git(&git, &id, &err);
    if (r < 0)
        return say_failure(&err);
    return boxes_print(&id, 1, o.json, false);
}
