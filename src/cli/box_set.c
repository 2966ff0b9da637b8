/* `hutch box set`: changes a box that runs. */
#include <errno.h>

#include "boxes.h"
#include "commands.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

/* hutch resolves the groups in this process, with the caller's environment and PATH. The keeper
 * would use those of the command that started it. The working folder is never the box's workspace.
 */
static int set_box(int registry, const struct registry_id *id, struct run_options *o,
                   struct error *err)
{
    struct keeper_info info = {0};
    int r = keeper_info(registry, id, &info, err);
    if (r < 0)
        return r;
    o->spec.box.workspace = info.workspace;
    r = box_spec_resolve_groups(&o->spec, err);
    if (r == 0)
        r = keeper_adjust(registry, id, &o->spec.box, o->spec.fields, err);
    o->spec.box.workspace = NULL;
    keeper_info_free(&info);
    return r;
}

int command_box_set(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    struct registry_id id;
    struct error err = {0};
    _cleanup_fd_ int registry = -1;
    int n, status;
    run_options_init(&o);
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    if (!o.spec.fields) {
        say("nothing to change: give --net, --memory, --cpus, --pids or --timeout");
        return EXIT_USAGE;
    }
    if (boxes_find(argv[0], &registry, &id, &err) < 0 || set_box(registry, &id, &o, &err) < 0)
        return say_failure(&err);
    run_options_say_notes(&o);
    return 0;
}
