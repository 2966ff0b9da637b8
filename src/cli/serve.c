/*
 * `hutch serve`: the control plane; and `hutch key`: who may use it. docs/server.md describes both.
 */
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#ifdef HUTCH_SERVER
#include "io.h"
#include "json.h"
#include "serve.h"
#include "thread.h"
#endif
#include "banned.h"

#define LISTEN_DEFAULT "127.0.0.1:8642"
#define UPLOAD_DEFAULT (1ull << 30)
#define NAMES_MAX      16

struct serve_words {
    const char *listen, *data, *store, *tls, *log, *workers;
    const char *hosts[NAMES_MAX], *origins[NAMES_MAX];
    size_t n_hosts, n_origins;
    int64_t keep_ns;
    uint64_t max_upload;
    bool insecure_http, json;
};

static int name_add(const char **list, size_t *n, const char *value, struct error *err)
{
    if (!*value || *n == NAMES_MAX)
        return error_set(err, EINVAL, *value ? "more than %d of them" : "is empty", NAMES_MAX);
    list[(*n)++] = value;
    return 0;
}

static int host_parse(void *target, const struct option *self, const char *value, struct error *err)
{
    struct serve_words *w = target;
    return name_add(w->hosts, &w->n_hosts, value, err);
}

static int origin_parse(void *target, const struct option *self, const char *value,
                        struct error *err)
{
    struct serve_words *w = target;
    return name_add(w->origins, &w->n_origins, value, err);
}

#define FIELD(member) offsetof(struct serve_words, member)
#define DATA_OPTION(field)                                                                         \
    {                                                                                              \
        "data", 0, "DIR", "folder of jobs, keys and files", "~/.local/state/hutch/server",         \
            OPTION_ALWAYS, field, option_parse_string                                              \
    }

static const struct option SERVE_OPTIONS[] = {
    {"listen", 0, "HOST:PORT", "address; port 0: any that is free", LISTEN_DEFAULT, OPTION_ALWAYS,
     FIELD(listen), option_parse_string},
    DATA_OPTION(FIELD(data)),
    {"store", 0, "URL", "database: sqlite:PATH", "hutch.db in DIR", OPTION_ALWAYS, FIELD(store),
     option_parse_string},
    {"workers", 0, "N", "worker processes on this host; 0: none", "the number of CPUs",
     OPTION_ALWAYS, FIELD(workers), option_parse_string},
    {"tls", 0, "CERT,KEY", "certificate chain and key (PEM); read again when they change", NULL,
     OPTION_ALWAYS, FIELD(tls), option_parse_string},
    {"insecure-http", 0, NULL, "allow an address that others can reach without TLS", NULL,
     OPTION_ALWAYS, FIELD(insecure_http), option_parse_flag},
    {"host", 0, "NAME", "a name of this server in URLs", NULL, OPTION_ALWAYS | OPTION_REPEATS, 0,
     host_parse},
    {"origin", 0, "URL", "origin whose pages may use the API (CORS)", NULL,
     OPTION_ALWAYS | OPTION_REPEATS, 0, origin_parse},
    {"keep", 0, "T", "remove jobs that ended so long ago", "never", OPTION_ALWAYS, FIELD(keep_ns),
     option_parse_time},
    {"max-upload", 0, "SIZE", "largest upload", "1G", OPTION_ALWAYS, FIELD(max_upload),
     option_parse_size},
    {"log", 0, "debug|info|warn", "what is logged on stderr", "info", OPTION_ALWAYS, FIELD(log),
     option_parse_string},
    {"json", 0, NULL, "print the URL and the key as JSON", NULL, OPTION_ALWAYS, FIELD(json),
     option_parse_flag},
    {0},
};

struct key_words {
    const char *data, *user, *role;
    bool json;
};

#undef FIELD
#define FIELD(member) offsetof(struct key_words, member)

static const struct option KEY_DATA[] = {DATA_OPTION(FIELD(data)), {0}};
static const struct option KEY_NEW_OPTIONS[] = {
    {"user", 0, "USER", "whose key it is", "NAME", OPTION_ALWAYS, FIELD(user), option_parse_string},
    {"role", 0, "admin|user|read-only|worker", "what it may do", "user", OPTION_ALWAYS, FIELD(role),
     option_parse_string},
    {0},
};
static const struct option KEY_LS_OPTIONS[] = {
    {"json", 0, NULL, "print JSON", NULL, OPTION_ALWAYS, FIELD(json), option_parse_flag}, {0}};

#ifdef HUTCH_SERVER

/* The folder as an absolute path: a new string. */
static char *data_folder(const char *given)
{
    if (!given)
        return ownfile_state_path("server");
    char here[PATH_MAX];
    if (*given == '/')
        return strdup(given);
    return getcwd(here, sizeof here) ? str_printf("%s/%s", here, given) : NULL;
}

static void serve_ready(void *data, const char *url, const char *key)
{
    const struct serve_words *w = data;
    if (w->json)
        output_json(json_pack("{s:s, s:s?}", "url", url, "key", key), JSON_COMPACT);
    else if (key)
        printf("%s key=%s\n", url, key);
    else
        printf("%s\n", url);
    output_flush();
}

static int serve_set_log(const char *name, enum log_level *ret, struct error *err)
{
    static const char *const NAMES[] = {"warn", "info", "debug"};
    for (int i = 0; i < (int)ARRAY_SIZE(NAMES); i++)
        if (strcmp(name, NAMES[i]) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    return error_set(err, EINVAL, "--log: '%s' is not debug, info or warn", name);
}

static int serve_set_workers(const char *text, unsigned *ret, struct error *err)
{
    uint64_t n = 0;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    *ret = cpus > 0 ? (unsigned)cpus : 1;
    if (!text)
        return 0;
    if (strcmp(text, "0") != 0 && (units_parse_count(text, &n) < 0 || n > 256))
        return error_set(err, EINVAL, "--workers: '%s' is not a number up to 256", text);
    *ret = (unsigned)n;
    return 0;
}

static int serve_command_run(const struct command *self, int argc, char **argv)
{
    struct serve_words w = {.listen = LISTEN_DEFAULT, .log = "info", .max_upload = UPLOAD_DEFAULT};
    struct error err = {0};
    int n, status;
    if (!command_words(self, argc, argv, &w, 0, 0, &n, &status))
        return status;
    _cleanup_free_ char *data = data_folder(w.data);
    struct serve_options o = {.listen = w.listen,
                              .data = data,
                              .store = w.store,
                              .tls = w.tls,
                              .insecure_http = w.insecure_http,
                              .n_hosts = w.n_hosts,
                              .n_origins = w.n_origins,
                              .keep_ms = w.keep_ns / NS_PER_MS,
                              .max_upload = w.max_upload,
                              .ready = serve_ready,
                              .ready_data = &w};
    memcpy(o.hosts, w.hosts, sizeof w.hosts);
    memcpy(o.origins, w.origins, sizeof w.origins);
    if (serve_set_log(w.log, &o.log, &err) < 0 ||
        serve_set_workers(w.workers, &o.workers, &err) < 0)
        return say_usage(&err);
    if (!data)
        error_set(&err, ENOENT, "where is the data folder? Set HOME or give --data DIR");
    else if (serve_run(&o, &err) == 0)
        return 0;
    return say_failure(&err);
}

/* --- hutch key --- */

static void keys_close(struct jobs **j)
{
    if (*j)
        jobs_close(*j);
}

static int keys_open(const struct key_words *w, struct jobs **ret, struct error *err)
{
    _cleanup_free_ char *data = data_folder(w->data);
    struct jobs_options o = {.data = data, .keys_only = true};
    return data ? jobs_open(&o, ret, err)
                : error_set(err, ENOENT, "where is the data folder? Set HOME or give --data DIR");
}

static int key_new_run(const struct command *self, int argc, char **argv)
{
    struct key_words w = {.role = "user"};
    struct error err = {0};
    _cleanup_free_ char *key = NULL;
    _cleanup_(keys_close) struct jobs *j = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &w, 1, 1, &n, &status))
        return status;
    enum role role = role_of(w.role);
    if (role == ROLE_NONE) {
        error_set(&err, EINVAL, "--role: '%s' is not admin, user, read-only or worker", w.role);
        return say_usage(&err);
    }
    if (keys_open(&w, &j, &err) < 0 ||
        keys_new(j, argv[0], w.user ? w.user : argv[0], role, &key, &err) < 0)
        return say_failure(&err);
    printf("%s\n", key);
    return 0;
}

static int key_ls_run(const struct command *self, int argc, char **argv)
{
    struct key_words w = {0};
    struct error err = {0};
    _cleanup_json_ json_t *keys = NULL;
    _cleanup_(keys_close) struct jobs *j = NULL;
    const json_t *key;
    size_t i;
    int n, status;
    if (!command_words(self, argc, argv, &w, 0, 0, &n, &status))
        return status;
    if (keys_open(&w, &j, &err) < 0 || keys_list(j, &keys, &err) < 0)
        return say_failure(&err);
    if (w.json) {
        output_json(json_incref(keys), JSON_INDENT(2));
        return 0;
    }
    if (json_array_size(keys) > 0)
        printf("%-20s  %-9s  %-16s  %s\n", "ID", "ROLE", "USER", "NAME");
    json_array_foreach(keys, i, key)
    {
        char user[400], name[400];
        printf("%-20s  %-9s  %-16s  %s\n", json_get_string_or(key, "id", ""),
               json_get_string_or(key, "role", ""),
               say_clean(json_get_string_or(key, "user", ""), user, sizeof user),
               say_clean(json_get_string_or(key, "name", ""), name, sizeof name));
    }
    return 0;
}

static int key_rm_run(const struct command *self, int argc, char **argv)
{
    struct key_words w = {0};
    struct error err = {0};
    _cleanup_(keys_close) struct jobs *j = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &w, 1, -1, &n, &status))
        return status;
    if (keys_open(&w, &j, &err) < 0)
        return say_failure(&err);
    for (int i = 0; i < n; i++)
        if (keys_remove(j, argv[i], &err) < 0)
            return say_failure(&err);
    return 0;
}

#else
#define serve_command_run NULL
#define key_new_run       NULL
#define key_ls_run        NULL
#define key_rm_run        NULL
#endif

const struct command_body COMMAND_SERVE = {
    .usage = "[OPTIONS]",
    .options = {{SERVE_OPTIONS, OPTION_ALWAYS}},
    .notes = "Prints its URL when it listens, and on the first start, if no key exists, an admin "
             "key. AGENT_API_KEY is a further admin key. An address that others can reach needs a "
             "key and TLS. SIGTERM ends it: requests under way have ten seconds.",
    .run = serve_command_run,
};

const struct command_body COMMAND_KEY_NEW = {
    .usage = "[--user USER] [--role ROLE] [--data DIR] NAME",
    .options = {{KEY_NEW_OPTIONS, OPTION_ALWAYS}, {KEY_DATA, OPTION_ALWAYS}},
    .notes = "Prints the key, which cannot be shown again.",
    .run = key_new_run,
};

const struct command_body COMMAND_KEY_LS = {
    .usage = "[--json] [--data DIR]",
    .options = {{KEY_LS_OPTIONS, OPTION_ALWAYS}, {KEY_DATA, OPTION_ALWAYS}},
    .run = key_ls_run,
};

const struct command_body COMMAND_KEY_RM = {
    .usage = "[--data DIR] ID|NAME...",
    .options = {{KEY_DATA, OPTION_ALWAYS}},
    .run = key_rm_run,
};
