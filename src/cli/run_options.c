#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "run_options.h"
#include "say.h"
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
        return error_set(err, EINVAL, "--%s: '%s' is not an amount of dollars like 0.50",
                         self->name, value);
    ((struct run_options *)target)->max_cost = cost;
    return 0;
}

static int parse_allow_clone(void *target, const struct option *self, const char *value,
                             struct error *err)
{
    struct run_options *o = target;
    if (!*value || value[0] == '-' || strpbrk(value, "/@ "))
        return error_set(err, EINVAL, "--%s: '%s' is not a host like github.com", self->name,
                         value);
    if (o->n_allow_clone == ARRAY_SIZE(o->allow_clone))
        return error_set(err, EINVAL, "--%s: at most %zu hosts", self->name,
                         ARRAY_SIZE(o->allow_clone));
    o->allow_clone[o->n_allow_clone++] = value;
    return 0;
}

/* Checked by the parser of --net, and kept entry by entry. */
static int parse_allow_net(void *target, const struct option *self, const char *value,
                           struct error *err)
{
    struct run_options *o = target;
    _cleanup_wish_ struct box_wish check;
    _cleanup_free_ char *text = NULL;
    box_wish_init(&check, "--");
    if (asprintf(&text, "allow:%s", value) < 0)
        return error_set(err, ENOMEM, "no memory");
    int r = box_wish_set(&check, "net", text, err);
    if (r < 0)
        return error_wrap(err, "--%s", self->name);
    if (o->n_allow_net || check.box.n_allow > ARRAY_SIZE(o->allow_net))
        return error_set(err, EINVAL, "--%s: give one list of at most %zu hosts", self->name,
                         ARRAY_SIZE(o->allow_net));
    char *rest = o->allow_net_text = strdup(value);
    if (!rest)
        return error_set(err, ENOMEM, "no memory");
    for (char *entry; (entry = strsep(&rest, ","));)
        o->allow_net[o->n_allow_net++] = entry;
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
    {"trust", 0, NULL, "trust the folder's .env and .hutch/config.json for this run", NULL, AGENTS, AT(trust), option_parse_flag},
    {"trust", 0, NULL, "trust the folder's .hutch/config.json for this run", NULL, TOOL_USERS, AT(trust), option_parse_flag},
    {"model", 0, "PROVIDER/NAME", "who is asked: anthropic/..., openai/..., replay/FILE, or a provider of the configuration", "HUTCH_MODEL", AGENTS, AT(model), option_parse_string},
    {"resume", 0, "ID", "go on with this session ('last': the newest)", NULL, AGENTS, AT(resume), option_parse_string},
    {"system", 0, "FILE", "instructions instead of the built-in ones", NULL, AGENTS, AT(system), option_parse_string},
    {"max-tokens", 0, "N", "tokens of all answers to one prompt together", "MAX_TOKENS, or none", AGENTS, AT(max_tokens), option_parse_count},
    {"max-turns", 0, "N", "answers of the model to one prompt", "none", AGENTS, AT(max_turns), option_parse_count},
    {"max-cost", 0, "USD", "dollars for one prompt", "none", AGENTS, AT(max_cost), parse_cost},
    {"apply", 0, NULL, "with cow: apply the changes to DIR at the end of a turn, without asking", NULL, FOR_CHAT, AT(apply), option_parse_flag},
    {"apply", 0, NULL, "with cow: apply the changes to DIR if the goal was carried out", NULL, FOR_ASK, AT(apply), option_parse_flag},
    {"no-apply", 0, NULL, "never apply changes, nor offer to", NULL, AGENTS, AT(no_apply), option_parse_flag},
    {"allow-git-dirs", 0, NULL, "with --apply: also files that make a folder a git directory", NULL, FOR_RUN, AT(allow_git_dirs), option_parse_flag},
    {"allow-git-dirs", 0, NULL, "also apply files that make a folder a git directory", NULL, AGENTS, AT(allow_git_dirs), option_parse_flag},
    {"attempts", 0, "N", "let so many agents try side by side, each in a fork of the box, and keep the best", "1", AGENTS, AT(attempts), option_parse_count},
    {"test", 0, "CMD", "what tells how good an attempt is", NULL, AGENTS, AT(test), option_parse_string},
    {"record", 0, "FILE", "record the conversation, for --model replay/FILE", NULL, AGENTS, AT(record), option_parse_string},
    {"allow-push", 0, NULL, "confirm git_push and create_pr in advance", NULL, FOR_TOOL | FOR_MCP | FOR_CHAT | FOR_ASK, AT(allow_push), option_parse_flag},
    {"allow-clone", 0, "HOST", "let git_clone fetch from this host without asking; may be repeated", NULL, FOR_TOOL | FOR_MCP | FOR_CHAT | FOR_ASK, 0, parse_allow_clone},
    {"allow-net", 0, "H[:P][,...]", "confirm request_network for these hosts and @groups in advance", NULL, FOR_TOOL | FOR_MCP | FOR_CHAT | FOR_ASK, 0, parse_allow_net},
    {"no-toolchains", 0, NULL, "do not show the toolchains of your PATH (~/.cargo, ~/.pyenv, /opt, ...)", NULL, AGENTS, AT(no_toolchains), option_parse_flag},
    {"plain", 0, NULL, "line by line, without a screen", NULL, FOR_CHAT, AT(plain), option_parse_flag},
    {"json", 0, NULL, "print one JSON event per line", NULL, FOR_ASK, AT(json), option_parse_flag},
    {"backend", 0, "ns|vm", "what isolates the box", "ns", BOX_MAKERS, 0, parse_box},
    {"image", 0, "NAME", "root filesystem", "a selection of the host's", BOX_MAKERS, 0, parse_box},
    {"net", 0, "off|host|allow:H[:P][,...]", "the network: none, the host's, or these hosts and @groups only", "off", BOX_MAKERS, 0, parse_box},
    {"timeout", 0, "T", "wall time of a command", "10m", BOX_MAKERS, 0, parse_box},
    {"cpu-time", 0, "T", "CPU time of a command with all its children", "none", BOX_MAKERS, 0, parse_box},
    {"timeout", 0, "T", "wall time of this command", "the box's", FOR_EXEC, 0, parse_box},
    {"cpu-time", 0, "T", "CPU time of this command with all its children", "the box's", FOR_EXEC, 0, parse_box},
    {"memory", 0, "S", "memory of the box", "512M", BOX_MAKERS & ~AGENTS, 0, parse_box},
    {"memory", 0, "S", "memory of the box", "a quarter of the machine's", AGENTS, 0, parse_box},
    {"pids", 0, "N", "processes and threads in the box", "256", BOX_MAKERS, 0, parse_box},
    {"files", 0, "N", "open files of a process", "1024", BOX_MAKERS, 0, parse_box},
    {"disk", 0, "S", "bytes that the box can write; more than 1G are kept on disk", "1G", BOX_MAKERS & ~AGENTS, 0, parse_box},
    {"disk", 0, "S", "bytes that the box can write, on disk", "20G, or half of what is free", AGENTS, 0, parse_box},
    {"cpus", 0, "F", "processors", "all", BOX_MAKERS, 0, parse_box},
    {"output", 0, "S", "bytes of stdout and of stderr kept in a --json result", "1M", BOX_MAKERS, 0, parse_box},
    {"output-total", 0, "S", "bytes of stdout and stderr after which a command is ended", "64G", BOX_MAKERS, 0, parse_box},
    {"net", 0, "off|allow:H[:P][,...]", "the network: none, or these hosts and @groups only", NULL, FOR_SET, 0, parse_box},
    {"memory", 0, "S", "memory of the box", NULL, FOR_SET, 0, parse_box},
    {"cpus", 0, "F", "processors, or all", NULL, FOR_SET, 0, parse_box},
    {"pids", 0, "N", "processes and threads in the box", NULL, FOR_SET, 0, parse_box},
    {"timeout", 0, "T", "wall time of a command", NULL, FOR_SET, 0, parse_box},
    {"ro", 0, "PATH[:AT]", "also show this folder or file of the host, read-only; may be repeated", NULL, BOX_MAKERS, 0, parse_box},
    {"rw", 0, "PATH[:AT]", "also show this folder or file of the host, writable; may be repeated", NULL, BOX_MAKERS, 0, parse_box},
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
    o->initial = o->wish.box.limits;
    o->initial_store = o->wish.box.store;
}

void run_options_init_agent(struct run_options *o)
{
    run_options_init(o);
    box_options_agent(&o->wish.box);
    o->initial = o->wish.box.limits;
    o->initial_store = o->wish.box.store;
}

void run_options_free(struct run_options *o)
{
    box_wish_free(&o->wish);
    free(o->allow_net_text);
    o->allow_net_text = NULL;
}

int run_options_parse(struct run_options *o, unsigned mask, int argc, char *const *argv,
                      int *ret_used, struct error *err)
{
    int r = options_parse(RUN_OPTIONS, mask, argc, argv, o, ret_used, err);
    if (r != 0)
        return r;
    if (o->apply && o->wish.box.mode != BOX_COW)
        return error_set(err, EINVAL,
                         "--apply works with --mode cow only: nothing is kept apart in the others");
    return 0;
}

struct tool_host run_options_host(const struct run_options *o)
{
    struct tool_host h = {.allow_push = o->allow_push, .n_clones = o->n_allow_clone};
    memcpy(h.clones, o->allow_clone, sizeof h.clones);
    memcpy(h.nets, o->allow_net, sizeof h.nets);
    h.n_nets = o->n_allow_net;
    return h;
}

void run_options_say_note(const struct run_options *o)
{
    char note[BOX_WISH_NOTE];
    box_wish_note(&o->wish, note);
    if (note[0])
        say("%s", note);
}

bool run_options_make(const struct run_options *o)
{
    struct run_options plain;
    run_options_init(&plain);
    plain.wish.box.limits = o->initial;
    plain.wish.box.store = o->initial_store;
    /* Both began as zeros and were filled by the same function, so that their padding is the same,
     * too. */
    return memcmp(&plain.wish.box, &o->wish.box, sizeof plain.wish.box) !=
               0 || /* NOLINT(bugprone-*) */
           o->wish.image ||
           o->wish.vm;
}

void run_options_warn(const struct run_options *o)
{
    const struct box_options *box = &o->wish.box;
    char text[512];
    if (box->workspace && box->mode != BOX_RO &&
        box_group_warning(box->workspace, text, sizeof text))
        say("%s", text);
}
