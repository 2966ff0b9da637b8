#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "run_options.h"
#include "options.h"
#include "banned.h"

static int run_parse_cost(void *target, const struct option *self, const char *value,
                          struct error *err)
{
    double cost;
    if (units_parse_decimal(value, &cost) < 0 || cost <= 0)
        return error_set(err, EINVAL, "'%s' is not an amount of dollars like 0.50", value);
    ((struct run_options *)target)->max_cost = cost;
    return 0;
}

static int run_parse_allow_clone(void *target, const struct option *self, const char *value,
                                 struct error *err)
{
    struct run_options *o = target;
    if (!*value || value[0] == '-' || strpbrk(value, "/@ "))
        return error_set(err, EINVAL, "'%s' is not a host like github.com", value);
    if (o->n_allow_clone == ARRAY_SIZE(o->allow_clone))
        return error_set(err, EINVAL, "at most %zu hosts", ARRAY_SIZE(o->allow_clone));
    o->allow_clone[o->n_allow_clone++] = value;
    return 0;
}

/* Checked by the parser of --net, and kept entry by entry. */
static int run_parse_allow_net(void *target, const struct option *self, const char *value,
                               struct error *err)
{
    struct run_options *o = target;
    _cleanup_box_spec_ struct box_spec check = {0};
    _cleanup_free_ char *text = NULL;
    if (asprintf(&text, "allow:%s", value) < 0)
        return error_set(err, ENOMEM, "no memory");
    const struct option_set box = {BOX_OPTIONS, BOX_OPTION_NEW};
    const struct option *net = option_find((struct option_set[]){box, {0}}, "net", 3);
    int r = net->parse(&check, net, text, err);
    if (r < 0)
        return r;
    if (o->n_allow_net || check.box.n_allow > ARRAY_SIZE(o->allow_net))
        return error_set(err, EINVAL, "give one list of at most %zu hosts",
                         ARRAY_SIZE(o->allow_net));
    char *rest = o->allow_net_text = strdup(value);
    if (!rest)
        return error_set(err, ENOMEM, "no memory");
    for (char *entry; (entry = strsep(&rest, ","));)
        o->allow_net[o->n_allow_net++] = entry;
    return 0;
}

static int run_parse_cwd(void *target, const struct option *self, const char *value,
                         struct error *err)
{
    if (value[0] != '/')
        return error_set(err, EINVAL, "'%s' is not an absolute path in the box", value);
    return option_parse_string(target, self, value, err);
}

#define AT(member) offsetof(struct run_options, member)
#define TOOLS      (FOR_TOOL | FOR_MCP)
#define AGENTS     (FOR_CHAT | FOR_ASK)
#define RUNNERS    (FOR_RUN | FOR_EXEC)

_Static_assert(AT(spec) == 0, "BOX_OPTIONS have the same target");

const struct option RUN_OPTIONS[] = {
    {"box", 0, "ID", "use this box", "a fresh one", TOOLS, AT(box_id), option_parse_string},
    {"model", 0, "PROVIDER/NAME",
     "model to use: anthropic/..., openai/..., replay/FILE, builtin/demo, or a configured provider",
     "HUTCH_MODEL", AGENTS, AT(model), option_parse_string},
    {"resume", 0, "ID", "continue this session ('last': the newest)", NULL, AGENTS, AT(resume),
     option_parse_string},
    {"system", 0, "FILE", "use these instructions instead of the built-in ones", NULL, AGENTS,
     AT(system), option_parse_string},
    {"max-tokens", 0, "N", "limit the tokens of all answers to one prompt", "MAX_TOKENS, or none",
     AGENTS, AT(max_tokens), option_parse_count},
    {"max-turns", 0, "N", "limit the model's answers to one prompt", "none", AGENTS, AT(max_turns),
     option_parse_count},
    {"max-cost", 0, "USD", "limit the dollars spent on one prompt", "none", AGENTS, AT(max_cost),
     run_parse_cost},
    {"apply", 0, NULL, "apply the changes to DIR if the command succeeded", NULL, FOR_RUN,
     AT(apply), option_parse_flag},
    {"apply", 0, NULL, "apply the changes to DIR if the tool succeeded", NULL, FOR_TOOL, AT(apply),
     option_parse_flag},
    {"apply", 0, NULL, "apply the changes to DIR at the end", NULL, FOR_MCP, AT(apply),
     option_parse_flag},
    {"apply", 0, NULL, "apply the changes to DIR after each turn, without asking", NULL, FOR_CHAT,
     AT(apply), option_parse_flag},
    {"apply", 0, NULL, "apply the changes to DIR if the task was finished", NULL, FOR_ASK,
     AT(apply), option_parse_flag},
    {"no-apply", 0, NULL, "neither apply changes nor offer to", NULL, AGENTS, AT(no_apply),
     option_parse_flag},
    {"allow-git-dirs", 0, NULL, "also apply files that make a folder a git directory", NULL,
     FOR_RUN | AGENTS, AT(allow_git_dirs), option_parse_flag},
    {"attempts", 0, "N", "run N agents in parallel, each in a fork of the box, and keep the best",
     "1", AGENTS, AT(attempts), option_parse_count},
    {"test", 0, "CMD", "command that scores an attempt", NULL, AGENTS, AT(test),
     option_parse_string},
    {"record", 0, "FILE", "record the conversation, for --model replay/FILE", NULL, AGENTS,
     AT(record), option_parse_string},
    {"cache", 0, NULL,
     "cache the results of read-only calls; use it only if nobody else changes DIR", NULL, FOR_MCP,
     AT(cache), option_parse_flag},
    {"trust", 0, NULL, "trust the folder's .env and .hutch/config.json for this run", NULL, AGENTS,
     AT(trust), option_parse_flag},
    {"trust", 0, NULL, "trust the folder's .hutch/config.json for this run", NULL, TOOLS, AT(trust),
     option_parse_flag},
    {"allow-push", 0, NULL, "allow git_push and create_pr without asking", NULL, TOOLS | AGENTS,
     AT(allow_push), option_parse_flag},
    {"allow-clone", 0, "HOST", "let git_clone fetch from this host without asking", NULL,
     TOOLS | AGENTS | OPTION_REPEATS, 0, run_parse_allow_clone},
    {"allow-net", 0, "H[:P][,...]",
     "let request_network allow these hosts and @groups without asking", NULL, TOOLS | AGENTS, 0,
     run_parse_allow_net},
    {"no-toolchains", 0, NULL, "hide the toolchains on your PATH (~/.cargo, ~/.pyenv, /opt, ...)",
     NULL, AGENTS, AT(no_toolchains), option_parse_flag},
    {"plain", 0, NULL, "print line by line, without a full-screen interface", NULL, FOR_CHAT,
     AT(plain), option_parse_flag},
    {"cwd", 0, "DIR", "folder of the box that the command starts in", "/workspace", FOR_EXEC,
     AT(cwd), run_parse_cwd},
    {"ttl", 0, "T", "remove the box after this time", "none", FOR_NEW, AT(ttl_ns),
     option_parse_time},
    {"tty", 0, NULL, "run the command on a pseudo-terminal", NULL, RUNNERS, AT(tty),
     option_parse_flag},
    {"list", 0, NULL, "list the tools instead of calling one", NULL, FOR_TOOL, AT(list),
     option_parse_flag},
    {"markdown", 0, NULL, "print docs/tools.md", NULL, FOR_TOOL, AT(markdown), option_parse_flag},
    {"json", 0, NULL, "print a result object instead of the output", NULL, RUNNERS, AT(json),
     option_parse_flag},
    {"json", 0, NULL, "print the ID in a JSON object", NULL, FOR_NEW, AT(json), option_parse_flag},
    {"json", 0, NULL, "print the result, or the list, as JSON", NULL, FOR_TOOL, AT(json),
     option_parse_flag},
    {"json", 0, NULL, "print one JSON event per line", NULL, FOR_ASK, AT(json), option_parse_flag},
    {0},
};

void run_options_init(struct run_options *o)
{
    memset(o, 0, sizeof *o);
    box_spec_init(&o->spec, "--");
}

void run_options_init_agent(struct run_options *o)
{
    run_options_init(o);
    box_options_agent(&o->spec.box);
}

void run_options_free(struct run_options *o)
{
    box_spec_free(&o->spec);
    free(o->allow_net_text);
    o->allow_net_text = NULL;
}

int run_options_parse(struct run_options *o, const struct option_set *sets, int argc,
                      char *const *argv, int *ret_used, struct error *err)
{
    int r = options_parse(sets, argc, argv, o, ret_used, err);
    if (r == 0 && o->apply && o->spec.box.mode != BOX_COW)
        return error_set(err, EINVAL, APPLY_NEEDS_COW);
    return r;
}

struct tool_host run_options_host(const struct run_options *o)
{
    struct tool_host h = {.allow_push = o->allow_push, .n_clones = o->n_allow_clone};
    memcpy(h.clones, o->allow_clone, sizeof h.clones);
    memcpy(h.nets, o->allow_net, sizeof h.nets);
    h.n_nets = o->n_allow_net;
    return h;
}

void run_options_say_notes(const struct run_options *o)
{
    const struct box_options *box = &o->spec.box;
    char note[BOX_SPEC_NOTE], warning[512];
    box_spec_note(&o->spec, note);
    if (note[0])
        say("%s", note);
    if (box->workspace && box->mode != BOX_RO &&
        box_group_warning(box->workspace, warning, sizeof warning))
        say("%s", warning);
}
