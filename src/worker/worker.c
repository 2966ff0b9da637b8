/*
 * The process of a worker: it leases jobs, renews the leases, and gives each job a thread.
 *
 *     two threads     lease jobs, one those that end by themselves, one those that stay (live jobs);
 *                     each waits at the server while there is none
 *     one thread      renews all leases at once; its request waits at the server, too, so that a
 *                     cancelled job is known at once. It watches the jobs' time limits
 *     one thread      sends the events of jobs that have some (job_report.c)
 *
 * A lease is held for lease_ms from the moment at which the last successful request for it was
 * sent, on this host's monotonic clock; so the server never counts it as ended before the worker
 * does. A job whose lease has ended is killed by its `cancel` descriptor.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "channel.h"
#include "git.h"
#include "io.h"
#include "job.h"
#include "job_report.h"
#include "json.h"
#include "live.h"
#include "thread.h"
#include "banned.h"

#define LEASE_FIRST_MS 1000 /* how long a request for jobs waits before lease_ms is known */
#define TICK_MS        200
#define FINISH_NS      (2 * NS_PER_S)  /* what jobs have to end by themselves at shutdown */
#define SHUTDOWN_NS    (30 * NS_PER_S) /* and then, to be killed and given back */
#define OF_STEPS       ".steps"        /* how a folder ends that no other attempt uses */
#define KEPT_S         86400

const char *worker_name(const struct worker *w)
{
    return w->name;
}

const struct worker_options *worker_options(const struct worker *w)
{
    return &w->options;
}

struct channels *worker_channels(const struct worker *w)
{
    return w->channels;
}

/* --- jobs --- */

static void job_free(struct job *j)
{
    struct job_lease *l = &j->lease;
    if (l->folder && !j->keep_folder)
        git_remove_tree(l->folder);
    cleanup_close(&j->folder_lock);
    cleanup_close(&l->cancel);
    job_report_free(j->report);
    json_decref(l->spec);
    json_decref(l->results);
    json_decref(l->resume);
    free(l->folder);
    free(l->id);
    free(l->user);
    free(l->kind);
    free(j);
}

static struct job *job_new(struct worker *w, const char *id, const char *user, const char *kind,
                           unsigned token)
{
    struct job *j = calloc(1, sizeof *j);
    if (!j)
        return NULL;
    j->worker = w;
    j->folder_lock = -1;
    j->began_ns = clock_now();
    j->live = strcmp(kind, "steps") != 0 && strcmp(kind, "goal") != 0;
    j->lease = (struct job_lease){.id = strdup(id),
                                  .user = strdup(user),
                                  .kind = strdup(kind),
                                  .token = token,
                                  .cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    j->report = job_report_new(j);
    if (!j->lease.id || !j->lease.user || !j->lease.kind || j->lease.cancel < 0 || !j->report) {
        job_free(j);
        return NULL;
    }
    return j;
}

/* From a LEASE that was asked for at `asked`. NULL: no memory, or the server's answer is wrong. */
static struct job *job_from_lease(struct worker *w, const json_t *lease, int64_t asked)
{
    const char *id = json_get_string(lease, "job"), *kind = json_get_string(lease, "kind");
    json_int_t token = json_get_integer(lease, "token"),
               lease_ms = json_get_integer(lease, "lease_ms");
    json_t *spec = json_object_get(lease, "spec"), *results = json_object_get(lease, "results"),
           *resume = json_object_get(lease, "resume"),
           *deadline = json_object_get(lease, "deadline_ms");
    bool named = id && *id && strlen(id) <= 64 &&
                 strspn(id, "0123456789abcdefghijklmnopqrstuvwxyz") == strlen(id);
    if (!named || !kind || token < 1 || token > UINT32_MAX || !json_is_object(spec) || lease_ms < 1)
        return NULL;
    struct job *j = job_new(w, id, json_get_string_or(lease, "user", ""), kind, (unsigned)token);
    if (!j)
        return NULL;
    struct job_lease *l = &j->lease;
    l->spec = json_incref(spec);
    l->results = json_is_array(results) ? json_incref(results) : json_array();
    l->resume = json_is_object(resume) ? json_incref(resume) : NULL;
    l->steps_done = (unsigned)json_get_integer(lease, "steps_done");
    l->has_checkpoint = json_get_bool(lease, "has_checkpoint");
    l->log_size = (uint64_t)json_get_integer(lease, "log_size");
    l->deadline_ns =
        json_is_integer(deadline) ? asked + json_integer_value(deadline) * NS_PER_MS : 0;
    l->held_until_ns = asked + lease_ms * NS_PER_MS;
    LOCKED(&w->lock);
    w->lease_ns = lease_ms * NS_PER_MS;
    return j;
}

int job_make_folder(struct job *j, struct error *err)
{
    struct worker *w = j->worker;
    if (j->lease.folder)
        return 0;
    _cleanup_free_ char *path =
        str_printf("%s/jobs/%s-%u%s", w->folder, j->lease.id, j->lease.token,
                   strcmp(j->lease.kind, "steps") == 0 ? OF_STEPS : "");
    if (!path)
        return error_set(err, ENOMEM, "no memory");
    if (mkdir(path, 0700) < 0)
        return error_errno(err, errno, "cannot create the folder %s", path);
    j->folder_lock = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    j->lease.folder = TAKE_PTR(path);
    if (j->folder_lock < 0 || flock(j->folder_lock, LOCK_EX | LOCK_NB) < 0)
        return error_errno(err, errno, "cannot lock the folder %s", j->lease.folder);
    return 0;
}

int job_fail(struct job_outcome *o, const struct error *err, bool retry)
{
    o->failed = true;
    o->error = *err;
    o->retry = retry;
    return -err->code;
}

bool job_error_is_fault(int code)
{
    switch (code) {
    case EINVAL:
    case EBADMSG:
    case EFBIG:
    case E2BIG:
    case ENAMETOOLONG:
    case EILSEQ:
    case ENOENT:
    case EACCES:
    case EPERM:
    case ENOKEY:
    case EKEYREJECTED:
        return false;
    default:
        return true;
    }
}

void job_outcome_free(struct job_outcome *o)
{
    json_decref(o->steps);
    json_decref(o->result);
    json_decref(o->usage);
    json_decref(o->plan);
}

static void job_run_live(struct job *j, struct job_outcome *ret)
{
    struct error err = {0};
    int r = job_make_folder(j, &err);
    if (r == 0)
        r = live_run(j->worker, &j->lease, &err);
    if (r < 0)
        job_fail(ret, &err, r == -EIO || r == -ENOMEM || r == -EAGAIN);
}

static void *job_main(void *data)
{
    struct job *j = data;
    struct worker *w = j->worker;
    struct job_outcome outcome = {.cost = -1};
    if (j->live)
        job_run_live(j, &outcome);
    else if (strcmp(j->lease.kind, "goal") == 0)
        job_run_goal(j, &outcome);
    else
        job_run_steps(j, &outcome);
    job_report_finish(j, &outcome);
    job_outcome_free(&outcome);
    {
        LOCKED(&w->lock);
        while (j->pins)
            pthread_cond_wait(&w->changed, &w->lock);
        for (struct job **at = &w->jobs; *at; at = &(*at)->next)
            if (*at == j) {
                *at = j->next;
                break;
            }
    }
    bool live = j->live;
    job_free(j);
    LOCKED(&w->lock);
    *(live ? &w->n_live : &w->n_jobs) -= 1;
    pthread_cond_broadcast(&w->changed);
    return NULL;
}

/* Takes the job over, also on failure. */
static int job_start(struct job *j, struct error *err)
{
    struct worker *w = j->worker;
    pthread_attr_t attr;
    pthread_t thread;
    pthread_mutex_lock(&w->lock);
    j->next = w->jobs;
    w->jobs = j;
    *(j->live ? &w->n_live : &w->n_jobs) += 1;
    pthread_cond_broadcast(&w->changed);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int r = thread_start(&thread, &attr, job_main, j);
    pthread_attr_destroy(&attr);
    if (r < 0) {
        w->jobs = j->next;
        *(j->live ? &w->n_live : &w->n_jobs) -= 1;
    }
    pthread_mutex_unlock(&w->lock);
    if (r < 0) {
        j->lease.adopted = NULL;
        job_free(j); /* the lease ends by itself */
        return error_errno(err, -r, "cannot start a thread");
    }
    return 0;
}

int worker_adopt(struct worker *w, const struct job_lease *from, const char *id, unsigned token,
                 const json_t *spec, json_t *resume, void *adopted, struct error *err)
{
    struct job *j = job_new(w, id, from->user, from->kind, token);
    if (!j) {
        json_decref(resume);
        return error_set(err, ENOMEM, "no memory");
    }
    j->lease.resume = resume;
    j->lease.spec = json_incref((json_t *)spec);
    j->lease.results = json_array();
    j->lease.adopted = adopted;
    j->lease.held_until_ns = clock_now() + w->lease_ns;
    return job_start(j, err);
}

int worker_take_box(struct worker *w, struct box **ret, struct error *err)
{
    int r = 0;
    {
        LOCKED(&w->pool_lock);
        if (!w->pool) {
            box_spec_free(&w->pool_spec);
            box_spec_init(&w->pool_spec, "");
            w->pool_spec.empty = true;
            r = box_spec_resolve(&w->pool_spec, err);
            if (r == 0)
                r = pool_open(&w->pool_spec.box, w->options.slots, &w->pool, err);
        }
    }
    return r == 0 ? pool_take(w->pool, ret, err) : r;
}

void worker_give_box(struct worker *w, struct box *b)
{
    pool_give(w->pool, b);
}

/* --- leasing --- */

struct leasing {
    struct worker *worker;
    bool live;
};

/* Waits for a free slot: how many there are; 0: the worker shuts down. */
static unsigned leasing_wait(const struct leasing *g)
{
    struct worker *w = g->worker;
    const unsigned *used = g->live ? &w->n_live : &w->n_jobs;
    unsigned slots = g->live ? w->options.live_slots : w->options.slots;
    LOCKED(&w->lock);
    while (!w->stopping && *used >= slots)
        pthread_cond_wait(&w->changed, &w->lock);
    return w->stopping ? 0 : slots - *used;
}

static int leasing_ask(const struct leasing *g, unsigned slots, struct error *err)
{
    struct worker *w = g->worker;
    struct client_answer answer;
    int64_t asked = clock_now();
    int wait_ms = w->lease_ns ? (int)(w->lease_ns / NS_PER_MS / 3) : LEASE_FIRST_MS;
    _cleanup_json_ json_t *body =
        json_pack("{s:s, s:i, s:i, s:[], s:i}", "worker", w->name, "slots", g->live ? 0 : slots,
                  "live_slots", g->live ? slots : 0, "tasks", "wait_ms", wait_ms);
    const struct client_call q = {
        .path = "/v1/worker/lease", .body = body, .fd = -1, .cancel = w->stop};
    int r = body ? server_client_call(w->client, &q, &answer, err)
                 : error_set(err, ENOMEM, "no memory");
    if (r < 0)
        return r;
    size_t i;
    const json_t *lease;
    json_array_foreach(json_object_get(answer.json, "jobs"), i, lease)
    {
        struct job *j = job_from_lease(w, lease, asked);
        if (!j)
            r = error_set(err, EPROTO, "the server's answer to a request for jobs is wrong");
        else
            r = job_start(j, err);
    }
    json_decref(answer.json);
    return r;
}

static void *leasing_main(void *data)
{
    const struct leasing *g = data;
    struct worker *w = g->worker;
    unsigned tries = 0, slots;
    while ((slots = leasing_wait(g)) > 0) {
        struct error err = {0};
        int r = leasing_ask(g, slots, &err);
        tries = r < 0 ? tries + 1 : 0;
        if (r == -EACCES || r == -EINVAL || r == -ENOENT) {
            LOCKED(&w->lock);
            w->refused = err;
            eventfd_write(w->stop, 1);
            break;
        }
        if (r < 0)
            cancel_wait(-1, 0, server_delay_ms(tries), w->stop);
    }
    return NULL;
}

/* --- events --- */

/* Sends the events of jobs that have had some for a while. Events of a job that ends soon after they
 * came go with its /finish. */
static void *events_main(void *data)
{
    struct worker *w = data;
    pthread_mutex_lock(&w->lock);
    while (!w->ended) {
        struct job *j = w->jobs;
        while (j && !job_report_is_due(j))
            j = j->next;
        if (j) {
            j->pins++;
            pthread_mutex_unlock(&w->lock);
            int r = job_report_send(j);
            pthread_mutex_lock(&w->lock);
            j->pins--;
            pthread_cond_broadcast(&w->changed);
            if (r == 0)
                continue;
        }
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_MS * NS_PER_MS;
        until.tv_sec += until.tv_nsec / NS_PER_S;
        until.tv_nsec %= NS_PER_S;
        if (w->jobs)
            pthread_cond_timedwait(&w->changed, &w->lock, &until);
        else
            pthread_cond_wait(&w->changed, &w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* --- the process --- */

/* Folders of jobs that no worker runs any more. The last day's stay, but for those of steps: a next
 * attempt on this host may continue in them. */
static void worker_tidy(const struct worker *w)
{
    _cleanup_free_ char *jobs = str_printf("%s/jobs", w->folder);
    DIR *dir = jobs ? opendir(jobs) : NULL;
    time_t now = time(NULL);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        _cleanup_fd_ int fd =
            openat(dirfd(dir), e->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        _cleanup_free_ char *path = str_printf("%s/%s", jobs, e->d_name);
        const char *end = strrchr(e->d_name, '.');
        bool kept = !end || strcmp(end, OF_STEPS) != 0;
        if (fd >= 0 && path && fstat(fd, &st) == 0 && (!kept || st.st_mtime < now - KEPT_S) &&
            flock(fd, LOCK_EX | LOCK_NB) == 0)
            git_remove_tree(path);
    }
    if (dir)
        closedir(dir);
}

static int worker_open(struct worker *w, const struct worker_options *o, struct error *err)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_mutex_init(&w->pool_lock, NULL);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    if (gethostname(w->host, sizeof w->host - 1) < 0)
        snprintf(w->host, sizeof w->host, "localhost");
    if (o->name)
        snprintf(w->name, sizeof w->name, "%s", o->name);
    else
        snprintf(w->name, sizeof w->name, "%s-%d", w->host, (int)getpid());
    w->options = *o;
    w->options.name = w->name;
    w->folder = o->folder ? realpath(o->folder, NULL) : ownfile_state_path("worker");
    w->options.folder = w->folder;
    _cleanup_free_ char *jobs = w->folder ? str_printf("%s/jobs", w->folder) : NULL;
    int r = jobs ? ownfile_make_folders(jobs) : -ENOENT;
    if (r < 0)
        return error_errno(err, -r, "cannot create the worker's folder %s",
                           w->folder ? w->folder : "(no home folder is known)");
    w->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->stop < 0)
        return error_errno(err, errno, "cannot create an eventfd");
    worker_tidy(w);
    r = server_client_new(o->server, o->key, &w->client, err);
    return r == 0 ? channels_open(o->server, o->key, &w->channels, err) : r;
}

static void worker_close(struct worker *w)
{
    pool_close(w->pool);
    box_spec_free(&w->pool_spec);
    channels_close(w->channels);
    server_client_free(w->client);
    cleanup_close(&w->stop);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->pool_lock);
    pthread_mutex_destroy(&w->lock);
    free(w->folder);
}

/* Waits until no job is left; false: `ns` are over. */
static bool worker_drain(struct worker *w, int64_t ns)
{
    struct timespec until;
    int r = 0;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ns / NS_PER_S;
    LOCKED(&w->lock);
    while (r == 0 && w->n_jobs + w->n_live > 0)
        r = pthread_cond_timedwait(&w->changed, &w->lock, &until);
    return w->n_jobs + w->n_live == 0;
}

/* Live jobs end at once; the others may finish what they do, for a moment, before they are killed and
 * given back. */
static void worker_shut_down(struct worker *w)
{
    for (int all = 0; all < 2; all++) {
        {
            LOCKED(&w->lock);
            for (struct job *j = w->jobs; j; j = j->next)
                if (all || j->live)
                    lease_wake(&j->lease);
        }
        if (worker_drain(w, all ? SHUTDOWN_NS : FINISH_NS))
            break;
    }
}

int worker_run(const struct worker_options *o, int cancel, struct error *err)
{
    struct worker w = {.stop = -1};
    struct leasing leasing[] = {{&w, false}, {&w, true}};
    pthread_t threads[4];
    size_t n = 0;
    int r = worker_open(&w, o, err);
    const struct {
        void *(*main)(void *data);
        void *data;
    } mains[] = {{renewal_main, &w},
                 {events_main, &w},
                 {leasing_main, &leasing[0]},
                 {leasing_main, &leasing[1]}};
    for (; r == 0 && n < ARRAY_SIZE(mains); n++)
        if ((r = thread_start(&threads[n], NULL, mains[n].main, mains[n].data)) < 0) {
            error_errno(err, -r, "cannot start a thread");
            break;
        }
    if (r == 0)
        cancel_wait(w.stop, POLLIN, -1, cancel);
    {
        LOCKED(&w.lock);
        w.stopping = true;
        eventfd_write(w.stop, 1);
        pthread_cond_broadcast(&w.changed);
    }
    for (; n > 2; n--)
        pthread_join(threads[n - 1], NULL);
    worker_shut_down(&w);
    {
        LOCKED(&w.lock);
        w.ended = true;
        pthread_cond_broadcast(&w.changed);
    }
    for (; n > 0; n--)
        pthread_join(threads[n - 1], NULL);
    if (r == 0 && w.refused.code) {
        *err = w.refused;
        r = -w.refused.code;
    }
    if (w.jobs) /* killed jobs whose threads hang: they end with the process */
        return r;
    worker_close(&w);
    return r;
}
