/*
 * hutch: looks up the subcommand's row and runs it, here or in the program that the row names; and
 * the commands about hutch itself: help, version and doctor. Nothing is read or set up here that a
 * subcommand did not ask for, so that `hutch run` starts fast.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cli.h"
#include "box_host.h"
#include "text.h"
#include "probe.h"
#if defined(HUTCH_AGENT) || defined(HUTCH_WORKER)
#include "mcp.h"
#endif
#include "banned.h"

#define COLUMN 28

/* hutch-agent has the option tables of all commands, for the help; the program of a row has the
 * functions (see cli.h). */
#define IN_HUTCH(body) NULL, &body
#if defined(HUTCH_AGENT)
#define IN_AGENT(body)  "hutch-agent", &body
#define IN_SERVER(body) "hutch-server", &body
#define IN_WORKER(body) "hutch-worker", &body
#elif defined(HUTCH_SERVER)
#define IN_AGENT(body)  "hutch-agent", NULL
#define IN_SERVER(body) "hutch-server", &body
#define IN_WORKER(body) "hutch-worker", NULL
#elif defined(HUTCH_WORKER)
#define IN_AGENT(body)  "hutch-agent", NULL
#define IN_SERVER(body) "hutch-server", NULL
#define IN_WORKER(body) "hutch-worker", &body
#else
#define IN_AGENT(body)  "hutch-agent", NULL
#define IN_SERVER(body) "hutch-server", NULL
#define IN_WORKER(body) "hutch-worker", NULL
#endif
#define GROUP(name, summary)                         {"", name, summary, NULL, NULL},
#define COMMAND(body, group, name, program, summary) {group, name, summary, program(body)},

static const struct command COMMANDS[] = {
#include "commands.def"
    {0},
};

const struct option JSON_OPTION[] = {
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, 0, option_parse_flag},
    {0},
};

/* The command of that name in a group (""; "box"). NULL: there is none; that and a suggestion were
 * said. */
static const struct command *command_find(const char *group, const char *name)
{
    struct nearest near = nearest_to(name, strlen(name));
    const char *blank = *group ? " " : "";
    for (const struct command *c = COMMANDS; c->name; c++) {
        if (strcmp(c->group, group) != 0)
            continue;
        if (strcmp(c->name, name) == 0)
            return c;
        nearest_offer(&near, c->name);
    }
    if (near.best)
        say("there is no command '%s%s%s'; did you mean '%s%s%s'?", group, blank, name, group,
            blank, near.best);
    else
        say("there is no command '%s%s%s'; see 'hutch help'", group, blank, name);
    return NULL;
}

/* Another program implements the command; it parses the same argv with the same table. */
static int command_execute(const char *program, char **argv)
{
    char path[LIBEXEC_PATH_MAX];
    struct error err = {0};
    if (libexec_find(program, path, &err) == 0) {
        execv(path, argv);
        error_errno(&err, errno, "cannot start %s", path);
    }
    return say_failure(&err);
}

bool command_words(const struct command *self, int argc, char **argv, void *target, int min,
                   int max, int *ret_n_words, int *ret_status)
{
    struct error err = {0};
    int n, r = options_parse_mixed(self->body->options, argc, argv, target, &n, &err);
    if (r == OPTIONS_HELP) {
        *ret_status = help_command(self);
        return false;
    }
    if (r == 0 && (n < min || (max >= 0 && n > max)))
        r = error_set(&err, EINVAL, "%s; usage: hutch %s%s%s %s",
                      n < min ? "missing arguments" : "too many arguments", self->group,
                      *self->group ? " " : "", self->name, self->body->usage);
    if (r < 0)
        *ret_status = say_usage(&err);
    else
        *ret_n_words = n;
    return r == 0;
}

/* Help. */

static void help_print_heading(const char *text)
{
    printf("%s%s%s", say_colour(STDOUT_FILENO, "\033[1m"), text,
           say_colour(STDOUT_FILENO, "\033[0m"));
}

static void help_print_option(const struct option *o)
{
    char left[96], text[512];
    int n = snprintf(left, sizeof left, "%c%c%s--%s%s%s", o->letter ? '-' : ' ',
                     o->letter ? o->letter : ' ', o->letter ? ", " : "  ", o->name,
                     o->arg ? " " : "", o->arg ? o->arg : "");
    if (n > COLUMN)
        printf("  %s\n  %*s  ", left, COLUMN, "");
    else
        printf("  %-*s  ", COLUMN, left);
    snprintf(text, sizeof text, "%s%s%s%s%s", o->help,
             o->where & OPTION_REPEATS ? "; may be repeated" : "", o->fallback ? " (default: " : "",
             o->fallback ? o->fallback : "", o->fallback ? ")" : "");
    columns_put(text, COLUMN + 4, 0);
}

static void help_print_commands(const char *group)
{
    help_print_heading("\ncommands\n");
    for (const struct command *c = COMMANDS; c->name; c++)
        if (strcmp(c->group, group) == 0)
            printf("  %-12s%s\n", c->name, c->summary);
}

static const struct option HELP_OPTION = {.name = "help", .letter = 'h', .help = "print this text"};

int help_command(const struct command *c)
{
    const char *usage = c->body ? c->body->usage : "COMMAND ...";
    help_print_heading("usage");
    printf(": hutch %s%s%s%s%s\n\n%s\n", c->group, *c->group ? " " : "", c->name, *usage ? " " : "",
           usage, c->summary);
    if (!c->body) {
        help_print_commands(c->name);
        printf("\n'hutch %s COMMAND --help' prints the options of each.\n", c->name);
    }
    help_print_heading("\noptions\n");
    for (const struct option *o = NULL; c->body && (o = option_next(c->body->options, o));)
        help_print_option(o);
    help_print_option(&HELP_OPTION);
    if (c->body && c->body->notes) {
        printf("\n");
        columns_put(c->body->notes, 0, 100);
    }
    return 0;
}

static int help_overview(void)
{
    help_print_heading("usage");
    printf(": hutch [OPTIONS], hutch COMMAND ...\n\n");
    columns_put("A home for coding agents. Every command works in a box, a sandbox with its own "
                "files. Without a command, hutch starts the chat.",
                0, 100);
    help_print_commands("");
    help_print_heading("\noptions\n");
    help_print_option(&HELP_OPTION);
    help_print_option(&(struct option){.name = "version", .help = "print the version"});
    printf("\n'hutch COMMAND --help' prints the options of each. Try: hutch run -- sh -c 'id; ls "
           "-a'\n");
    return 0;
}

static json_t *help_json(const char *group)
{
    json_t *list = json_array();
    for (const struct command *c = COMMANDS; c->name; c++) {
        if (strcmp(c->group, group) != 0)
            continue;
        json_t *options = json_array();
        for (const struct option *o = NULL; c->body && (o = option_next(c->body->options, o));) {
            char letter[2] = {o->letter, 0};
            json_array_append_new(options,
                                  json_pack("{s:s, s:s?, s:s?, s:s, s:s?, s:b}", "name", o->name,
                                            "short", o->letter ? letter : NULL, "arg", o->arg,
                                            "help", o->help, "default", o->fallback, "repeats",
                                            (o->where & OPTION_REPEATS) != 0));
        }
        json_array_append_new(
            list, json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", c->name, "summary", c->summary,
                            "usage", c->body ? c->body->usage : "COMMAND ...", "options", options,
                            "commands", *group ? json_array() : help_json(c->name)));
    }
    return list;
}

/* hutch itself has only names and summaries of the commands of hutch-agent. */
static int help_run(const struct command *self, int argc, char **argv)
{
    bool json = false;
    int n, status;
    const struct command *c = NULL;
    if (!command_words(self, argc, argv, &json, 0, 2, &n, &status))
        return status;
    for (int i = 0; i < n && !json; i++)
        if (!(c = command_find(c ? c->name : "", argv[i])))
            return EXIT_USAGE;
#ifndef HUTCH_AGENT
    if (json || (c && c->program)) {
        const char *words[] = {"hutch", "help", json ? "--json" : argv[0],
                               !json && n > 1 ? argv[1] : NULL, NULL};
        return command_execute("hutch-agent", (char **)words);
    }
#endif
    if (!json)
        return c ? help_command(c) : help_overview();
    output_json(json_pack("{s:s, s:o}", "version", HUTCH_VERSION, "commands", help_json("")),
                JSON_INDENT(2));
    return 0;
}

const struct command_body COMMAND_HELP = {
    .usage = "[--json] [COMMAND...]", .options = {{JSON_OPTION, OPTION_ALWAYS}}, .run = help_run};

static int version_run(const struct command *self, int argc, char **argv)
{
    int n, status;
    if (!command_words(self, argc, argv, NULL, 0, 0, &n, &status))
        return status;
    printf("hutch %s\n", HUTCH_VERSION);
    return 0;
}

const struct command_body COMMAND_VERSION = {.usage = "", .run = version_run};

/* The probes of the box layer as a table, and a verdict in words. */
static int doctor_run(const struct command *self, int argc, char **argv)
{
    static const struct {
        const char *name, *colour;
    } STATES[] = {
        [PROBE_YES] = {"yes", "\033[32m"},
        [PROBE_DEGRADED] = {"degraded", "\033[33m"},
        [PROBE_NO] = {"no", "\033[31m"},
        [PROBE_NOT_TRIED] = {"not tried", "\033[2m"},
    };
    bool json = false, starts = true;
    struct probe_result results[PROBE_MAX];
    int n_words, status, width = 0;
    size_t missing = 0;
    if (!command_words(self, argc, argv, &json, 0, 0, &n_words, &status))
        return status;
    size_t n = probe_all(results, PROBE_MAX);
    for (size_t i = 0; i < n; i++)
        width = (int)strlen(results[i].name) > width ? (int)strlen(results[i].name) : width;
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++) {
        const struct probe_result *p = &results[i];
        const char *state = STATES[p->state].name;
        starts = starts && (p->state == PROBE_YES || p->state == PROBE_DEGRADED || !p->required);
        missing += p->state == PROBE_NO || p->state == PROBE_DEGRADED;
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:b, s:s, s:s?}", "name", p->name, "state",
                                        state, "required", p->required, "detail", p->detail,
                                        "remedy", p->remedy[0] ? p->remedy : NULL));
        if (json)
            continue;
        printf("%-*s  %s%-9s%s  %s\n", width, p->name,
               say_colour(STDOUT_FILENO, STATES[p->state].colour), state,
               say_colour(STDOUT_FILENO, "\033[0m"), p->detail);
        if (p->remedy[0])
            printf("%*s  %s\n", width + 11, "", p->remedy);
    }
    if (json)
        output_json(json_pack("{s:b, s:O}", "ok", starts, "probes", list), JSON_INDENT(2));
    else if (!starts)
        printf("\nBoxes cannot start on this host until the above is fixed.\n");
    else if (missing)
        printf("\nBoxes start on this host; %zu of the above are missing or degraded.\n", missing);
    else
        printf("\nBoxes start on this host with all protections.\n");
    json_decref(list);
    return starts ? 0 : 1;
}

const struct command_body COMMAND_DOCTOR = {
    .usage = "[--json]", .options = {{JSON_OPTION, OPTION_ALWAYS}}, .run = doctor_run};

static int command_dispatch(int argc, char **argv)
{
    bool help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (help)
        return help_overview();
    /* Without a command it is the chat: `hutch`, `hutch --resume last`. */
    bool chat = argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--version") != 0);
    const char *name = chat ? "chat" : argv[1][0] == '-' ? "version" : argv[1];
    int used = argc < 1 ? 0 : chat ? 1 : 2;
    const struct command *c = command_find("", name);
    if (c && !c->program && !c->body) { /* a group */
        if (used == argc) {
            say("'hutch %s' needs a command; see 'hutch %s --help'", c->name, c->name);
            return EXIT_USAGE;
        }
        name = argv[used++];
        if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
            return help_command(c);
        c = command_find(c->name, name);
    }
    if (!c)
        return EXIT_USAGE;
    return c->body && c->body->run ? c->body->run(c, argc - used, argv + used)
                                   : command_execute(c->program, argv);
}

int main(int argc, char **argv)
{
    /* A caller may have closed stdin, stdout or stderr: what is opened next must not become one of
     * them by accident. */
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);

    /* The kernel counts the descriptors that a user has under way in sockets against the sender's
     * limit on open files. A box runs as the same user with a lower limit: with a higher one here,
     * it cannot keep hutch from talking to other boxes. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    output_begin();
#if defined(HUTCH_AGENT) || defined(HUTCH_WORKER)
    mcp_tools_register();
#endif
    return output_finish(command_dispatch(argc, argv));
}
