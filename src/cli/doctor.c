/* `hutch doctor`: the probes of the box layer as a table, and a verdict in words. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "probe.h"
#include "output.h"
#include "banned.h"

struct verdict {
    bool starts;
    size_t missing, degraded;
};

static struct verdict judge(const struct probe_result *results, size_t n)
{
    struct verdict v = {.starts = true};
    for (size_t i = 0; i < n; i++) {
        bool works = results[i].state == PROBE_YES || results[i].state == PROBE_DEGRADED;
        if (!works && results[i].required)
            v.starts = false;
        v.missing += results[i].state == PROBE_NO;
        v.degraded += results[i].state == PROBE_DEGRADED;
    }
    return v;
}

static const struct {
    const char *name, *colour;
} STATES[] = {
    [PROBE_YES] = {"yes", "\033[32m"},
    [PROBE_DEGRADED] = {"degraded", "\033[33m"},
    [PROBE_NO] = {"no", "\033[31m"},
    [PROBE_NOT_TRIED] = {"not tried", "\033[2m"},
};

static void print_verdict(const struct verdict *v)
{
    if (!v->starts)
        printf("\nBoxes cannot start on this host until the above is fixed.\n");
    else if (v->missing + v->degraded)
        printf("\nBoxes start on this host; %zu of the above could be better.\n",
               v->missing + v->degraded);
    else
        printf("\nBoxes start on this host with every protection.\n");
}

static void print_table(const struct probe_result *results, size_t n)
{
    bool colours = say_colours(STDOUT_FILENO);
    size_t width = 0;
    for (size_t i = 0; i < n; i++)
        if (strlen(results[i].name) > width)
            width = strlen(results[i].name);
    for (size_t i = 0; i < n; i++) {
        const struct probe_result *p = &results[i];
        printf("%-*s  %s%-9s%s  %s\n", (int)width, p->name, colours ? STATES[p->state].colour : "",
               STATES[p->state].name, colours ? "\033[0m" : "", p->detail);
        if (p->remedy[0])
            printf("%*s  %s\n", (int)width + 11, "", p->remedy);
    }
}

static void print_json(const struct probe_result *results, size_t n, const struct verdict *v)
{
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct probe_result *p = &results[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:s, s:s?}", "name", p->name, "state",
                                        STATES[p->state].name, "required", p->required, "detail",
                                        p->detail, "remedy", p->remedy[0] ? p->remedy : NULL));
    }
    output_json(json_pack("{s:b, s:o}", "ok", v->starts, "probes", list), JSON_INDENT(2));
}

int command_doctor(const struct command *self, int argc, char **argv)
{
    bool json = false;
    struct probe_result results[PROBE_MAX];
    int n, status;
    if (!command_words(self, argc, argv, &json, 0, 0, &n, &status))
        return status;
    size_t count = probe_all(results, PROBE_MAX);
    struct verdict v = judge(results, count);
    if (json) {
        print_json(results, count, &v);
    } else {
        print_table(results, count);
        print_verdict(&v);
    }
    return v.starts ? 0 : 1;
}
