/*
 * `hutch worker`: leases jobs from a server and runs them. `hutch serve` starts some by itself; more
 * of them, on other hosts, need the server's URL and a worker's key.
 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#ifdef HUTCH_WORKER
#include "io.h"
#include "worker.h"
#endif
#include "banned.h"

#define KEY_MAX       4096
#define LIVE_SLOTS    32
#define SERVER_OF_OWN "http://127.0.0.1:8642"

struct worker_words {
    const char *server, *key_file, *name;
    uint64_t slots, live_slots;
};

#define FIELD(member) offsetof(struct worker_words, member)

static const struct option WORKER_OPTIONS[] = {
    {"server", 0, "URL", "the server; unix:PATH is a socket on this host (or HUTCH_SERVER)",
     SERVER_OF_OWN, OPTION_ALWAYS, FIELD(server), option_parse_string},
    {"key", 0, "FILE", "file with the worker's key (or HUTCH_API_KEY, the key itself)", NULL,
     OPTION_ALWAYS, FIELD(key_file), option_parse_string},
    {"name", 0, "NAME", "its name in lists", "the host's name and the process", OPTION_ALWAYS,
     FIELD(name), option_parse_string},
    {"slots", 0, "N", "jobs of steps and goals at once", "the number of CPUs", OPTION_ALWAYS,
     FIELD(slots), option_parse_count},
    {"live-slots", 0, "N", "sessions, boxes and environments at once", "32", OPTION_ALWAYS,
     FIELD(live_slots), option_parse_count},
    {0},
};

#ifdef HUTCH_WORKER
/* The first line of the file, or the variable. A socket needs no key. */
static int worker_read_key(const struct worker_words *w, struct buf *ret, struct error *err)
{
    const char *key = getenv("HUTCH_API_KEY");
    int r = w->key_file ? ownfile_read(w->key_file, ret, err) : buf_append_str(ret, key ? key : "");
    if (r < 0)
        return r == -ENOBUFS ? error_set(err, E2BIG, "the key is too long") : r;
    if (!buf_cstr(ret))
        return error_set(err, ENOMEM, "no memory");
    ret->len = strcspn((char *)ret->data, "\r\n");
    ret->data[ret->len] = 0;
    if (w->key_file && ret->len == 0)
        return error_set(err, EINVAL, "%s holds no key", w->key_file);
    return 0;
}

static int worker_command_run(const struct command *self, int argc, char **argv)
{
    struct worker_words w = {0};
    _cleanup_buf_ struct buf key = BUF_INIT(KEY_MAX);
    struct error err = {0};
    int n, status;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    if (!command_words(self, argc, argv, &w, 0, 0, &n, &status))
        return status;
    const char *given = getenv("HUTCH_SERVER");
    if (!w.server)
        w.server = given && *given ? given : SERVER_OF_OWN;
    int interrupt = interrupt_watch(&err);
    if (interrupt < 0 || worker_read_key(&w, &key, &err) < 0)
        return say_failure(&err);
    const struct worker_options o = {.server = w.server,
                                     .key = key.len ? (const char *)key.data : NULL,
                                     .name = w.name,
                                     .slots = w.slots    ? (unsigned)w.slots
                                              : cpus > 0 ? (unsigned)cpus
                                                         : 1,
                                     .live_slots =
                                         w.live_slots ? (unsigned)w.live_slots : LIVE_SLOTS};
    return worker_run(&o, interrupt, &err) < 0 ? say_failure(&err) : 0;
}
#endif

const struct command_body COMMAND_WORKER = {
    .usage = "[OPTIONS]",
    .options = {{WORKER_OPTIONS, OPTION_ALWAYS}},
    .notes = "Model keys and endpoints are those of this worker's environment and of "
             "~/.config/hutch/config.json. SIGTERM ends it: it gives its jobs back, and other "
             "workers continue them.",
#ifdef HUTCH_WORKER
    .run = worker_command_run,
#endif
};
