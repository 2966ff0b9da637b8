#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io.h"
#include "policy.h"
#include "search.h"
#include "thread.h"
#include "train.h"
#include "banned.h"

#define LABEL_MAX 256
#define CURVE_MAX (4u << 20)

struct training {
    struct gym_env *env;
    struct policy *policy;
    const struct train_options *options;
    const struct train_sink *sink;
    FILE *table; /* NULL: nothing is written */
    size_t room_points;
    struct train_result result;
};

static void sequence_free(struct train_sequence *s)
{
    task_list_free(&s->actions);
}

void train_result_free(struct train_result *r)
{
    sequence_free(&r->greedy);
    sequence_free(&r->best);
    free(r->points);
    *r = (struct train_result){0};
}

char *train_actions_text(const struct train_sequence *s)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1u << 20);
    for (size_t i = 0; i < s->actions.count; i++)
        buf_printf(&b, "%s%s", i ? ", " : "", s->actions.items[i]);
    char *text = buf_cstr(&b);
    return text ? strdup(text) : NULL;
}

static int path_of(const struct training *t, const char *name, char *path, struct error *err)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", t->options->out, name);
    return n < 0 || n >= PATH_MAX
               ? error_set(err, ENAMETOOLONG, "%s: the name is too long", t->options->out)
               : 0;
}

/* The folder, with those that it is in. */
static int make_folder(const char *path, struct error *err)
{
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return error_set(err, ENAMETOOLONG, "%s: the name is too long", path);
    for (char *at = part + 1;; at++) {
        char was = *at;
        if (was && was != '/')
            continue;
        *at = 0;
        if (mkdir(part, 0777) < 0 && errno != EEXIST)
            return error_errno(err, errno, "cannot make the folder %s", part);
        if (!was)
            return 0;
        *at = was;
    }
}

static int begin_files(struct training *t, uint64_t done, struct error *err)
{
    char path[PATH_MAX];
    if (!t->options->out)
        return 0;
    int r = make_folder(t->options->out, err);
    if (r == 0)
        r = path_of(t, "episodes.csv", path, err);
    if (r < 0)
        return r;
    if (!t->options->resume)
        return train_table_begin(path, &t->table, err);
    r = train_table_resume(path, done, &t->table, &t->result.points, &t->result.n_points, err);
    t->room_points = t->result.n_points;
    return r;
}

static int save(struct training *t, struct error *err)
{
    char path[PATH_MAX];
    if (!t->options->out)
        return 0;
    if (fflush(t->table) != 0 || ferror(t->table))
        return error_errno(err, errno, "cannot write %s/episodes.csv", t->options->out);
    if (!t->policy->save)
        return 0;
    int r = path_of(t, "checkpoint.json", path, err);
    return r < 0 ? r : t->policy->save(t->policy, path, err);
}

static int keep_point(struct training *t, const struct train_point *p)
{
    struct train_result *r = &t->result;
    if (r->n_points == t->room_points) {
        size_t room = t->room_points ? 2 * t->room_points : 1024;
        struct train_point *points = reallocarray(r->points, room, sizeof *points);
        if (!points)
            return -ENOMEM;
        r->points = points;
        t->room_points = room;
    }
    r->points[r->n_points++] = *p;
    return 0;
}

static struct policy_progress progress_of(const struct policy *p)
{
    struct policy_progress now = {0};
    if (p->progress)
        p->progress(p, &now);
    return now;
}

static int play_one(struct training *t, struct error *err)
{
    struct gym_episode episode;
    struct policy_progress before = progress_of(t->policy);
    int r = policy_play(t->policy, t->env, t->options->seed + before.episodes, true, NULL, NULL,
                        &episode, err);
    if (r < 0)
        return r;
    struct train_point p = {.episode = before.episodes + 1,
                            .ret = episode.total,
                            .pass_rate = isnan(episode.pass_rate) ? 0 : episode.pass_rate,
                            .epsilon = before.epsilon,
                            .calls = episode.calls,
                            .seconds = episode.seconds};
    if (keep_point(t, &p) < 0)
        return error_set(err, ENOMEM, "no memory");
    if (t->table)
        train_table_add(t->table, &p);
    t->result.played++;
    t->result.episodes = p.episode;
    if (t->sink && t->sink->episode)
        t->sink->episode(t->sink->data, &p);
    return 0;
}

/* To be told to end is no failure. */
static int unless_cancelled(struct training *t, int r)
{
    t->result.cancelled |= r == -ECANCELED;
    return r == -ECANCELED ? 0 : r;
}

static int play_all(struct training *t, struct error *err)
{
    uint64_t every = t->options->every ? t->options->every : TRAIN_EVERY;
    int64_t began = clock_now();
    int r = 0;
    while (r == 0 && t->result.episodes < t->options->episodes) {
        r = play_one(t, err);
        if (r == 0 && t->result.episodes % every == 0)
            r = save(t, err);
    }
    t->result.seconds = (double)(clock_now() - began) / (double)NS_PER_S;
    r = unless_cancelled(t, r);
    return r == 0 ? save(t, err) : r;
}

struct labels {
    const struct task *task;
    struct task_list *into;
    int error;
};

static void add_label(void *data, const struct gym_step *s)
{
    struct labels *l = data;
    char text[LABEL_MAX];
    if (s->number == 0)
        return;
    action_label(l->task, s->action, text, sizeof text);
    if (task_list_add(l->into, text) < 0)
        l->error = -ENOMEM;
}

static int play_greedy(struct training *t, struct error *err)
{
    struct train_sequence *s = &t->result.greedy;
    struct labels labels = {.task = env_task(t->env), .into = &s->actions};
    int r = policy_play(t->policy, t->env, t->options->seed, false, add_label, &labels, &s->episode,
                        err);
    t->result.greedy_known = r == 0 && !labels.error;
    return r == 0 && labels.error ? error_set(err, ENOMEM, "no memory") : r;
}

/* What is best, where all sequences can be gone through. */
static int find_best(struct training *t, struct error *err)
{
    struct train_sequence *s = &t->result.best;
    struct search_result found = {0};
    char text[LABEL_MAX];
    if (t->sink && t->sink->searching)
        t->sink->searching(t->sink->data);
    int r = search_best(t->env, SEARCH_STATES_MAX, &found, err);
    for (size_t i = 0; r == 0 && i < found.count; i++) {
        task_action_name(env_task(t->env), found.actions[i], text, sizeof text);
        if (task_list_add(&s->actions, text) < 0)
            r = error_set(err, ENOMEM, "no memory");
    }
    s->episode = found.episode;
    t->result.best_known = r == 0 && found.whole;
    search_result_free(&found);
    return r;
}

static int draw(struct training *t, struct error *err)
{
    char path[PATH_MAX], title[2 * TASK_NAME_MAX];
    _cleanup_buf_ struct buf svg = BUF_INIT(CURVE_MAX);
    if (!t->options->out)
        return 0;
    snprintf(title, sizeof title, "%s learns %s", t->policy->kind->name, env_task(t->env)->name);
    struct curve c = {.title = title,
                      .points = t->result.points,
                      .n = t->result.n_points,
                      .best = t->result.best_known ? t->result.best.episode.total : NAN};
    int r = path_of(t, "curve.svg", path, err);
    if (r == 0 && curve_svg(&c, &svg) < 0)
        r = error_set(err, ENOMEM, "no memory for the curve");
    return r < 0 ? r : put_file(path, svg.data, svg.len, err);
}

static int run(struct training *t, struct error *err)
{
    t->result.episodes = progress_of(t->policy).episodes;
    int r = begin_files(t, t->result.episodes, err);
    if (r == 0)
        r = play_all(t, err);
    if (r == 0 && !t->result.cancelled)
        r = unless_cancelled(t, play_greedy(t, err));
    if (r == 0 && !t->result.cancelled && !t->options->no_search)
        r = unless_cancelled(t, find_best(t, err));
    return r == 0 ? draw(t, err) : r;
}

int train(struct gym_env *e, struct policy *p, const struct train_options *o,
          const struct train_sink *sink, struct train_result *ret, struct error *err)
{
    struct training t = {.env = e, .policy = p, .options = o, .sink = sink};
    if (o->episodes > TRAIN_EPISODES_MAX)
        return error_set(err, EINVAL, "at most %u episodes", TRAIN_EPISODES_MAX);
    int r = run(&t, err);
    cleanup_fclose(&t.table);
    if (r < 0) {
        train_result_free(&t.result);
        return r;
    }
    *ret = t.result;
    return 0;
}

#define LINE_MAX_BYTES 256

int train_table_begin(const char *path, FILE **ret, struct error *err)
{
    FILE *f = fopen(path, "we");
    if (!f)
        return error_errno(err, errno, "cannot write %s", path);
    fputs(TRAIN_TABLE_HEAD, f);
    *ret = f;
    return 0;
}

void train_table_add(FILE *f, const struct train_point *p)
{
    fprintf(f, "%" PRIu64 ",%.10g,%.10g,%u,%.10g,%.10g\n", p->episode, p->ret, p->pass_rate,
            p->calls, p->seconds, p->epsilon);
}

static bool parse_number(const char **at, double *ret)
{
    char *end;
    double v = strtod(*at, &end);
    bool good = end != *at && isfinite(v) && (*end == ',' || *end == '\n' || *end == 0);
    *ret = v;
    *at = *end == ',' ? end + 1 : end;
    return good;
}

bool train_table_parse(const char *line, struct train_point *ret)
{
    double v[6];
    for (size_t i = 0; i < ARRAY_SIZE(v); i++)
        if (!parse_number(&line, &v[i]))
            return false;
    if (!(v[0] >= 1 && v[0] <= TRAIN_EPISODES_MAX) || !(v[3] >= 0 && v[3] <= 1e6) ||
        (*line && *line != '\n'))
        return false;
    *ret = (struct train_point){.episode = (uint64_t)v[0],
                                .ret = v[1],
                                .pass_rate = v[2],
                                .calls = (unsigned)v[3],
                                .seconds = v[4],
                                .epsilon = v[5]};
    return true;
}

/* Reads the lines of the first `keep` episodes, and says where they end. What stands behind (a run
 * that was killed wrote more episodes than its last checkpoint knows of) goes. */
static long read_points(FILE *f, uint64_t keep, struct train_point *points, size_t *ret_n)
{
    char line[LINE_MAX_BYTES];
    long end = 0;
    size_t n = 0;
    if (!fgets(line, sizeof line, f) || strcmp(line, TRAIN_TABLE_HEAD) != 0)
        return 0;
    for (end = ftell(f); n < keep && fgets(line, sizeof line, f); end = ftell(f)) {
        bool follows = strchr(line, '\n') && train_table_parse(line, &points[n]) &&
                       points[n].episode <= keep &&
                       (n == 0 || points[n].episode == points[n - 1].episode + 1);
        if (!follows)
            break;
        n++;
    }
    *ret_n = n;
    return end;
}

/* Leaves the file where the next line goes. */
static int go_on(FILE *f, uint64_t keep, struct train_point **ret_points, size_t *ret_n)
{
    size_t n = 0;
    struct train_point *points = calloc(keep + 1, sizeof *points);
    if (!points)
        return -ENOMEM;
    long end = read_points(f, keep, points, &n);
    if (fseek(f, end, SEEK_SET) < 0 || ftruncate(fileno(f), end) < 0) {
        free(points);
        return -errno;
    }
    if (end == 0)
        fputs(TRAIN_TABLE_HEAD, f);
    *ret_points = points;
    *ret_n = n;
    return 0;
}

int train_table_resume(const char *path, uint64_t keep, FILE **ret, struct train_point **ret_points,
                       size_t *ret_n, struct error *err)
{
    FILE *f = fopen(path, "r+e");
    if (!f && errno == ENOENT)
        return train_table_begin(path, ret, err);
    if (!f)
        return error_errno(err, errno, "cannot resume %s", path);
    int r = go_on(f, keep, ret_points, ret_n);
    if (r < 0) {
        fclose(f);
        return error_errno(err, -r, "cannot resume %s", path);
    }
    *ret = f;
    return 0;
}

static int write_beside(const char *beside, const void *data, size_t n)
{
    _cleanup_fd_ int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return -errno;
    int r = io_write_all(fd, data, n);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r;
}

int put_file(const char *path, const void *data, size_t n, struct error *err)
{
    _cleanup_free_ char *beside = NULL;
    if (asprintf(&beside, "%s.%d.new", path, getpid()) < 0) {
        beside = NULL;
        return error_set(err, ENOMEM, "no memory");
    }
    unlink(beside); /* of a process of that number that was killed */
    int r = write_beside(beside, data, n);
    if (r == 0 && rename(beside, path) < 0)
        r = -errno;
    if (r < 0) {
        unlink(beside);
        return error_errno(err, -r, "cannot write %s", path);
    }
    return 0;
}
