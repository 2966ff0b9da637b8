#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "run_options.h"
#include "units.h"
#include "banned.h"

/* An option that makes a box what it is. */
static int parse_box(void *target, const struct option *self, const char *value, struct error *err)
{
    return box_wish_set(&((struct run_options *)target)->wish, self->name, value, err);
}

static int parse_cost(void *target, const struct option *self, const char *value, struct error *err)
{
    double cost;
    if (units_parse_decimal(value, &cost) < 0 || cost <= 0)
        return error_set(err, EINVAL, "--%s: '%s' is not an amount of dollars like 0.50", self->name, value);
    ((struct run_options *)target)->max_cost = cost;
    return 0;
}

static int parse_cwd(void *target, const struct option *self, const char *value, struct error *err)
{
    if (value[0] != '/')
        return error_set(err, EINVAL, "--cwd: '%s' is not an absolute path in the box", value);
    return option_parse_string(target, self, value, err);
}

#define AT(member)    offsetof(struct run_options, member)
#define TOOL_USERS    (FOR_TOOL | FOR_MCP)
#define AGENTS        (FOR_CHAT | FOR_ASK)
#define BOX_MAKERS    (FOR_RUN | FOR_NEW | TOOL_USERS | AGENTS)
#define ALL_OF_THEM   (BOX_MAKERS | FOR_EXEC)
#define COMMAND_USERS (FOR_RUN | FOR_EXEC)

/* clang-format off */
const struct option RUN_OPTIONS[] = {
    {"box", 0, "ID", "work in this box", "a fresh one", TOOL_USERS, AT(box_id), option_parse_string},
    {"workspace", 'w', "DIR", "what /workspace shows", "the current folder", BOX_MAKERS, 0, parse_box},
    {"mode", 0, "cow|direct|ro", "changes to /workspace are kept apart, go straight to DIR, or are refused", "cow", BOX_MAKERS, 0, parse_box},
    {"apply", 0, NULL, "with cow: apply the changes to DIR if the command succeeded", NULL, FOR_RUN, AT(apply), option_parse_flag},
    {"apply", 0, NULL, "with cow: apply the changes to DIR if the tool succeeded", NULL, FOR_TOOL, AT(apply), option_parse_flag},
    {"apply", 0, NULL, "with cow: apply the changes to DIR at the end", NULL, FOR_MCP, AT(apply), option_parse_flag},
    {"cache", 0, NULL, "answer calls that only read from a cache, where nobody else changes DIR", NULL, FOR_MCP, AT(cache), option_parse_flag},
    {"model", 0, "PROVIDER/NAME", "who is asked: anthropic/..., openai/..., replay/FILE, or a provider of the configuration", "HUTCH_MODEL", AGENTS, AT(model), option_parse_string},
    {"resume", 0, "ID", "go on with this session ('last': the newest)", NULL, AGENTS, AT(resume), option_parse_string},
    {"system", 0, "FILE", "instructions instead of the built-in ones", NULL, AGENTS, AT(system), option_parse_string},
    {"max-tokens", 0, "N", "tokens of all answers to one prompt together", "MAX_TOKENS, or none", AGENTS, AT(max_tokens), option_parse_count},
    {"max-turns", 0, "N", "answers of the model to one prompt", "none", AGENTS, AT(max_turns), option_parse_count},
    {"max-cost", 0, "USD", "dollars for one prompt", "none", AGENTS, AT(max_cost), parse_cost},
    {"apply", 0, NULL, "with cow: apply the changes to DIR at the end of a turn, without asking", NULL, FOR_CHAT, AT(apply), option_parse_flag},
    {"apply", 0, NULL, "with cow: apply the changes to DIR if the goal was carried out", NULL, FOR_ASK, AT(apply), option_parse_flag},
    {"no-apply", 0, NULL, "never apply changes, nor offer to", NULL, AGENTS, AT(no_apply), option_parse_flag},
    {"attempts", 0, "N", "let so many agents try side by side, each in a fork of the box, and keep the best", "1", AGENTS, AT(attempts), option_parse_count},
    {"test", 0, "CMD", "what tells how good an attempt is", NULL, AGENTS, AT(test), option_parse_string},
    {"record", 0, "FILE", "record the conversation, for --model replay/FILE", NULL, AGENTS, AT(record), option_parse_string},
    {"plain", 0, NULL, "line by line, without a screen", NULL, FOR_CHAT, AT(plain), option_parse_flag},
    {"json", 0, NULL, "print one JSON event per line", NULL, FOR_ASK, AT(json), option_parse_flag},
    {"backend", 0, "ns|vm", "what isolates the box", "ns", BOX_MAKERS, 0, parse_box},
    {"image", 0, "NAME", "root filesystem", "a selection of the host's", BOX_MAKERS, 0, parse_box},
    {"net", 0, "off|host|allow:H[:P][,...]", "the network: none, the host's, or these hosts only", "off", BOX_MAKERS, 0, parse_box},
    {"timeout", 0, "T", "wall time of a command", "10m", BOX_MAKERS, 0, parse_box},
    {"cpu-time", 0, "T", "CPU time of a command with all its children", "none", BOX_MAKERS, 0, parse_box},
    {"timeout", 0, "T", "wall time of this command", "the box's", FOR_EXEC, 0, parse_box},
    {"cpu-time", 0, "T", "CPU time of this command with all its children", "the box's", FOR_EXEC, 0, parse_box},
    {"memory", 0, "S", "memory of the box", "512M", BOX_MAKERS, 0, parse_box},
    {"pids", 0, "N", "processes and threads in the box", "256", BOX_MAKERS, 0, parse_box},
    {"files", 0, "N", "open files of a process", "1024", BOX_MAKERS, 0, parse_box},
    {"disk", 0, "S", "bytes that the box can write", "1G", BOX_MAKERS, 0, parse_box},
    {"cpus", 0, "F", "processors", "all", BOX_MAKERS, 0, parse_box},
    {"output", 0, "S", "bytes of stdout and of stderr kept in a --json result", "1M", BOX_MAKERS, 0, parse_box},
    {"output-total", 0, "S", "bytes of stdout and stderr after which a command is ended", "64G", BOX_MAKERS, 0, parse_box},
    {"ro", 0, "DIR[:AT]", "also show this folder of the host, read-only; may be repeated", NULL, BOX_MAKERS, 0, parse_box},
    {"rw", 0, "DIR[:AT]", "also show this folder of the host, writable; may be repeated", NULL, BOX_MAKERS, 0, parse_box},
    {"env", 0, "K=V", "set this variable, nothing else of the environment goes in; may be repeated", NULL, ALL_OF_THEM, 0, parse_box},
    {"cwd", 0, "DIR", "folder of the box that the command starts in", "/workspace", FOR_EXEC, AT(cwd), parse_cwd},
    {"tty", 0, NULL, "run the command on a pseudo-terminal", NULL, COMMAND_USERS, AT(tty), option_parse_flag},
    {"json", 0, NULL, "print a result object instead of the output", NULL, COMMAND_USERS, AT(json), option_parse_flag},
    {"json", 0, NULL, "print the ID in a JSON object", NULL, FOR_NEW, AT(json), option_parse_flag},
    {"json", 0, NULL, "print the whole result, or the list, as JSON", NULL, FOR_TOOL, AT(json), option_parse_flag},
    {"list", 0, NULL, "list the tools instead of calling one", NULL, FOR_TOOL, AT(list), option_parse_flag},
    {"markdown", 0, NULL, "print the page docs/tools.md", NULL, FOR_TOOL, AT(markdown), option_parse_flag},
    {"ttl", 0, "T", "remove the box after this time", "none", FOR_NEW, AT(ttl_ns), option_parse_time},
    {0},
};
/* clang-format on */

void run_options_init(struct run_options *o)
{
    memset(o, 0, sizeof *o);
    box_wish_init(&o->wish, "--");
}

void run_options_free(struct run_options *o)
{
    box_wish_free(&o->wish);
}

int run_options_parse(struct run_options *o, unsigned mask, int argc, char *const *argv, int *ret_used,
                      struct error *err)
{
    int r = options_parse(RUN_OPTIONS, mask, argc, argv, o, ret_used, err);
    if (r != 0)
        return r;
    if (o->apply && o->wish.box.mode != BOX_COW)
        return error_set(err, EINVAL,
                         "--apply works with --mode cow only: nothing is kept apart in the others");
    return 0;
}

bool run_options_make(const struct run_options *o)
{
    struct run_options plain;
    run_options_init(&plain);
    /* Both began as zeros and were filled by the same function, so that their padding is the same, too. */
    return memcmp(&plain.wish.box, &o->wish.box, sizeof plain.wish.box) != 0 || /* NOLINT(bugprone-*) */
           o->wish.image || o->wish.vm;
}
