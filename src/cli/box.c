/* `hutch box`: the table of its subcommands, and what they share. */
#include <errno.h>
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "command_options.h"
#include "boxes.h"
#include "commands.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

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
