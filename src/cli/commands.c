#include <stdbool.h>
#include <string.h>

#include "commands.h"
#include "nearest_name.h"
#include "run_options.h"
#include "say.h"
#include "banned.h"

const struct option JSON_OPTION[] = {
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, 0, option_parse_flag},
    {0},
};

static const char RUN_NOTES[] =
    "Sizes are 512M, 2G; times are 250ms, 30s, 5m, or none. The exit status is "
    "the command's; 128+N if signal N\n"
    "ended it; 124 if a time limit did; 125 if the box could not be made; 126 if "
    "the command could not be started,\n"
    "127 if it was not found; 1 if --apply left conflicts.\n";

static const char TOOL_NOTES[] =
    "The input is a JSON object, as an argument or (with -) on stdin; 'hutch tool --list' "
    "shows the tools. In a fresh box\n"
    "changes are gone afterwards unless --apply or --mode direct is given; a box that "
    "stays is named with --box. The exit\n"
    "status is 0, or 1 if the tool reported an error.\n";

static const char MCP_NOTES[] = "A client starts it and speaks with it on stdin and stdout; "
                                "docs/mcp.md shows how clients are told to. "
                                "What is changed in\n"
                                "a fresh box is gone at the end unless --apply or --mode direct is "
                                "given; a box that stays is named with "
                                "--box.\n";

static const char CHAT_NOTES[] =
    "The agent works in a box over the folder: its changes are shown at the end "
    "of a turn, and reach the folder when you apply\n"
    "them. /help lists the commands of the chat.\n";

static const char ASK_NOTES[] = "PROMPT may be several words; - stands for what is on stdin. The "
                                "exit status is 0 if the goal was "
                                "carried out, 1 if the\n"
                                "agent gave up, ran into a limit or left conflicts, 130 after "
                                "Ctrl-C, 125 if the model could not be "
                                "asked "
                                "or the box not be\n"
                                "made. What is not applied stays in the box, and the session can "
                                "be gone on with: --resume ID.\n";

static const char TRUST_NOTES[] = "Until a folder is trusted, hutch ignores what its .env and "
                                  ".hutch/config.json say about endpoints, "
                                  "keys, "
                                  "models and MCP\n"
                                  "servers. Trust ends when one of these files changes. DIR is the "
                                  "current folder if it is not given.\n";

const struct command COMMANDS[] = {
    {"", "chat", "work with an agent (also just 'hutch')", "[OPTIONS] [WORDS...]", RUN_OPTIONS,
     FOR_CHAT, NULL, CHAT_NOTES, IN_AGENT(command_chat)},
    {"", "ask", "let an agent carry out one goal", "[OPTIONS] PROMPT", RUN_OPTIONS, FOR_ASK, NULL,
     ASK_NOTES, IN_AGENT(command_ask)},
    {"", "history", "conversations of the past: list, show, export, search, remove", "COMMAND ...",
     NULL, 0, HISTORY_COMMANDS, NULL, IN_GROUP},
    {"", "run", "run one command in a fresh box", "[OPTIONS] [--] COMMAND [ARG...]", RUN_OPTIONS,
     FOR_RUN, NULL, RUN_NOTES, IN_HUTCH(command_run)},
    {"", "box", "boxes that stay: make, use, fork, look at, apply, remove", "COMMAND ...", NULL, 0,
     BOX_COMMANDS, NULL, IN_GROUP},
    {"", "tool", "call one of the tools that agents use", "[OPTIONS] NAME [JSON | -]", RUN_OPTIONS,
     FOR_TOOL, NULL, TOOL_NOTES, IN_AGENT(command_tool)},
    {"", "mcp", "the tools as an MCP server on stdin and stdout", "[OPTIONS]", RUN_OPTIONS, FOR_MCP,
     NULL, MCP_NOTES, IN_AGENT(command_mcp)},
    {"", "gym", "training and evaluation: tasks, episodes, agents that learn", "COMMAND ...", NULL,
     0, GYM_COMMANDS, NULL, IN_GROUP},
    {"", "trust", "let a folder's files choose endpoints, models and servers",
     "[--list | --show | --revoke DIR] [--json] [DIR]", TRUST_OPTIONS, OPTION_ALWAYS, NULL,
     TRUST_NOTES, IN_HUTCH(command_trust)},
    {"", "doctor", "what isolation this host can give, and what to do about the rest", "[--json]",
     JSON_OPTION, OPTION_ALWAYS, NULL, NULL, IN_HUTCH(command_doctor)},
    {"", "help", "this text, or the help of a command", "[--json] [COMMAND...]", JSON_OPTION,
     OPTION_ALWAYS, NULL, NULL, IN_HUTCH(command_help)},
    {"", "version", "print the version", "", NULL, 0, NULL, NULL, IN_HUTCH(command_version)},
    {0},
};

const struct command *command_find(const struct command *table, const char *name)
{
    for (const struct command *c = table; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

int command_unknown(const struct command *table, const char *name)
{
    const char *of = table->of;
    struct nearest near = nearest_to(name, strlen(name));
    for (const struct command *c = table; c->name; c++)
        nearest_offer(&near, c->name);
    if (near.best)
        say("there is no command '%s%s'; did you mean '%s%s'?", of, name, of, near.best);
    else
        say("there is no command '%s%s'; see 'hutch help'", of, name);
    return EXIT_USAGE;
}

bool command_words(const struct command *self, int argc, char **argv, void *target, int min,
                   int max, int *ret_n_words, int *ret_status)
{
    struct error err = {0};
    int n;
    int r = options_parse_mixed(self->options, self->mask, argc, argv, target, &n, &err);
    if (r == OPTIONS_HELP) {
        *ret_status = help_command(self);
        return false;
    }
    if (r < 0) {
        *ret_status = say_usage(&err);
        return false;
    }
    if (n < min || (max >= 0 && n > max)) {
        say("%s; usage: hutch %s%s %s", n < min ? "something is missing" : "too many words",
            self->of, self->name, self->usage);
        *ret_status = EXIT_USAGE;
        return false;
    }
    *ret_n_words = n;
    return true;
}
