/* `hutch doctor`: the probes of the box layer as a table, and a verdict in words. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "probe.h"
#include "output.h"
#include "banned.h"

static const struct {
    const char *name, *colour;
} STATES[] = {
    [PROBE_YES] = {"yes", "\033[32m"},
    [PROBE_DEGRADED] = {"degraded", "\033[33m"},
    [PROBE_NO] = {"no", "\033[31m"},
    [PROBE_NOT_TRIED] = {"not tried", "\033[2m"},
};

static void doctor_print_table(const struct probe_result *results, size_t n, bool starts)
{
    bool colours = say_colours(STDOUT_FILENO);
    size_t width = 0, missing = 0;
    for (size_t i = 0; i < n; i++) {
        width = strlen(results[i].name) > width ? strlen(results[i].name) : width;
        missing += results[i].state == PROBE_NO || results[i].state == PROBE_DEGRADED;
    }
    for (size_t i = 0; i < n; i++) {
        const struct probe_result *p = &results[i];
        printf("%-*s  %s%-9s%s  %s\n", (int)width, p->name, colours ? STATES[p->state].colour : "",
               STATES[p->state].name, colours ? "\033[0m" : "", p->detail);
        if (p->remedy[0])
            printf("%*s  %s\n", (int)width + 11, "", p->remedy);
    }
    if (!starts)
        printf("\nBoxes cannot start on this host until the above is fixed.\n");
    else if (missing)
        printf("\nBoxes start on this host; %zu of the above could be better.\n", missing);
    else
        printf("\nBoxes start on this host with every protection.\n");
}

int command_doctor(const struct command *self, int argc, char **argv)
{
    bool json = false, starts = true;
    struct probe_result results[PROBE_MAX];
    int n_words, status;
    if (!command_words(self, argc, argv, &json, 0, 0, &n_words, &status))
        return status;
    size_t n = probe_all(results, PROBE_MAX);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct probe_result *p = &results[i];
        bool works = p->state == PROBE_YES || p->state == PROBE_DEGRADED;
        starts = starts && (works || !p->required);
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:s, s:s?}", "name", p->name, "state",
                                        STATES[p->state].name, "required", p->required, "detail",
                                        p->detail, "remedy", p->remedy[0] ? p->remedy : NULL));
    }
    if (json)
        output_json(json_pack("{s:b, s:O}", "ok", starts, "probes", list), JSON_INDENT(2));
    else
        doctor_print_table(results, n, starts);
    json_decref(list);
    return starts ? 0 : 1;
}
