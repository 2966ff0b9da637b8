/* `hutch help`, `hutch version` and every --help: the command table and the option tables as text
 * or as JSON. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "output.h"
#include "commands.h"
#include "banned.h"

#define COLUMN 28

static const struct option HELP_OPTION = {.name = "help", .letter = 'h', .help = "print this text"};

static void help_print_heading(const char *text)
{
    bool colours = say_colours(STDOUT_FILENO);
    printf("%s%s%s", colours ? "\033[1m" : "", text, colours ? "\033[0m" : "");
}

static void help_print_option(const struct option *o)
{
    char left[96];
    int n = snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
                     o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                     o->arg ? " " : "", o->arg ? o->arg : "");
    if (n > COLUMN)
        printf("  %s\n  %*s", left, COLUMN, "");
    else
        printf("  %-*s", COLUMN, left);
    printf("  ");
    char text[512];
    snprintf(text, sizeof text, "%s%s%s%s%s", o->help,
             o->where & OPTION_REPEATS ? "; may be repeated" : "", o->fallback ? " (default: " : "",
             o->fallback ? o->fallback : "", o->fallback ? ")" : "");
    columns_put(text, COLUMN + 4, 0);
}

static void help_print_commands(const struct command *table)
{
    help_print_heading("\ncommands\n");
    for (const struct command *c = table; c->name; c++)
        printf("  %-12s%s\n", c->name, c->summary);
}

int help_command(const struct command *c)
{
    help_print_heading("usage");
    printf(": hutch %s%s%s%s\n\n%s\n", c->of, c->name, *c->usage ? " " : "", c->usage, c->summary);
    if (c->group) {
        help_print_commands(c->group);
        printf("\n'hutch %s COMMAND --help' prints the options of each.\n", c->name);
    }
    help_print_heading("\noptions\n");
    for (const struct option *o = NULL; (o = option_next(c->options, o));)
        help_print_option(o);
    help_print_option(&HELP_OPTION);
    if (c->notes) {
        printf("\n");
        columns_put(c->notes, 0, 100);
    }
    return 0;
}

int help_overview(void)
{
    help_print_heading("usage");
    printf(": hutch [OPTIONS], hutch COMMAND ...\n\n");
    columns_put("A home for coding agents. Every command works in a box, a sandbox with its own "
                "files. Without a command, hutch starts the chat.",
                0, 100);
    help_print_commands(COMMANDS);
    help_print_heading("\noptions\n");
    help_print_option(&HELP_OPTION);
    help_print_option(&(struct option){.name = "version", .help = "print the version"});
    printf("\n'hutch COMMAND --help' prints the options of each. Try: hutch run -- sh -c 'id; ls "
           "-a'\n");
    return 0;
}

static json_t *commands_json(const struct command *table)
{
    json_t *list = json_array();
    for (const struct command *c = table; c->name; c++) {
        json_t *options = json_array();
        for (const struct option *o = NULL; (o = option_next(c->options, o));) {
            char letter[2] = {o->letter, 0};
            json_array_append_new(options,
                                  json_pack("{s:s, s:s?, s:s?, s:s, s:s?, s:b}", "name", o->name,
                                            "short", o->letter ? letter : NULL, "arg", o->arg,
                                            "help", o->help, "default", o->fallback, "repeats",
                                            (o->where & OPTION_REPEATS) != 0));
        }
        json_t *group = c->group ? commands_json(c->group) : json_array();
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", c->name,
                                              "summary", c->summary, "usage", c->usage, "options",
                                              options, "commands", group));
    }
    return list;
}

int command_help(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int n, status;
    if (!command_words(self, argc, argv, &json, 0, 2, &n, &status))
        return status;
    if (json) {
        output_json(
            json_pack("{s:s, s:o}", "version", HUTCH_VERSION, "commands", commands_json(COMMANDS)),
            JSON_INDENT(2));
        return 0;
    }
    const struct command *table = COMMANDS, *c = NULL;
    for (int i = 0; i < n; i++) {
        c = table ? command_find(table, argv[i]) : NULL;
        if (!c)
            return command_unknown(table ? table : COMMANDS, argv[i]);
        table = c->group;
    }
    return c ? help_command(c) : help_overview();
}

int command_version(const struct command *self, int argc, char **argv)
{
    int n, status;
    if (!command_words(self, argc, argv, NULL, 0, 0, &n, &status))
        return status;
    printf("hutch %s\n", HUTCH_VERSION);
    return 0;
}
