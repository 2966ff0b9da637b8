#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "proxy/proxy.h"
#include "run_options.h"
#include "units.h"
#include "banned.h"

struct choice {
    const char *name;
    int value;
};

static int parse_choice(const struct option *self, const char *value, const struct choice *choices, size_t n,
                        int *ret, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(choices[i].name, value) == 0) {
            *ret = choices[i].value;
            return 0;
        }
    return error_set(err, EINVAL, "--%s: '%s' is not one of %s", self->name, value, self->arg);
}

static int parse_mode(void *target, const struct option *self, const char *value, struct error *err)
{
    static const struct choice modes[] = {{"cow", BOX_COW}, {"direct", BOX_DIRECT}, {"ro", BOX_RO}};
    struct run_options *o = target;
    int mode = BOX_COW;
    int r = parse_choice(self, value, modes, ARRAY_SIZE(modes), &mode, err);
    if (r == 0)
        o->box.mode = (enum box_mode)mode;
    return r;
}

static int parse_backend(void *target, const struct option *self, const char *value, struct error *err)
{
    static const struct choice backends[] = {{"ns", false}, {"vm", true}};
    struct run_options *o = target;
    int vm = false;
    int r = parse_choice(self, value, backends, ARRAY_SIZE(backends), &vm, err);
    if (r == 0)
        o->vm = vm;
    return r;
}

/* A name, never a path: it becomes one folder's name below the images. */
static int parse_image(void *target, const struct option *self, const char *value, struct error *err)
{
    size_t good = 0;
    while (isalnum((unsigned char)value[good]) || (value[good] && strchr("._-:@", value[good])))
        good++;
    if (!*value || value[0] == '.' || value[good])
        return error_set(err, EINVAL,
                         "--image: '%s' is not a name of letters, digits, '.', '_', '-', ':' and '@'", value);
    ((struct run_options *)target)->image = value;
    return 0;
}

/* H[:P],… after `allow:`. The entries point into a copy, which the options own. */
static int parse_allow(struct run_options *o, const char *list, struct error *err)
{
    char *text = strdup(list);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    free(o->allow_text);
    o->allow_text = text;
    o->box.n_allow = 0;
    while (text) {
        char *entry = strsep(&text, ",");
        struct proxy_allow rule;
        int r = proxy_parse_allow(entry, &rule, err);
        if (r < 0) {
            error_wrap(err, "--net");
            return r;
        }
        if (o->box.n_allow == BOX_ALLOW_MAX)
            return error_set(err, EINVAL, "--net: more than %d hosts", BOX_ALLOW_MAX);
        o->box.allow[o->box.n_allow++] = entry;
    }
    o->box.net = BOX_NET_ALLOW;
    return 0;
}

static int parse_net(void *target, const struct option *self, const char *value, struct error *err)
{
    struct run_options *o = target;
    if (strncmp(value, "allow:", 6) == 0)
        return parse_allow(o, value + 6, err);
    if (strcmp(value, "off") != 0 && strcmp(value, "host") != 0)
        return error_set(err, EINVAL, "--net: '%s' is not off, host or allow:HOST[:PORT],…", value);
    o->box.net = *value == 'h' ? BOX_NET_HOST : BOX_NET_OFF;
    o->box.n_allow = 0;
    return 0;
}

static int parse_limit_size(void *target, const struct option *self, const char *value, struct error *err)
{
    uint64_t before = *(uint64_t *)((char *)target + self->field);
    int r = option_parse_size(target, self, value, err);
    uint64_t *field = (uint64_t *)((char *)target + self->field);
    if (r < 0 || *field > 0)
        return r;
    *field = before;
    return error_set(err, EINVAL, "--%s: nothing can run with %s", self->name, value);
}

static int parse_cpus(void *target, const struct option *self, const char *value, struct error *err)
{
    struct run_options *o = target;
    double cpus;
    if (strcmp(value, "all") == 0) {
        o->box.limits.cpus = 0;
        return 0;
    }
    if (units_parse_decimal(value, &cpus) < 0 || cpus < 0.01 || cpus > 65536)
        return error_set(err, EINVAL, "--cpus: '%s' is not a number of processors like 0.5 or 2", value);
    o->box.limits.cpus = cpus;
    return 0;
}

static int parse_cost(void *target, const struct option *self, const char *value, struct error *err)
{
    double cost;
    if (units_parse_decimal(value, &cost) < 0 || cost <= 0)
        return error_set(err, EINVAL, "--%s: '%s' is not an amount of dollars like 0.50", self->name, value);
    ((struct run_options *)target)->max_cost = cost;
    return 0;
}

/* A path of plain components only, so that what it names does not depend on links or on where one is. */
static bool is_plain_path(const char *path)
{
    for (const char *at = path; *at == '/';) {
        size_t n = strcspn(at + 1, "/");
        bool dots = (n == 1 && at[1] == '.') || (n == 2 && at[1] == '.' && at[2] == '.');
        if (n == 0 || dots)
            return false;
        at += 1 + n;
        if (!*at)
            return true;
    }
    return false;
}

const char *run_options_refuse_at(const char *at)
{
    static const char *const taken[] = {"/proc", "/dev", "/sys", "/workspace"};
    if (strcmp(at, "/") == 0)
        return "the box's own root is there";
    if (!is_plain_path(at))
        return "it is not an absolute path without '.', '..' and '//'";
    for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
        size_t n = strlen(taken[i]);
        if (strncmp(at, taken[i], n) == 0 && (!at[n] || at[n] == '/'))
            return "the box has its own there";
    }
    return NULL;
}

static int parse_share(void *target, const struct option *self, const char *value, struct error *err)
{
    struct run_options *o = target;
    const char *colon = strrchr(value, ':');
    if (!*value || colon == value)
        return error_set(err, EINVAL, "--%s: '%s' names no folder; it is %s", self->name, value, self->arg);
    const char *why = colon ? run_options_refuse_at(colon + 1) : NULL;
    if (why)
        return error_set(err, EINVAL, "--%s: cannot show it at '%s' in the box: %s", self->name, colon + 1,
                         why);
    if (o->box.n_shares == BOX_SHARES_MAX)
        return error_set(err, EINVAL, "--%s: more than %d folders", self->name, BOX_SHARES_MAX);
    o->share_texts[o->box.n_shares] = value;
    o->box.shares[o->box.n_shares++] = (struct box_share){.writable = strcmp(self->name, "rw") == 0};
    return 0;
}

static int parse_env(void *target, const struct option *self, const char *value, struct error *err)
{
    struct run_options *o = target;
    size_t n = 0;
    while (isalnum((unsigned char)value[n]) || value[n] == '_')
        n++;
    if (n == 0 || isdigit((unsigned char)value[0]) || value[n] != '=')
        return error_set(err, EINVAL, "--env: '%s' is not NAME=VALUE", value);
    if (o->box.n_env == BOX_ENV_MAX)
        return error_set(err, EINVAL, "--env: more than %d variables", BOX_ENV_MAX);
    o->box.env[o->box.n_env++] = value;
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
    {"workspace", 'w', "DIR", "what /workspace shows", "the current folder", BOX_MAKERS, AT(box.workspace), option_parse_string},
    {"mode", 0, "cow|direct|ro", "changes to /workspace are kept apart, go straight to DIR, or are refused", "cow", BOX_MAKERS, 0, parse_mode},
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
    {"backend", 0, "ns|vm", "what isolates the box", "ns", BOX_MAKERS, 0, parse_backend},
    {"image", 0, "NAME", "root filesystem", "a selection of the host's", BOX_MAKERS, 0, parse_image},
    {"net", 0, "off|host|allow:H[:P][,...]", "the network: none, the host's, or these hosts only", "off", BOX_MAKERS, 0, parse_net},
    {"timeout", 0, "T", "wall time of a command", "10m", BOX_MAKERS, AT(box.limits.timeout_ns), option_parse_time},
    {"cpu-time", 0, "T", "CPU time of a command with all its children", "none", BOX_MAKERS, AT(box.limits.cpu_time_ns), option_parse_time},
    {"timeout", 0, "T", "wall time of this command", "the box's", FOR_EXEC, AT(box.limits.timeout_ns), option_parse_time},
    {"cpu-time", 0, "T", "CPU time of this command with all its children", "the box's", FOR_EXEC, AT(box.limits.cpu_time_ns), option_parse_time},
    {"memory", 0, "S", "memory of the box", "512M", BOX_MAKERS, AT(box.limits.memory), parse_limit_size},
    {"pids", 0, "N", "processes and threads in the box", "256", BOX_MAKERS, AT(box.limits.pids), option_parse_count},
    {"files", 0, "N", "open files of a process", "1024", BOX_MAKERS, AT(box.limits.files), option_parse_count},
    {"disk", 0, "S", "bytes that the box can write", "1G", BOX_MAKERS, AT(box.limits.disk), parse_limit_size},
    {"cpus", 0, "F", "processors", "all", BOX_MAKERS, AT(box.limits.cpus), parse_cpus},
    {"output", 0, "S", "bytes of stdout and of stderr kept in a --json result", "1M", BOX_MAKERS, AT(box.limits.output), option_parse_size},
    {"output-total", 0, "S", "bytes of stdout and stderr after which a command is ended", "64G", BOX_MAKERS, AT(box.limits.output_total), parse_limit_size},
    {"ro", 0, "DIR[:AT]", "also show this folder of the host, read-only; may be repeated", NULL, BOX_MAKERS, 0, parse_share},
    {"rw", 0, "DIR[:AT]", "also show this folder of the host, writable; may be repeated", NULL, BOX_MAKERS, 0, parse_share},
    {"env", 0, "K=V", "set this variable, nothing else of the environment goes in; may be repeated", NULL, ALL_OF_THEM, 0, parse_env},
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
    box_options_default(&o->box);
}

void run_options_free(struct run_options *o)
{
    free(o->allow_text);
    for (size_t i = 0; i < o->n_paths; i++)
        free(o->paths[i]);
    o->allow_text = NULL;
    o->n_paths = 0;
}

int run_options_parse(struct run_options *o, unsigned mask, int argc, char *const *argv, int *ret_used,
                      struct error *err)
{
    int r = options_parse(RUN_OPTIONS, mask, argc, argv, o, ret_used, err);
    if (r != 0)
        return r;
    if (o->apply && o->box.mode != BOX_COW)
        return error_set(err, EINVAL,
                         "--apply works with --mode cow only: nothing is kept apart in the others");
    return 0;
}

bool run_options_make(const struct run_options *o)
{
    struct run_options plain;
    run_options_init(&plain);
    /* Both began as zeros and were filled by the same function, so that their padding is the same, too. */
    return memcmp(&plain.box, &o->box, sizeof plain.box) != 0 || /* NOLINT(bugprone-*) */
           o->image || o->vm;
}
