/* `hutch history ls` and `rm`. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "commands.h"
#include "history.h"
#include "command_options.h"
#include "say.h"
#include "units.h"
#include "banned.h"

static int64_t age_of(time_t then)
{
    time_t now = time(NULL);
    return now > then ? (int64_t)(now - then) * NS_PER_S : 0;
}

static void print_line(const struct history_info *i)
{
    char age[32], cost[32] = "-", title[1024], model[256];
    if (i->totals.cost >= 0)
        snprintf(cost, sizeof cost, "$%.2f", i->totals.cost);
    printf("%-18s %5s %5u %8s  %-28s  %s\n", i->id,
           units_rough_time(age_of(i->written), age, sizeof age), i->totals.turns, cost,
           i->totals.model[0] ? say_clean(i->totals.model, model, sizeof model) : "-",
           i->title ? say_clean(i->title, title, sizeof title) : "-");
}

static json_t *info_json(const struct history_info *i)
{
    json_t *cost = i->totals.cost >= 0 ? json_real(i->totals.cost) : json_null();
    char written[32];
    struct tm utc;
    gmtime_r(&i->written, &utc);
    strftime(written, sizeof written, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return json_pack("{s:s, s:s?, s:s, s:s?, s:s?, s:s?, s:I, s:I, s:s?, s:o, s:I}", "id", i->id,
                     "created", i->created, "written", written, "workspace", i->workspace, "title",
                     i->title, "forked_from", i->parent, "turns", (json_int_t)i->totals.turns,
                     "messages", (json_int_t)i->totals.messages, "model",
                     i->totals.model[0] ? i->totals.model : NULL, "cost", cost, "bytes",
                     (json_int_t)i->bytes);
}

static void print_list(const struct history_info *list, size_t count,
                       const struct history_ls_options *o, const char *folder)
{
    json_t *all = o->json ? json_array() : NULL;
    uint64_t shown = 0;
    for (size_t i = 0; i < count && (o->count == 0 || shown < o->count); i++) {
        if (folder && (!list[i].workspace || strcmp(list[i].workspace, folder) != 0))
            continue;
        if (!o->json && shown == 0)
            printf("%-18s %5s %5s %8s  %-28s  %s\n", "ID", "AGE", "TURNS", "COST", "MODEL",
                   "TITLE");
        shown++;
        if (o->json)
            json_array_append_new(all, info_json(&list[i]));
        else
            print_line(&list[i]);
    }
    if (all) {
        json_dumpf(all, stdout, JSON_INDENT(2));
        printf("\n");
        json_decref(all);
    }
}

int command_history_ls(const struct command *self, int argc, char **argv)
{
    struct history_ls_options o = {0};
    struct error err = {0};
    struct history_info *list = NULL;
    size_t count = 0;
    int n, status;
    if (!command_words(self, argc, argv, &o, 0, 0, &n, &status))
        return status;
    _cleanup_free_ char *folder = o.workspace ? realpath(o.workspace, NULL) : NULL;
    if (o.workspace && !folder) {
        error_errno(&err, errno, "cannot find the folder '%s'", o.workspace);
        return say_failure(&err);
    }
    if (history_list(&list, &count, &err) < 0)
        return say_failure(&err);
    print_list(list, count, &o, folder);
    history_list_free(list, count);
    return 0;
}

int command_history_rm(const struct command *self, int argc, char **argv)
{
    int n, status = 0;
    if (!command_words(self, argc, argv, NULL, 1, -1, &n, &status))
        return status;
    for (int i = 0; i < n; i++) {
        struct error err = {0};
        char id[HISTORY_ID_MAX];
        if (history_remove(argv[i], id, &err) < 0)
            status = say_failure(&err);
        else
            printf("%s\n", id);
    }
    return status;
}
