/*
 * `hutch trust`: which folders may decide where a conversation goes and what runs on this machine;
 * and the question that `hutch chat` asks about a folder. src/tool/trust.c says what a decision
 * covers.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "command_options.h"
#include "commands.h"
#include "json.h"
#include "output.h"
#include "trust_ask.h"
#include "banned.h"

#define ANSWER_MAX 64
#define NAMES_MAX  400 /* bytes of the question's list; the rest is counted */

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

static const char *trust_state_text(enum trust_state state, bool json)
{
    switch (state) {
    case TRUST_YES:
        return "trusted";
    case TRUST_NO:
        return "refused";
    case TRUST_CHANGED:
        return json ? "changed" : "not trusted: its files have changed since you decided";
    default:
        return json ? "undecided" : "not trusted";
    }
}

/* Trusts the folder, unless it is only to be shown; and prints what that means. */
static int trust_folder(const char *folder, const struct trust_options *o)
{
    struct error err = {0}, trouble = {0};
    char name[4 * 4096];
    _cleanup_trust_ struct trust t = {0};
    if (trust_read(folder, &t, &err) < 0 || (!o->show && trust_decide(&t, true, &err) < 0))
        return say_failure(&err);
    if (!o->show)
        t.state = TRUST_YES;
    json_t *items = trust_items(&t, &trouble);
    if (t.files[TRUST_DOTENV].unreadable.code)
        say("%s", t.files[TRUST_DOTENV].unreadable.text);
    if (trouble.code)
        say("%s", trouble.text);
    if (o->json) {
        json_t *all = json_pack("{s:s, s:s, s:O}", "folder", t.folder, "state",
                                trust_state_text(t.state, true), "items", items);
        if (!all)
            say("the path of this folder is not UTF-8: JSON cannot hold it");
        else
            output_json(all, JSON_INDENT(2));
        json_decref(items);
        return all ? 0 : EXIT_HUTCH;
    }
    printf("%s is %s%s\n", say_clean(t.folder, name, sizeof name), trust_state_text(t.state, false),
           json_array_size(items) > 0 ? "; its files set:" : "; nothing in its files needs trust");
    trust_print_items(stdout, items);
    json_decref(items);
    return 0;
}

int command_trust(const struct command *self, int argc, char **argv)
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
    if (trust_revoke(o.revoke, &err) < 0)
        return say_failure(&err);
    return 0;
}

/* Asks; names what the files would set, as far as there is room. */
static void trust_print_question(const struct trust *t, const json_t *items)
{
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
    fprintf(stderr, "%s%s: its files would set %s. Trust this folder? [y]es, [n]o, [s]how: ",
            say_clean(t->folder, folder, sizeof folder),
            t->state == TRUST_CHANGED ? " has changed since you decided about it" : "",
            say_clean(names, clean, sizeof clean));
    fflush(stderr);
}

int trust_ask(const struct trust *t, const json_t *items, struct error *err)
{
    for (;;) {
        char answer[ANSWER_MAX] = "", c = 0;
        size_t used = 0;
        ssize_t n = 1;
        trust_print_question(t, items);
        /* A line, byte by byte: what is typed after it is for the chat. */
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
        if (yes || strcasecmp(answer, "n") == 0 || strcasecmp(answer, "no") == 0) {
            int r = trust_decide(t, yes, err);
            return r < 0 ? r : yes;
        }
    }
}
