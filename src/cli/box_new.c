/* `hutch box new`. */
#include "boxes.h"
#include "commands.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

int command_box_new(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct error err = {0};
    struct registry_id id;
    int used = 0;
    run_options_init(&o);
    int r = run_options_parse(&o, self->mask, argc, argv, &used, &err);
    if (r == OPTIONS_HELP)
        return help_command(self);
    if (r < 0)
        return say_usage(&err);
    if (used < argc) {
        say("'%s' is no option; a command is run with 'hutch box exec'", argv[used]);
        return EXIT_USAGE;
    }
    registry_tidy();
    if (box_wish_resolve(&o.wish, &err) < 0 ||
        keeper_start(&o.wish.box, &(struct keeper_life){.ttl_ns = o.ttl_ns}, &id, &err) < 0)
        return say_failure(&err);
    return boxes_print(&id, 1, o.json, false);
}
