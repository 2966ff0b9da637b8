/* `hutch history search`: what the agent's `memory` finds, for people. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "commands.h"
#include "command_options.h"
#include "memory.h"
#include "say.h"
#include "banned.h"

#define WORDS_MAX (64u << 10)

static void print_hit(const json_t *hit)
{
    char text[4 * MEMORY_SNIPPET_MAX + 64], role[64];
    const char *time = json_string_value(json_object_get(hit, "time"));
    printf("%s  message %" JSON_INTEGER_FORMAT "  %.10s  %s\n",
           json_string_value(json_object_get(hit, "session")),
           json_integer_value(json_object_get(hit, "message")), time ? time : "-",
           say_clean(json_string_value(json_object_get(hit, "role")), role, sizeof role));
    printf("    %s\n",
           say_clean(json_string_value(json_object_get(hit, "snippet")), text, sizeof text));
}

static int search(const struct history_search_options *o, const char *words, struct error *err)
{
    struct memory *m = NULL;
    json_t *hits = NULL, *hit;
    size_t i;
    char id[HISTORY_ID_MAX] = "";
    if (o->session) {
        struct history *h = NULL;
        int r = history_open(o->session, true, &h, NULL, err);
        if (r < 0)
            return r;
        snprintf(id, sizeof id, "%s", history_id(h));
        history_close(h);
    }
    struct memory_query q = {
        .text = words,
        .session = id[0] ? id : NULL,
        .limit = (unsigned)(o->count < MEMORY_LIMIT_MAX ? o->count : MEMORY_LIMIT_MAX),
        .cancel = -1};
    int r = memory_open(NULL, &m, err);
    if (r == 0)
        r = memory_search(m, &q, &hits, err);
    memory_close(m);
    if (r < 0)
        return r;
    if (o->json) {
        json_dumpf(hits, stdout, JSON_INDENT(2));
        printf("\n");
    } else {
        json_array_foreach(hits, i, hit) print_hit(hit);
    }
    json_decref(hits);
    return 0;
}

int command_history_search(const struct command *self, int argc, char **argv)
{
    struct history_search_options o = {.count = 10};
    struct error err = {0};
    _cleanup_buf_ struct buf words = BUF_INIT(WORDS_MAX);
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, -1, &n, &status))
        return status;
    for (int i = 0; i < n; i++)
        buf_printf(&words, "%s%s", i ? " " : "", argv[i]);
    if (!buf_cstr(&words)) {
        say("that is too much to search for");
        return EXIT_USAGE;
    }
    return search(&o, (char *)words.data, &err) < 0 ? say_failure(&err) : 0;
}
