/*
 * `hutch trust`: which folders may decide where a conversation goes and what runs on this machine;
 * and the question that `hutch chat` asks about a folder. src/config/trust.c says what a decision
 * covers.
 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "config.h"
#include "banned.h"

#define ANSWER_MAX 64
#define NAMES_MAX  400 /* bytes of the question's list; the rest is counted */

struct trust_options {
    bool list, show, json;
    const char *revoke;
};

/* The files belong to a stranger: whatever they hold must not reach the terminal as a control
 * sequence. */
static void trust_print_items(FILE *out, const json_t *items)
{
    size_t i;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        char name[600], value[8200];
        fprintf(out, "  %-18s  %-24s  %s\n", json_get_string_or(item, "file", ""),
                say_clean(json_get_string_or(item, "name", ""), name, sizeof name),
                say_clean(json_get_string_or(item, "value", ""), value, sizeof value));
    }
}

static int trust_print_list(bool json)
{
    struct error err = {0};
    json_t *list = NULL, *one;
    size_t i;
    if (trust_list(&list, &err) < 0)
        return say_failure(&err);
    if (json) {
        output_json(json_incref(list), JSON_INDENT(2));
    } else if (json_array_size(list) > 0) {
        printf("%-8s  %-20s  %s\n", "STATE", "DECIDED", "FOLDER");
        json_array_foreach(list, i, one)
        {
            char folder[4 * 4096], decided[100];
            printf("%-8s  %-20s  %s\n", json_get_string_or(one, "state", ""),
                   say_clean(json_get_string_or(one, "decided", ""), decided, sizeof decided),
                   say_clean(json_get_string_or(one, "folder", ""), folder, sizeof folder));
        }
    }
    json_decref(list);
    return 0;
}

/* Trusts the folder, unless it is only to be shown; and prints what that means. */
static int trust_folder(const char *folder, const struct trust_options *o)
{
    static const char *const states[][2] = {
        [TRUST_UNKNOWN] = {"not trusted", "undecided"},
        [TRUST_YES] = {"trusted", "trusted"},
        [TRUST_NO] = {"refused", "refused"},
        [TRUST_CHANGED] = {"not trusted: its files have changed since you decided", "changed"},
    };
    struct error err = {0}, trouble = {0};
    char name[4 * 4096];
    int status = 0;
    _cleanup_trust_ struct trust t = {0};
    if (trust_read(folder, &t, &err) < 0 || (!o->show && trust_decide(&t, true, &err) < 0))
        return say_failure(&err);
    if (!o->show)
        t.state = TRUST_YES;
    _cleanup_json_ json_t *items = trust_items(&t, &trouble);
    if (t.files[TRUST_DOTENV].unreadable.code)
        say("%s", t.files[TRUST_DOTENV].unreadable.text);
    if (trouble.code)
        say("%s", trouble.text);
    const char *state = states[t.state][o->json];
    if (o->json) {
        json_t *all =
            json_pack("{s:s, s:s, s:O}", "folder", t.folder, "state", state, "items", items);
        status = all ? 0 : EXIT_HUTCH;
        if (all)
            output_json(all, JSON_INDENT(2));
        else
            say("the path of this folder is not UTF-8: JSON cannot hold it");
        return status;
    }
    printf("%s is %s%s\n", say_clean(t.folder, name, sizeof name), state,
           json_array_size(items) > 0 ? "; its files set:" : "; nothing in its files needs trust");
    trust_print_items(stdout, items);
    return 0;
}

static int trust_run(const struct command *self, int argc, char **argv)
{
    struct trust_options o = {0};
    struct error err = {0};
    int n, status;
    if (!command_words(self, argc, argv, &o, 0, 1, &n, &status))
        return status;
    if (o.list + o.show + (o.revoke != NULL) > 1 || ((o.list || o.revoke) && n > 0)) {
        say("--list, --show and --revoke exclude each other; give DIR only with --show");
        return EXIT_USAGE;
    }
    if (o.list)
        return trust_print_list(o.json);
    if (!o.revoke)
        return trust_folder(n ? argv[0] : ".", &o);
    return trust_revoke(o.revoke, &err) < 0 ? say_failure(&err) : 0;
}

#define AT(member) offsetof(struct trust_options, member)

static const struct option TRUST_OPTIONS[] = {
    {"list", 0, NULL, "list the folders that you trusted or refused", NULL, OPTION_ALWAYS, AT(list),
     option_parse_flag},
    {"show", 0, NULL, "show what the files of DIR would set, without trusting them", NULL,
     OPTION_ALWAYS, AT(show), option_parse_flag},
    {"revoke", 0, "DIR", "forget the decision about this folder", NULL, OPTION_ALWAYS, AT(revoke),
     option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, AT(json), option_parse_flag},
    {0},
};

const struct command_body COMMAND_TRUST = {
    .usage = "[--list | --show | --revoke DIR] [--json] [DIR]",
    .options = {{TRUST_OPTIONS, OPTION_ALWAYS}},
    .notes =
        "Until you trust a folder, hutch ignores what its .env and .hutch/config.json say about "
        "endpoints, keys, models and MCP servers. Trust ends when one of these files changes. DIR "
        "defaults to the current folder.",
    .run = trust_run};

int trust_ask(const struct trust *t, const json_t *items, struct error *err)
{
    /* The names of what the files would set, as far as there is room. */
    char names[NAMES_MAX + 100] = "", folder[4096], clean[4 * NAMES_MAX];
    size_t i, used = 0, left_out = 0;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        const char *name = json_get_string_or(item, "name", "");
        if (used + strlen(name) + 2 > NAMES_MAX)
            left_out++;
        else
            used +=
                (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
    }
    if (left_out)
        snprintf(names + used, sizeof names - used, " and %zu more", left_out);
    for (;;) {
        char answer[ANSWER_MAX] = "", c = 0;
        ssize_t n = 1;
        fprintf(stderr, "%s%s: its files would set %s. Trust this folder? [y]es, [n]o, [s]how: ",
                say_clean(t->folder, folder, sizeof folder),
                t->state == TRUST_CHANGED ? " has changed since you decided about it" : "",
                say_clean(names, clean, sizeof clean));
        fflush(stderr);
        /* A line, byte by byte: what is typed after it is for the chat. */
        used = 0;
        while (c != '\n' && ((n = read(STDIN_FILENO, &c, 1)) > 0 || (n < 0 && errno == EINTR)))
            if (n > 0 && c != '\n' && used + 1 < ANSWER_MAX)
                answer[used++] = c;
        if (c != '\n') {
            fprintf(stderr, "\n");
            return 0;
        }
        if (strcasecmp(answer, "s") == 0 || strcasecmp(answer, "show") == 0)
            trust_print_items(stderr, items);
        bool yes = strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0;
        if (yes || strcasecmp(answer, "n") == 0 || strcasecmp(answer, "no") == 0)
            return trust_decide(t, yes, err);
    }
}
