/* `hutch history`: the table of its subcommands. hutch-agent implements them (history*.c). */
#include <stddef.h>
#include <string.h>

#include "commands.h"
#include "history_options.h"
#include "say.h"
#include "banned.h"

#define LS(member)     offsetof(struct history_ls_options, member)
#define SHOW(member)   offsetof(struct history_show_options, member)
#define EXPORT(member) offsetof(struct history_export_options, member)
#define SEARCH(member) offsetof(struct history_search_options, member)

static const struct option LS_OPTIONS[] = {
    {"count", 'n', "N", "only the last N", "all", OPTION_ALWAYS, LS(count), option_parse_count},
    {"workspace", 'w', "DIR", "only those of this folder", NULL, OPTION_ALWAYS, LS(workspace),
     option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, LS(json), option_parse_flag},
    {0},
};

static const struct option SHOW_OPTIONS[] = {
    {"full", 0, NULL, "tool output in full, and what was undone or cleared, too", NULL,
     OPTION_ALWAYS, SHOW(full), option_parse_flag},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, SHOW(json), option_parse_flag},
    {0},
};

static const struct option EXPORT_OPTIONS[] = {
    {"format", 0, "F", "md or html", "as FILE ends, else md", OPTION_ALWAYS, EXPORT(format),
     option_parse_string},
    {"output", 'o', "FILE", "write to this file", "stdout", OPTION_ALWAYS, EXPORT(output),
     option_parse_string},
    {0},
};

static const struct option SEARCH_OPTIONS[] = {
    {"count", 'n', "N", "at most N passages", "10", OPTION_ALWAYS, SEARCH(count),
     option_parse_count},
    {"session", 0, "ID", "only in this session", NULL, OPTION_ALWAYS, SEARCH(session),
     option_parse_string},
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, SEARCH(json), option_parse_flag},
    {0},
};

static const char ID_NOTES[] =
    "An ID may be shortened as long as only one session begins so; 'last' is the "
    "one that was written last.\n";

const struct command HISTORY_COMMANDS[] = {
    {"history ", "ls", "list the sessions", "[-n N] [-w DIR] [--json]", LS_OPTIONS, OPTION_ALWAYS,
     NULL, NULL, IN_AGENT(command_history_ls)},
    {"history ", "show", "print a session", "ID [--full] [--json]", SHOW_OPTIONS, OPTION_ALWAYS,
     NULL, ID_NOTES, IN_AGENT(command_history_show)},
    {"history ", "export", "write a session as Markdown, or as one HTML file",
     "ID [--format F] [-o FILE]", EXPORT_OPTIONS, OPTION_ALWAYS, NULL, ID_NOTES,
     IN_AGENT(command_history_export)},
    {"history ", "search", "find passages in all sessions",
     "[-n N] [--session ID] [--json] WORDS...", SEARCH_OPTIONS, OPTION_ALWAYS, NULL, NULL,
     IN_AGENT(command_history_search)},
    {"history ", "rm", "remove sessions, with what belongs to them", "ID...", NULL, 0, NULL,
     ID_NOTES, IN_AGENT(command_history_rm)},
    {0},
};
