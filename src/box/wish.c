#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nearest_name.h"
#include "optval.h"
#include "packages/packages.h"
#include "proxy/proxy.h"
#include "units.h"
#include "wish.h"
#include "banned.h"

/* One option: how it is called in complaints is made of its name, see `shown`. */
struct row {
    const char *name;
    const char *arg; /* what its value is */
    size_t field;    /* offset in struct box_wish */
    int (*set)(struct box_wish *w, const struct row *row, const char *shown, const char *value,
               struct error *err);
    unsigned sets; /* enum box_field; 0: it cannot be changed later */
};

struct choice {
    const char *name;
    int value;
};

static int set_choice(const struct row *row, const char *shown, const char *value,
                      const struct choice *choices, size_t n, int *ret, struct error *err)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(choices[i].name, value) == 0) {
            *ret = choices[i].value;
            return 0;
        }
    return error_set(err, EINVAL, "%s: '%s' is not one of %s", shown, value, row->arg);
}

static int set_mode(struct box_wish *w, const struct row *row, const char *shown, const char *value,
                    struct error *err)
{
    static const struct choice modes[] = {{"cow", BOX_COW}, {"direct", BOX_DIRECT}, {"ro", BOX_RO}};
    int mode = BOX_COW;
    int r = set_choice(row, shown, value, modes, ARRAY_SIZE(modes), &mode, err);
    if (r == 0)
        w->box.mode = (enum box_mode)mode;
    return r;
}

static int set_backend(struct box_wish *w, const struct row *row, const char *shown,
                       const char *value, struct error *err)
{
    static const struct choice backends[] = {{"ns", false}, {"vm", true}};
    int vm = false;
    int r = set_choice(row, shown, value, backends, ARRAY_SIZE(backends), &vm, err);
    if (r == 0)
        w->vm = vm;
    return r;
}

/* A name, never a path: it becomes one folder's name below the images. */
static int set_image(struct box_wish *w, const struct row *row, const char *shown,
                     const char *value, struct error *err)
{
    size_t good = 0;
    while (isalnum((unsigned char)value[good]) || (value[good] && strchr("._-:@", value[good])))
        good++;
    if (!*value || value[0] == '.' || value[good])
        return error_set(err, EINVAL,
                         "%s: '%s' is not a name of letters, digits, '.', '_', '-', ':' and '@'",
                         shown, value);
    w->image = value;
    return 0;
}

static int check_group(const char *entry, struct error *err)
{
    if (package_group_is_known(entry + 1))
        return 0;
    return error_set(err, EINVAL, "there is no group '%.64s'; there are %s", entry,
                     package_group_list());
}

/* H[:P],… or @GROUP,… after `allow:`. The entries point into a copy, which the wish owns. */
static int set_allow(struct box_wish *w, const char *shown, const char *list, struct error *err)
{
    char *text = strdup(list);
    if (!text)
        return error_set(err, ENOMEM, "no memory");
    free(w->allow_text);
    w->allow_text = text;
    w->box.n_allow = 0;
    while (text) {
        char *entry = strsep(&text, ",");
        struct proxy_allow rule;
        int r = entry[0] == '@' ? check_group(entry, err) : proxy_parse_allow(entry, &rule, err);
        if (r < 0) {
            error_wrap(err, "%s", shown);
            return r;
        }
        if (w->box.n_allow == BOX_ALLOW_MAX)
            return error_set(err, EINVAL, "%s: more than %d hosts", shown, BOX_ALLOW_MAX);
        w->box.allow[w->box.n_allow++] = entry;
    }
    w->box.net = BOX_NET_ALLOW;
    return 0;
}

static int set_net(struct box_wish *w, const struct row *row, const char *shown, const char *value,
                   struct error *err)
{
    if (strncmp(value, "allow:", 6) == 0)
        return set_allow(w, shown, value + 6, err);
    if (strcmp(value, "off") != 0 && strcmp(value, "host") != 0)
        return error_set(err, EINVAL, "%s: '%s' is not off, host or allow:HOST[:PORT],…", shown,
                         value);
    w->box.net = *value == 'h' ? BOX_NET_HOST : BOX_NET_OFF;
    w->box.n_allow = 0;
    return 0;
}

static void *field_of(struct box_wish *w, const struct row *row)
{
    return (char *)w + row->field;
}

static int set_string(struct box_wish *w, const struct row *row, const char *shown,
                      const char *value, struct error *err)
{
    return optval_string(shown, value, field_of(w, row), err);
}

static int set_time(struct box_wish *w, const struct row *row, const char *shown, const char *value,
                    struct error *err)
{
    return optval_time(shown, value, field_of(w, row), err);
}

static int set_count(struct box_wish *w, const struct row *row, const char *shown,
                     const char *value, struct error *err)
{
    return optval_count(shown, value, field_of(w, row), err);
}

static int set_size(struct box_wish *w, const struct row *row, const char *shown, const char *value,
                    struct error *err)
{
    return optval_size(shown, value, field_of(w, row), err);
}

/* A size without which nothing can run. */
static int set_room(struct box_wish *w, const struct row *row, const char *shown, const char *value,
                    struct error *err)
{
    uint64_t bytes = 0;
    int r = optval_size(shown, value, &bytes, err);
    if (r < 0)
        return r;
    if (bytes == 0)
        return error_set(err, EINVAL, "%s: nothing can run with %s", shown, value);
    *(uint64_t *)field_of(w, row) = bytes;
    w->memory_given |= strcmp(row->name, "memory") == 0;
    w->disk_given |= strcmp(row->name, "disk") == 0;
    return 0;
}

static int set_cpus(struct box_wish *w, const struct row *row, const char *shown, const char *value,
                    struct error *err)
{
    double cpus;
    if (strcmp(value, "all") == 0) {
        w->box.limits.cpus = 0;
        return 0;
    }
    if (units_parse_decimal(value, &cpus) < 0 || cpus < 0.01 || cpus > 65536)
        return error_set(err, EINVAL, "%s: '%s' is not a number of processors like 0.5 or 2", shown,
                         value);
    w->box.limits.cpus = cpus;
    return 0;
}

/* A path of plain components only, so that what it names does not depend on links or on where one
 * is. */
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

const char *box_wish_refuse_at(const char *at)
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

static int set_share(struct box_wish *w, const struct row *row, const char *shown,
                     const char *value, struct error *err)
{
    const char *colon = strrchr(value, ':');
    if (!*value || colon == value)
        return error_set(err, EINVAL, "%s: '%s' names no folder or file; it is %s", shown, value,
                         row->arg);
    const char *why = colon ? box_wish_refuse_at(colon + 1) : NULL;
    if (why)
        return error_set(err, EINVAL, "%s: cannot show it at '%s' in the box: %s", shown, colon + 1,
                         why);
    if (w->box.n_shares == BOX_SHARES_MAX)
        return error_set(err, EINVAL, "%s: more than %d folders and files", shown, BOX_SHARES_MAX);
    w->share_texts[w->box.n_shares] = value;
    w->box.shares[w->box.n_shares++] = (struct box_share){.writable = strcmp(row->name, "rw") == 0};
    return 0;
}

static int set_env(struct box_wish *w, const struct row *row, const char *shown, const char *value,
                   struct error *err)
{
    size_t n = 0;
    while (isalnum((unsigned char)value[n]) || value[n] == '_')
        n++;
    if (n == 0 || isdigit((unsigned char)value[0]) || value[n] != '=')
        return error_set(err, EINVAL, "%s: '%s' is not NAME=VALUE", shown, value);
    if (w->box.n_env == BOX_ENV_MAX)
        return error_set(err, EINVAL, "%s: more than %d variables", shown, BOX_ENV_MAX);
    w->box.env[w->box.n_env++] = value;
    return 0;
}

#define AT(member) offsetof(struct box_wish, member)

static const struct row ROWS[] = {
    {"workspace", "DIR", AT(box.workspace), set_string},
    {"mode", "cow|direct|ro", 0, set_mode},
    {"backend", "ns|vm", 0, set_backend},
    {"image", "NAME", 0, set_image},
    {"net", "off|host|allow:H[:P][,...]", 0, set_net, BOX_SET_NET},
    {"timeout", "T", AT(box.limits.timeout_ns), set_time, BOX_SET_TIMEOUT},
    {"cpu-time", "T", AT(box.limits.cpu_time_ns), set_time},
    {"memory", "S", AT(box.limits.memory), set_room, BOX_SET_MEMORY},
    {"pids", "N", AT(box.limits.pids), set_count, BOX_SET_PIDS},
    {"files", "N", AT(box.limits.files), set_count},
    {"disk", "S", AT(box.limits.disk), set_room},
    {"cpus", "F", 0, set_cpus, BOX_SET_CPUS},
    {"output", "S", AT(box.limits.output), set_size},
    {"output-total", "S", AT(box.limits.output_total), set_room},
    {"ro", "PATH[:AT]", 0, set_share},
    {"rw", "PATH[:AT]", 0, set_share},
    {"env", "K=V", 0, set_env},
};

void box_wish_init(struct box_wish *w, const char *dashes)
{
    memset(w, 0, sizeof *w);
    box_options_default(&w->box);
    w->dashes = dashes;
}

void box_wish_free(struct box_wish *w)
{
    free(w->allow_text);
    if (w->packages)
        package_hosts_free(w->packages);
    free(w->packages);
    w->packages = NULL;
    for (size_t i = 0; i < w->n_paths; i++)
        free(w->paths[i]);
    w->allow_text = NULL;
    w->n_paths = 0;
}

const char *box_wish_keep(struct box_wish *w, char *text)
{
    if (!text || w->n_paths == ARRAY_SIZE(w->paths)) {
        free(text);
        return NULL;
    }
    return w->paths[w->n_paths++] = text;
}

const char *box_wish_shown(const struct box_wish *w, const char *name, char *text, size_t size)
{
    snprintf(text, size, "%s%s", w->dashes, name);
    for (char *at = *w->dashes ? NULL : text; at && *at; at++)
        if (*at == '-')
            *at = '_';
    return text;
}

static int tell_unknown(const struct box_wish *w, const char *name, struct error *err)
{
    struct nearest near = nearest_to(name, strlen(name));
    char best[32];
    for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++)
        nearest_offer(&near, ROWS[i].name);
    if (near.best)
        return error_set(err, ENOENT, "there is no option '%.100s'; did you mean '%s'?", name,
                         box_wish_shown(w, near.best, best, sizeof best));
    return error_set(err, ENOENT, "there is no option '%.100s'", name);
}

int box_wish_set(struct box_wish *w, const char *name, const char *value, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(ROWS); i++) {
        char shown[32];
        box_wish_shown(w, ROWS[i].name, shown, sizeof shown);
        if (strcmp(shown + strlen(w->dashes), name) != 0)
            continue;
        w->fields |= ROWS[i].sets;
        return ROWS[i].set(w, &ROWS[i], shown, value, err);
    }
    return tell_unknown(w, name, err);
}
