/*
 * A box and a warm process to be driven by tests/security/test_warm*.py: a line of JSON in, a line
 * out.
 *
 *     warm_probe [timeout|cpu|memory|pids|files|output_total=NUMBER | net=host | plain]… PROGRAM
 *     SETUP
 *
 * says {"ready": true, "warm": PID} or {"error", "code"} and then takes
 *
 *     {"run": TEXT, timeout_ms, cpu_ms, output_max, deaf}   a run in the box
 *     {"exec": COMMAND}                                     a command in it, by sh -c
 *     {"background": SCRIPT}                                one that goes on in the background
 *     {"spin": N, "threads": M, "run": TEXT}                M threads with N runs each, each thread
 *                                                           in its
 * own fork
 *     {"fork": true}     goes on in a fork of a new snapshot of the box
 *     {"film": N, "exec": COMMAND, "run": TEXT}             what COMMAND sees in N snapshots that
 *                                                           are taken
 * during a run
 *     {"snapshot": true} takes one, and drops it
 *     {"stranger": true} goes on in a box of another family
 *     {"end": true}      kills the box
 *     {"time": N, "run": TEXT}                              N runs, the median and the 90th
 *                                                           percentile of
 * their µs
 */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "box_internal.h"
#include "thread.h"
#include "net_policy.h"
#include "warm.h"
#include "warm_process.h"
#include "banned.h"

struct probe {
    struct box_options options;
    struct box *template, *box;
    struct snapshot *family;
    struct warm *warm;
};

_Noreturn static void die(const char *text)
{
    fprintf(stderr, "warm_probe: %s\n", text);
    exit(1);
}

static void answer(json_t *o)
{
    json_dumpf(o, stdout, JSON_COMPACT | JSON_ENSURE_ASCII);
    puts("");
    fflush(stdout);
    json_decref(o);
}

static json_t *failure(const struct error *err)
{
    return json_pack("{s:s, s:i}", "error", err->text, "code", err->code);
}

/* Bytes of a box as latin-1: nothing is lost and it is always valid. */
static json_t *text_of(const struct buf *b)
{
    _cleanup_buf_ struct buf t = BUF_INIT(64u << 20);
    for (size_t i = 0; i < b->len; i++) {
        uint8_t c = b->data[i], two[2] = {(uint8_t)(0xc0 | c >> 6), (uint8_t)(0x80 | (c & 0x3f))};
        buf_append(&t, c < 0x80 ? &c : two, c < 0x80 ? 1 : 2);
    }
    return json_stringn((const char *)(t.data ? t.data : (uint8_t *)""), t.len);
}

struct heard {
    struct buf bytes;
    bool deaf;
};

static bool said(void *data, const void *bytes, size_t n)
{
    struct heard *h = data;
    return buf_append(&h->bytes, bytes, n) == 0 && !h->deaf;
}

static json_t *result_of(const struct warm_result *r, const struct heard *h)
{
    const char *limit = box_limit_name(r->limit);
    return json_pack("{s:i, s:i, s:s?, s:I, s:I, s:I, s:o, s:o}", "exit_code", r->exit_code,
                     "signal", r->signal, "limit", limit, "cpu_ns", (json_int_t)r->cpu_ns,
                     "duration_ns", (json_int_t)r->duration_ns, "total",
                     (json_int_t)r->output_total, "output", text_of(&r->output), "said",
                     text_of(&h->bytes));
}

static int64_t ms_of(json_t *ask, const char *key)
{
    return json_integer_value(json_object_get(ask, key)) * NS_PER_MS;
}

static json_t *run(struct probe *p, struct box *b, json_t *ask)
{
    const char *text = json_string_value(json_object_get(ask, "run"));
    json_t *most = json_object_get(ask, "output_max");
    struct heard h = {.bytes = BUF_INIT(16u << 20),
                      .deaf = json_is_true(json_object_get(ask, "deaf"))};
    struct warm_run r = {.request = text,
                         .n_request = strlen(text),
                         .timeout_ns = ms_of(ask, "timeout_ms"),
                         .cpu_time_ns = ms_of(ask, "cpu_ms"),
                         .said = said,
                         .data = &h,
                         .output_max = most ? (size_t)json_integer_value(most) : 1u << 20,
                         .cancel = -1};
    struct warm_result result;
    struct error err = {0};
    json_t *o;
    if (warm_run(p->warm, b, &r, &result, &err) < 0) {
        o = failure(&err);
    } else {
        o = result_of(&result, &h);
        warm_result_free(&result);
    }
    buf_free(&h.bytes);
    return o;
}

static json_t *execute(struct probe *p, json_t *ask)
{
    char *argv[] = {(char *)"sh", (char *)"-c",
                    (char *)json_string_value(json_object_get(ask, "exec")), NULL};
    struct box_command c = {
        .argv = argv, .in = -1, .out = -1, .err = -1, .capture = true, .cancel = -1};
    struct box_result r;
    struct error err = {0};
    if (box_exec(p->box, &c, &r, &err) < 0)
        return failure(&err);
    json_t *o = json_pack("{s:i, s:o, s:o}", "exit_code", r.exit_code, "output",
                          text_of(&r.out.head), "errors", text_of(&r.err.head));
    box_result_free(&r);
    return o;
}

static json_t *begin(struct probe *p, json_t *ask)
{
    struct box_command c = {.shell = "probe",
                            .script = json_string_value(json_object_get(ask, "background")),
                            .background = true,
                            .in = -1,
                            .out = -1,
                            .err = -1,
                            .cancel = -1};
    struct box_result r;
    struct error err = {0};
    if (box_exec(p->box, &c, &r, &err) < 0)
        return failure(&err);
    box_result_free(&r);
    return json_pack("{s:b}", "done", true);
}

static json_t *go_on_in_fork(struct probe *p, bool stay)
{
    struct error err = {0};
    struct snapshot *s = NULL;
    struct box *b = NULL;
    if (box_snapshot(p->box, &s, &err) < 0 || (!stay && box_fork(s, &b, &err) < 0)) {
        snapshot_free(s);
        return failure(&err);
    }
    if (b) {
        box_close(p->box);
        p->box = b;
    }
    snapshot_free(s);
    return json_pack("{s:b}", "done", true);
}

static json_t *go_on_elsewhere(struct probe *p)
{
    struct error err = {0};
    struct box *b = NULL;
    if (box_open(&p->options, &b, &err) < 0)
        return failure(&err);
    box_close(p->box);
    p->box = b;
    return json_pack("{s:b}", "done", true);
}

struct spinner {
    pthread_t thread;
    struct probe *probe;
    json_t *ask;
    json_t *results;
};

static void *spin(void *data)
{
    struct spinner *s = data;
    struct error err = {0};
    struct box *b = NULL;
    json_int_t n = json_integer_value(json_object_get(s->ask, "spin"));
    if (box_fork(s->probe->family, &b, &err) < 0) {
        json_array_append_new(s->results, failure(&err));
        return NULL;
    }
    for (json_int_t i = 0; i < n; i++)
        json_array_append_new(s->results, run(s->probe, b, s->ask));
    box_close(b);
    return NULL;
}

static json_t *spin_all(struct probe *p, json_t *ask)
{
    struct spinner spinners[64];
    size_t n = (size_t)json_integer_value(json_object_get(ask, "threads"));
    json_t *all = json_array();
    for (size_t i = 0; i < n && i < ARRAY_SIZE(spinners); i++) {
        spinners[i] = (struct spinner){.probe = p, .ask = ask, .results = json_array()};
        if (pthread_create(&spinners[i].thread, NULL, spin, &spinners[i]))
            die("no threads");
    }
    for (size_t i = 0; i < n && i < ARRAY_SIZE(spinners); i++) {
        pthread_join(spinners[i].thread, NULL);
        json_array_extend(all, spinners[i].results);
        json_decref(spinners[i].results);
    }
    return json_pack("{s:o}", "results", all);
}

static void *run_apart(void *data)
{
    struct spinner *s = data;
    json_array_append_new(s->results, run(s->probe, s->probe->box, s->ask));
    return NULL;
}

/* A command in a fork of a snapshot that is taken now. */
static json_t *take_picture(struct probe *p, json_t *ask)
{
    struct error err = {0};
    struct snapshot *s = NULL;
    struct probe copy = *p;
    if (box_snapshot(p->box, &s, &err) < 0)
        return failure(&err);
    json_t *o = box_fork(s, &copy.box, &err) < 0 ? failure(&err) : execute(&copy, ask);
    if (copy.box != p->box)
        box_close(copy.box);
    snapshot_free(s);
    return o;
}

static json_t *film(struct probe *p, json_t *ask)
{
    struct spinner s = {.probe = p, .ask = ask, .results = json_array()};
    json_t *pictures = json_array();
    if (pthread_create(&s.thread, NULL, run_apart, &s))
        die("no threads");
    for (json_int_t i = json_integer_value(json_object_get(ask, "film")); i > 0; i--)
        json_array_append_new(pictures, take_picture(p, ask));
    pthread_join(s.thread, NULL);
    return json_pack("{s:o, s:o}", "results", s.results, "pictures", pictures);
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static json_t *time_runs(struct probe *p, json_t *ask)
{
    size_t n = (size_t)json_integer_value(json_object_get(ask, "time"));
    int64_t *took = calloc(n + 1, sizeof *took);
    if (!took)
        die("no memory");
    for (size_t i = 0; i < n; i++) {
        int64_t begin = clock_now();
        json_t *o = run(p, p->box, ask);
        took[i] = clock_now() - begin;
        json_decref(o);
    }
    qsort(took, n, sizeof *took, compare);
    json_t *o = json_pack("{s:I, s:I}", "median_us", (json_int_t)(took[n / 2] / 1000), "p90_us",
                          (json_int_t)(took[n * 9 / 10] / 1000));
    free(took);
    return o;
}

static json_t *serve(struct probe *p, json_t *ask)
{
    if (json_object_get(ask, "spin"))
        return spin_all(p, ask);
    if (json_object_get(ask, "film"))
        return film(p, ask);
    if (json_object_get(ask, "time"))
        return time_runs(p, ask);
    if (json_object_get(ask, "run"))
        return run(p, p->box, ask);
    if (json_object_get(ask, "exec"))
        return execute(p, ask);
    if (json_object_get(ask, "background"))
        return begin(p, ask);
    if (json_object_get(ask, "fork") || json_object_get(ask, "snapshot"))
        return go_on_in_fork(p, json_object_get(ask, "snapshot") != NULL);
    if (json_object_get(ask, "stranger"))
        return go_on_elsewhere(p);
    if (!json_object_get(ask, "end"))
        die("what is asked is not known");
    p->box->machine->backend->kill(p->box->machine);
    return json_pack("{s:b}", "done", true);
}

static uint64_t number(const char *text)
{
    return strtoull(strchr(text, '=') + 1, NULL, 10);
}

static bool take_option(struct box_options *o, const char *text)
{
    struct {
        const char *name;
        uint64_t *to;
    } sizes[] = {{"memory=", &o->limits.memory},
                 {"pids=", &o->limits.pids},
                 {"files=", &o->limits.files},
                 {"output_total=", &o->limits.output_total}};
    if (strcmp(text, "net=host") == 0)
        o->net = &NET_HOST;
    else if (strcmp(text, "plain") == 0)
        o->warm = false;
    else if (strncmp(text, "image=", 6) == 0)
        o->image = text + 6;
    else if (strncmp(text, "timeout=", 8) == 0)
        o->limits.timeout_ns = (int64_t)number(text) * NS_PER_MS;
    else if (strncmp(text, "cpu=", 4) == 0)
        o->limits.cpu_time_ns = (int64_t)number(text) * NS_PER_MS;
    else {
        for (size_t i = 0; i < ARRAY_SIZE(sizes); i++)
            if (strncmp(text, sizes[i].name, strlen(sizes[i].name)) == 0) {
                *sizes[i].to = number(text);
                return true;
            }
        return false;
    }
    return true;
}

static int open_all(struct probe *p, const char *program, const char *setup, struct error *err)
{
    int r = box_open(&p->options, &p->template, err);
    if (r == 0)
        r = box_snapshot(p->template, &p->family, err);
    if (r == 0)
        r = box_fork(p->family, &p->box, err);
    struct warm_options w = {.family = p->family, .program = program, .setup = setup, .cancel = -1};
    return r < 0 ? r : warm_open(&w, &p->warm, err);
}

int main(int argc, char **argv)
{
    struct probe p = {0};
    struct error err = {0};
    char *line = NULL;
    size_t size = 0;
    int i = 1;
    box_options_default(&p.options);
    p.options.warm = true;
    p.options.limits.disk = 256u << 20;
    while (i < argc && take_option(&p.options, argv[i]))
        i++;
    if (argc - i != 2)
        die("usage: warm_probe [OPTION=NUMBER]... PROGRAM SETUP");
    if (open_all(&p, argv[i], argv[i + 1], &err) < 0)
        answer(failure(&err));
    else
        answer(json_pack("{s:b, s:i}", "ready", true, "warm", (int)p.warm->process.pid));
    while (p.warm && getline(&line, &size, stdin) > 0) {
        json_t *ask = json_loads(line, 0, NULL);
        if (!ask)
            die("that is no JSON");
        answer(serve(&p, ask));
        json_decref(ask);
    }
    free(line);
    warm_close(p.warm);
    box_close(p.box);
    snapshot_free(p.family);
    box_close(p.template);
    return 0;
}
