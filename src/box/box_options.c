/*
 * The options of a box: parsing and resolving them (box_options.h), their defaults, and the
 * environment that a box's commands get.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "box_host.h"
#include "box_internal.h"
#include "box_options.h"
#include "net_policy.h"
#include "ns/store.h"
#include "packages.h"
#include "text.h"
#include "weaken.h"
#include "banned.h"

#define AGENT_DISK (20ULL << 30)

/* Notes that an option was given. */
static int box_spec_mark(struct box_spec *s, const struct option *self)
{
    static const struct {
        const char *name;
        enum box_field field;
    } FIELDS[] = {
        {"net", BOX_SET_NET},          {"memory", BOX_SET_MEMORY},   {"cpus", BOX_SET_CPUS},
        {"pids", BOX_SET_PIDS},        {"timeout", BOX_SET_TIMEOUT}, {"disk", BOX_SET_DISK},
        {"workspace", BOX_SET_FOLDER},
    };
    unsigned field = BOX_SET_OTHER;
    for (size_t i = 0; i < ARRAY_SIZE(FIELDS); i++)
        if (strcmp(FIELDS[i].name, self->name) == 0)
            field = FIELDS[i].field;
    s->fields |= field;
    return 0;
}

#define PARSE_AND_MARK(kind)                                                                       \
    static int parse_##kind(void *target, const struct option *self, const char *value,            \
                            struct error *err)                                                     \
    {                                                                                              \
        int r = option_parse_##kind(target, self, value, err);                                     \
        return r < 0 ? r : box_spec_mark(target, self);                                            \
    }
PARSE_AND_MARK(string)
PARSE_AND_MARK(time)
PARSE_AND_MARK(count)
PARSE_AND_MARK(size)

/* A size without which nothing can run. */
static int parse_room(void *target, const struct option *self, const char *value, struct error *err)
{
    uint64_t *field = (uint64_t *)((char *)target + self->field), old = *field;
    int r = parse_size(target, self, value, err);
    if (r == 0 && *field == 0) {
        *field = old;
        return error_set(err, EINVAL, "nothing can run with %s", value);
    }
    return r;
}

static int parse_mode(void *target, const struct option *self, const char *value, struct error *err)
{
    static const char *const MODES[] = {
        [BOX_COW] = "cow", [BOX_DIRECT] = "direct", [BOX_RO] = "ro"};
    struct box_spec *s = target;
    for (size_t i = 0; i < ARRAY_SIZE(MODES); i++)
        if (strcmp(MODES[i], value) == 0) {
            s->box.mode = (enum box_mode)i;
            return box_spec_mark(s, self);
        }
    return error_set(err, EINVAL, "'%s' is not one of %s", value, self->arg);
}

static int parse_backend(void *target, const struct option *self, const char *value,
                         struct error *err)
{
    struct box_spec *s = target;
    for (const struct backend *const *b = BACKENDS; *b; b++)
        if (strcmp((*b)->name, value) == 0) {
            s->box.backend = *b;
            return box_spec_mark(s, self);
        }
    return error_set(err, EINVAL, "'%s' is not a backend of this build; use %s", value, self->arg);
}

/* A name, never a path: it becomes one folder's name below the images. */
static int parse_image(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    struct box_spec *s = target;
    size_t good = 0;
    while (isalnum((unsigned char)value[good]) || (value[good] && strchr("._-:@", value[good])))
        good++;
    if (!*value || value[0] == '.' || value[good])
        return error_set(err, EINVAL,
                         "'%s' is not a name of letters, digits, '.', '_', '-', ':' and '@'",
                         value);
    s->image = value;
    return box_spec_mark(s, self);
}

static int parse_net(void *target, const struct option *self, const char *value, struct error *err)
{
    struct box_spec *s = target;
    size_t n = strcspn(value, ":");
    const struct net_policy *policy = net_policy_find(value, n);
    if (!policy || (value[n] == ':') != (policy->parse != NULL))
        return error_set(err, EINVAL, "'%s' is not one of %s", value, self->arg);
    s->box.n_allow = 0;
    int r = policy->parse ? policy->parse(s, value + n + 1, err) : 0;
    if (r < 0)
        return r;
    s->box.net = policy;
    return box_spec_mark(s, self);
}

static int parse_cpus(void *target, const struct option *self, const char *value, struct error *err)
{
    struct box_spec *s = target;
    double cpus = 0;
    if (strcmp(value, "all") != 0 &&
        (units_parse_decimal(value, &cpus) < 0 || cpus < 0.01 || cpus > 65536))
        return error_set(err, EINVAL, "'%s' is not a number of processors like 0.5 or 2", value);
    s->box.limits.cpus = cpus;
    return box_spec_mark(s, self);
}

const char *box_share_refuse_at(const char *at)
{
    static const char *const TAKEN[] = {"/proc", "/dev", "/sys", "/workspace"};
    if (strcmp(at, "/") == 0)
        return "the box's own root is there";
    /* Plain components only, so that what it names does not depend on links or on where one is. */
    bool plain = at[0] == '/';
    for (const char *name = at; plain && *name;) {
        size_t n = strcspn(++name, "/");
        plain =
            n != 0 && !(n == 1 && name[0] == '.') && !(n == 2 && name[0] == '.' && name[1] == '.');
        name += n;
    }
    if (!plain)
        return "it is not an absolute path without '.', '..' and '//'";
    for (size_t i = 0; i < ARRAY_SIZE(TAKEN); i++) {
        size_t n = strlen(TAKEN[i]);
        if (strncmp(at, TAKEN[i], n) == 0 && (!at[n] || at[n] == '/'))
            return "the box has its own there";
    }
    return NULL;
}

static int parse_share(void *target, const struct option *self, const char *value,
                       struct error *err)
{
    struct box_spec *s = target;
    const char *colon = strrchr(value, ':');
    if (!*value || colon == value)
        return error_set(err, EINVAL, "'%s' names no folder or file; it must be %s", value,
                         self->arg);
    const char *why = colon ? box_share_refuse_at(colon + 1) : NULL;
    if (why)
        return error_set(err, EINVAL, "cannot show it at '%s' in the box: %s", colon + 1, why);
    if (s->box.n_shares == BOX_SHARES_MAX)
        return error_set(err, EINVAL, "more than %d folders and files", BOX_SHARES_MAX);
    s->share_texts[s->box.n_shares] = value;
    s->box.shares[s->box.n_shares++] =
        (struct box_share){.writable = strcmp(self->name, "rw") == 0};
    return box_spec_mark(s, self);
}

static int parse_env(void *target, const struct option *self, const char *value, struct error *err)
{
    struct box_spec *s = target;
    size_t n = 0;
    while (isalnum((unsigned char)value[n]) || value[n] == '_')
        n++;
    if (n == 0 || isdigit((unsigned char)value[0]) || value[n] != '=')
        return error_set(err, EINVAL, "'%s' is not NAME=VALUE", value);
    if (s->box.n_env == BOX_ENV_MAX)
        return error_set(err, EINVAL, "more than %d variables", BOX_ENV_MAX);
    s->box.env[s->box.n_env++] = value;
    return box_spec_mark(s, self);
}

#define AT(member) offsetof(struct box_spec, member)
#define NEW        BOX_OPTION_NEW
#define AGENT      BOX_OPTION_AGENT
#define EXEC       BOX_OPTION_EXEC
#define SET        BOX_OPTION_SET
#define VALUE      BOX_OPTION_VALUE

/* Arguments and help from the tables of backends and network policies. */
#define BACKEND(row, name, summary)                    "|" name
#define NET_POLICY(row, new_box, running_box, summary) new_box
static const char BACKEND_NAMES[] =
#include "backends.def"
    ;
static const char NET_NEW_BOX[] =
#include "policies.def"
    ;
#undef BACKEND
#undef NET_POLICY
#define BACKEND(row, name, summary)                    " " name " (" summary ")"
#define NET_POLICY(row, new_box, running_box, summary) running_box
static const char BACKEND_HELP[] = "what isolates the box:"
#include "backends.def"
    ;
static const char NET_RUNNING_BOX[] =
#include "policies.def"
    ;
#undef BACKEND
#undef NET_POLICY
#define NET_POLICY(row, new_box, running_box, summary) summary
static const char NET_HELP[] = "network"
#include "policies.def"
    ;
#undef NET_POLICY

const struct option BOX_OPTIONS[] = {
    {"workspace", 'w', "DIR", "folder to show at /workspace", "the current folder", NEW | AGENT,
     AT(box.workspace), parse_string},
    {"mode", 0, "cow|direct|ro", "keep changes in the box, write them to DIR, or refuse them",
     "cow", NEW | AGENT | VALUE, 0, parse_mode},
    {"backend", 0, BACKEND_NAMES + 1, BACKEND_HELP, "ns", NEW | AGENT | VALUE, 0, parse_backend},
    {"image", 0, "NAME", "root filesystem", "a selection of the host's", NEW | AGENT, 0,
     parse_image},
    {"net", 0, NET_NEW_BOX + 1, NET_HELP, "off", NEW | AGENT | VALUE, 0, parse_net},
    {"net", 0, NET_RUNNING_BOX + 1, "what the box may reach from now on", NULL, SET, 0, parse_net},
    {"timeout", 0, "T", "wall-clock time limit of a command", "10m", NEW | AGENT | VALUE,
     AT(box.limits.timeout_ns), parse_time},
    {"timeout", 0, "T", "wall-clock time limit of this command", "the box's", EXEC,
     AT(box.limits.timeout_ns), parse_time},
    {"timeout", 0, "T", "wall-clock time limit of a command", NULL, SET, AT(box.limits.timeout_ns),
     parse_time},
    {"cpu-time", 0, "T", "CPU time limit of a command and its children", "none",
     NEW | AGENT | VALUE, AT(box.limits.cpu_time_ns), parse_time},
    {"cpu-time", 0, "T", "CPU time limit of this command and its children", "the box's", EXEC,
     AT(box.limits.cpu_time_ns), parse_time},
    {"memory", 0, "S", "memory of the box", "512M", NEW | VALUE, AT(box.limits.memory), parse_room},
    {"memory", 0, "S", "memory of the box", "a quarter of the machine's", AGENT,
     AT(box.limits.memory), parse_room},
    {"memory", 0, "S", "memory of the box", NULL, SET, AT(box.limits.memory), parse_room},
    {"pids", 0, "N", "processes and threads in the box", "256", NEW | AGENT | VALUE,
     AT(box.limits.pids), parse_count},
    {"pids", 0, "N", "processes and threads in the box", NULL, SET, AT(box.limits.pids),
     parse_count},
    {"files", 0, "N", "open files of a process", "1024", NEW | AGENT | VALUE, AT(box.limits.files),
     parse_count},
    {"disk", 0, "S", "bytes that the box can write; above 1G they are kept on disk", "1G",
     NEW | VALUE, AT(box.limits.disk), parse_room},
    {"disk", 0, "S", "bytes that the box can write, on disk", "20G, or half of what is free", AGENT,
     AT(box.limits.disk), parse_room},
    {"cpus", 0, "F", "processors", "all", NEW | AGENT | VALUE, 0, parse_cpus},
    {"cpus", 0, "F", "processors, or all", NULL, SET, 0, parse_cpus},
    {"output", 0, "S", "bytes of stdout and of stderr kept in a --json result", "1M",
     NEW | AGENT | VALUE, AT(box.limits.output), parse_size},
    {"output-total", 0, "S", "bytes of stdout and stderr after which a command is killed", "64G",
     NEW | AGENT | VALUE, AT(box.limits.output_total), parse_room},
    {"ro", 0, "PATH[:AT]", "also show this folder or file of the host, read-only", NULL,
     NEW | AGENT | OPTION_REPEATS, 0, parse_share},
    {"rw", 0, "PATH[:AT]", "also show this folder or file of the host, writable", NULL,
     NEW | AGENT | OPTION_REPEATS, 0, parse_share},
    {"env", 0, "K=V", "set this variable; the host's environment is not passed on", NULL,
     NEW | AGENT | EXEC | OPTION_REPEATS, 0, parse_env},
    {0},
};

/* In a small container or machine `most` is too much: then this part of its memory. */
static uint64_t default_room(uint64_t most, uint64_t memory, unsigned part)
{
    uint64_t room = memory / part >> 20 << 20;
    return room < most ? room : most;
}

void box_options_default(struct box_options *o)
{
    struct box_spec s = {0};
    for (const struct option *row = BOX_OPTIONS; row->name; row++)
        if (row->where & VALUE)
            row->parse(&s, row, row->fallback, NULL);
    *o = s.box;
    /* What a box writes is kept in memory too: both together leave a quarter of it. */
    const uint64_t memory = host_memory(NULL);
    o->limits.memory = default_room(o->limits.memory, memory, 4);
    o->limits.disk = default_room(o->limits.disk, memory, 2);
}

void box_options_agent(struct box_options *o)
{
    uint64_t quarter = host_memory(NULL) / 4 >> 20 << 20;
    if (quarter > o->limits.memory) /* the default is within what a small container has */
        o->limits.memory = quarter;
    uint64_t room = 0;
    if (store_check(&room, NULL) < 0)
        return;
    uint64_t half = room / 2 >> 20 << 20;
    if (half <= o->limits.disk) /* no filesystem for it here: its files are in memory */
        return;
    o->limits.disk = half < AGENT_DISK ? half : AGENT_DISK;
    o->store = BOX_STORE_DISK;
}

void box_spec_init(struct box_spec *s, const char *dashes)
{
    memset(s, 0, sizeof *s);
    box_options_default(&s->box);
    s->dashes = dashes;
}

void box_spec_free(struct box_spec *s)
{
    free(s->allow_text);
    if (s->packages)
        package_hosts_free(s->packages);
    free(s->packages);
    for (size_t i = 0; i < s->n_paths; i++)
        free(s->paths[i]);
    s->packages = NULL;
    s->allow_text = NULL;
    s->n_paths = 0;
}

const char *box_spec_keep(struct box_spec *s, char *text)
{
    if (!text || s->n_paths == ARRAY_SIZE(s->paths)) {
        free(text);
        return NULL;
    }
    return s->paths[s->n_paths++] = text;
}

int box_spec_set(struct box_spec *s, const char *name, const char *value, struct error *err)
{
    struct nearest near = nearest_to(name, strlen(name));
    const struct option *row = BOX_OPTIONS;
    for (; row->name; row++) {
        size_t i = 0;
        /* JSON has `cpu_time` for the command line's `--cpu-time`. */
        while (name[i] && name[i] == (!*s->dashes && row->name[i] == '-' ? '_' : row->name[i]))
            i++;
        if (!name[i] && !row->name[i]) {
            int r = row->parse(s, row, value, err);
            return r < 0 ? error_wrap(err, "%s%s", s->dashes, name) : 0;
        }
        nearest_offer(&near, row->name);
    }
    if (!near.best)
        return error_set(err, ENOENT, "there is no option '%.100s'", name);
    char best[32];
    snprintf(best, sizeof best, "%s", near.best);
    for (char *at = best; *at && !*s->dashes; at++)
        if (*at == '-')
            *at = '_';
    return error_set(err, ENOENT, "there is no option '%.100s'; did you mean '%s%s'?", name,
                     s->dashes, best);
}

int box_image_path(const char *name, char *path, size_t size, struct error *err)
{
    const char *data = getenv("XDG_DATA_HOME");
    const char *home = getenv("HOME");
    int n;
    if (data && data[0] == '/')
        n = snprintf(path, size, "%s/hutch/images/%s/rootfs", data, name);
    else if (home && home[0] == '/')
        n = snprintf(path, size, "%s/.local/share/hutch/images/%s/rootfs", home, name);
    else
        return error_set(err, ENOENT,
                         "cannot look for the image '%s': neither XDG_DATA_HOME nor HOME is set",
                         name);
    if (n < 0 || (size_t)n >= size)
        return error_set(err, ENAMETOOLONG, "the path of the image '%s' is too long", name);
    return 0;
}

/* Where a folder is shown when nothing else is said: where it was named, if that is a plain path,
 * so that programs find themselves at the path they were installed for. */
static char *share_default_at(const char *given, const char *real)
{
    _cleanup_free_ char *path = NULL, *cwd = NULL;
    size_t n = strlen(given);
    while (n > 1 && given[n - 1] == '/')
        n--;
    if (given[0] == '/')
        path = strndup(given, n);
    else if (!(cwd = getcwd(NULL, 0)) || asprintf(&path, "%s/%.*s", cwd, (int)n, given) < 0)
        path = NULL;
    if (path && !box_share_refuse_at(path))
        return TAKE_PTR(path);
    return strdup(real);
}

static int share_resolve(struct box_spec *s, size_t i, struct error *err)
{
    struct box_share *share = &s->box.shares[i];
    const char *text = s->share_texts[i], *colon = strrchr(text, ':');
    char name[8];
    snprintf(name, sizeof name, "%s%s", s->dashes, share->writable ? "rw" : "ro");
    _cleanup_free_ char *given = strndup(text, colon ? (size_t)(colon - text) : strlen(text));
    if (!given)
        return error_set(err, ENOMEM, "no memory");
    char *real;
    int r = host_share_resolve(given, &real, &share->is_file);
    if (r == -EINVAL)
        return error_set(err, EINVAL,
                         "%s: cannot show '%s' in a box: it is neither a folder nor a regular file",
                         name, given);
    if (r < 0)
        return error_errno(err, -r, "%s: cannot show '%s' in a box", name, given);
    share->source = box_spec_keep(s, real);
    if (!share->source)
        return error_set(err, ENOMEM, "no memory");
    const char *why = host_folder_refuse(real, share->writable);
    if (why)
        return error_set(err, EINVAL, "%s: cannot show '%s' in a box: %s", name, real, why);
    char *at = colon ? strdup(colon + 1) : share_default_at(given, real);
    share->at = box_spec_keep(s, at);
    if (!share->at)
        return error_set(err, ENOMEM, "no memory");
    why = box_share_refuse_at(at);
    if (why)
        return error_set(err, EINVAL,
                         "%s: cannot show '%s' at '%s' in the box: %s; say where with %s:AT", name,
                         real, at, why, given);
    for (size_t j = 0; j < i; j++)
        if (strcmp(s->box.shares[j].at, at) == 0)
            return error_set(err, EINVAL, "%s: two shares at the same path '%s'", name, at);
    return 0;
}

int box_spec_resolve_groups(struct box_spec *s, struct error *err)
{
    for (size_t i = 0; i < s->box.n_allow; i++) {
        if (s->box.allow[i][0] != '@')
            continue;
        if (!s->packages && !(s->packages = calloc(1, sizeof *s->packages)))
            return error_set(err, ENOMEM, "no memory");
        int r = package_group_resolve(s->box.allow[i] + 1, s->box.workspace, s->packages, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; s->packages && i < s->packages->n_hosts; i++)
        s->box.hosts[i] = s->packages->hosts[i];
    for (size_t i = 0; s->packages && i < s->packages->n_env; i++)
        s->box.net_env[i] = s->packages->env[i];
    s->box.n_hosts = s->packages ? s->packages->n_hosts : 0;
    s->box.n_net_env = s->packages ? s->packages->n_env : 0;
    return 0;
}

void box_spec_note(const struct box_spec *s, char note[BOX_SPEC_NOTE])
{
    note[0] = 0;
    if (s->packages && s->packages->credentials[0])
        snprintf(note, BOX_SPEC_NOTE,
                 "the box gets no credentials for %.100s: the user and password in your "
                 "configuration stay on"
                 " the host",
                 s->packages->credentials);
}

/* The second step. Paths are made absolute and free of links here, once, so that the library never
 * meets a relative path and what was checked is what is mounted. Nothing below a folder is looked
 * at. */
int box_spec_resolve(struct box_spec *s, struct error *err)
{
    const char *given = s->box.workspace ? s->box.workspace : ".";
    char *path = NULL, image[PATH_MAX];
    int r = s->empty ? 0 : host_folder_resolve(given, &path);
    if (r < 0)
        return error_errno(err, -r, "cannot show the workspace '%s'", given);
    if (!s->empty) {
        s->box.workspace = box_spec_keep(s, path);
        if (!s->box.workspace)
            return error_set(err, ENOMEM, "no memory");
        const char *why = host_folder_refuse(path, s->box.mode == BOX_DIRECT);
        if (why)
            return error_set(err, EINVAL, "the workspace cannot be '%s': %s", path, why);
    }

    if (s->image) {
        r = box_image_path(s->image, image, sizeof image, err);
        if (r < 0)
            return r;
        r = host_folder_resolve(image, &path);
        if (r < 0)
            return error_set(err, -r, "there is no image '%s'; unpack its root filesystem to %s",
                             s->image, image);
        s->box.image = box_spec_keep(s, path);
        if (!s->box.image)
            return error_set(err, ENOMEM, "no memory");
        const char *why = host_folder_refuse(path, false);
        if (why)
            return error_set(err, EINVAL, "the image '%s' cannot be '%s': %s", s->image, path, why);
    }

    for (size_t i = 0; i < s->box.n_shares; i++)
        if ((r = share_resolve(s, i, err)) < 0)
            return r;

    /* In a container memory and disk must fit into its memory: the default of one gives way to what
     * was asked of the other. */
    bool limited, memory_given = s->fields & BOX_SET_MEMORY, disk_given = s->fields & BOX_SET_DISK;
    if (memory_given != disk_given) {
        uint64_t most = HOST_MEMORY_FOR_BOX(host_memory(&limited));
        uint64_t asked = memory_given ? s->box.limits.memory : s->box.limits.disk;
        uint64_t *other = memory_given ? &s->box.limits.disk : &s->box.limits.memory;
        uint64_t left = asked < most ? (most - asked) >> 20 << 20 : 0;
        if (limited && left > 0 && left < *other)
            *other = left;
    }
    return box_spec_resolve_groups(s, err);
}

extern char **environ;

static const char *const ENV_MADE_UP[] = {
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME=/home/agent",
    "USER=agent",
    "LOGNAME=agent",
    "SHELL=/bin/bash",
    "LANG=C.UTF-8",
    "TMPDIR=/tmp",
    "PAGER=cat",
    "HUTCH=1",
    NULL,
};

/* Keeps programs from paging, prompting and opening an editor; and caches that no user asked
 * for stay out of the workspace, where they would stand among the changes to be looked at. */
static const char *const ENV_UNATTENDED[] = {
    "GIT_PAGER=cat",
    "MANPAGER=cat",
    "SYSTEMD_PAGER=cat",
    "GIT_TERMINAL_PROMPT=0",
    "GIT_MERGE_AUTOEDIT=no",
    "DEBIAN_FRONTEND=noninteractive",
    "PIP_NO_INPUT=1",
    "NPM_CONFIG_YES=true",
    "PYTHONPYCACHEPREFIX=/tmp/.pycache",
    "PYTEST_ADDOPTS=-o cache_dir=/tmp/.pytest_cache",
    NULL,
};

/* Whether the list sets the variable that `entry` sets. */
static bool environment_sets(char *const *env, const char *entry)
{
    size_t n = strcspn(entry, "=");
    for (; env && *env; env++)
        if (strncmp(entry, *env, n) == 0 && (*env)[n] == '=')
            return true;
    return false;
}

static void environment_put_list(struct buf *b, char *const *env, char *const *over,
                                 char *const *over_too)
{
    for (; env && *env; env++)
        if (!environment_sets(over, *env) && !environment_sets(over_too, *env) &&
            !environment_sets(env + 1, *env))
            wire_put_str(b, WIRE_K_ENV, *env);
}

void environment_put(struct buf *b, char *const *box_env, char *const *command_env, bool tty,
                     bool shell)
{
    if (shell)
        environment_put_list(b, (char *const *)ENV_UNATTENDED, box_env, command_env);
    if (weakened("env"))
        environment_put_list(b, environ, box_env, command_env);
    environment_put_list(b, (char *const *)ENV_MADE_UP, box_env, command_env);
    environment_put_list(b, box_env, command_env, NULL);
    environment_put_list(b, command_env, NULL, NULL);

    /* The one word about the host's terminal that programs need to draw on it. */
    const char *term = tty ? getenv("TERM") : NULL;
    char text[64] = "TERM=";
    size_t n =
        term ? strspn(term, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-+._")
             : 0;
    if (!n || term[n] || n >= sizeof text - 5)
        term = "dumb", n = 4;
    memcpy(text + 5, term, n + 1);
    if (!environment_sets(box_env, text) && !environment_sets(command_env, text))
        wire_put_str(b, WIRE_K_ENV, text);
}
