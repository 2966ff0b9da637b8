/* `hutch box ls` and `hutch box rm`. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "boxes.h"
#include "clock.h"
#include "commands.h"
#include "say.h"
#include "units.h"
#include "utf8.h"
#include "banned.h"

static const char *const MODES[] = {[BOX_COW] = "cow", [BOX_DIRECT] = "direct", [BOX_RO] = "ro"};

static const char *mode_name(enum box_mode mode)
{
    return (size_t)mode < ARRAY_SIZE(MODES) ? MODES[mode] : "?";
}

static void print_line(const struct registry_id *id, const struct keeper_info *i)
{
    char age[32], left[32], workspace[4096];
    printf("%s  %-6s  %5s  %5s  %7" PRIu64 "  %9" PRIu64 "  %s\n", id->text, mode_name(i->mode),
           units_rough_time(i->age_ns, age, sizeof age),
           units_rough_time(i->left_ns, left, sizeof left), i->commands, i->snapshots,
           i->workspace ? say_clean(i->workspace, workspace, sizeof workspace) : "-");
}

static json_t *info_json(const struct registry_id *id, const struct keeper_info *i)
{
    bool told = i->workspace && utf8_valid((const uint8_t *)i->workspace, strlen(i->workspace));
    json_t *left = i->left_ns < 0 ? json_null() : json_real((double)i->left_ns / (double)NS_PER_S);
    json_t *o = json_pack("{s:s, s:s?, s:s, s:f, s:o, s:I, s:I, s:i}", "id", id->text, "workspace",
                          told ? i->workspace : NULL, "mode", mode_name(i->mode), "age_seconds",
                          (double)i->age_ns / (double)NS_PER_S, "ttl_seconds", left, "running",
                          (json_int_t)i->commands, "snapshots", (json_int_t)i->snapshots, "pid",
                          (int)i->pid);
    const struct box_limits *l = &i->limits;
    json_t *cpus = l->cpus > 0 ? json_real(l->cpus) : json_null();
    json_t *settings = json_pack(
        "{s:s?, s:I, s:I, s:o, s:o}", "net", i->net, "memory", (json_int_t)l->memory, "pids",
        (json_int_t)l->pids, "cpus", cpus, "timeout_seconds",
        l->timeout_ns ? json_real((double)l->timeout_ns / (double)NS_PER_S) : json_null());
    json_object_update(o, settings);
    json_decref(settings);
    return o;
}

/* One box, into the list or as a line. One that ended meanwhile is left out; one that does not
 * answer is told. */
static void show(int registry, const struct registry_id *id, json_t *list)
{
    struct keeper_info info;
    struct error err = {0};
    int r = keeper_info(registry, id, &info, &err);
    if (r == -ENOENT)
        return;
    if (r < 0) {
        say("the box '%s' does not answer", id->text);
        return;
    }
    if (list)
        json_array_append_new(list, info_json(id, &info));
    else
        print_line(id, &info);
    keeper_info_free(&info);
}

static void show_all(int registry, const struct registry_list *boxes, bool json)
{
    json_t *list = json ? json_array() : NULL;
    if (!json && boxes->count)
        printf("ID        MODE      AGE   LEFT  RUNNING  SNAPSHOTS  WORKSPACE\n");
    for (size_t i = 0; i < boxes->count; i++)
        show(registry, &boxes->ids[i], list);
    if (!json)
        return;
    json_dumpf(list, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(list);
}

int command_box_ls(const struct command *self, int argc, char **argv)
{
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
    show_all(registry, &boxes, json);
    registry_list_free(&boxes);
    return 0;
}

static int remove_one(const char *given)
{
    struct error err = {0};
    struct registry_id id;
    _cleanup_fd_ int registry = -1;
    if (boxes_find(given, &registry, &id, &err) < 0 || keeper_remove(registry, &id, &err) < 0)
        return say_failure(&err);
    return 0;
}

int command_box_rm(const struct command *self, int argc, char **argv)
{
    int n, status;
    if (!command_words(self, argc, argv, NULL, 1, -1, &n, &status))
        return status;
    status = 0;
    for (int i = 0; i < n; i++) {
        int r = remove_one(argv[i]);
        status = r ? r : status;
    }
    return status;
}
