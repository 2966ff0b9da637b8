/*
 * Training: episodes in a row. In the output folder are a checkpoint, from which training can
 * continue, a table with a line per episode, and the learning curve.
 */
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

void train_result_free(struct train_result *r)
{
    task_list_free(&r->greedy.actions);
    task_list_free(&r->best.actions);
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

static int out_path(const struct training *t, const char *name, char *path, struct error *err)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", t->options->out, name);
    return n < 0 || n >= PATH_MAX
               ? error_set(err, ENAMETOOLONG, "%s: the name is too long", t->options->out)
               : 0;
}

/* Makes the output folder and begins the table, or resumes it after `done` episodes. */
static int train_open_files(struct training *t, uint64_t done, struct error *err)
{
    char path[PATH_MAX];
    if (!t->options->out)
        return 0;
    int r = out_path(t, "episodes.csv", path, err);
    if (r < 0)
        return r;
    for (char *slash = path; (slash = strchr(slash + 1, '/'));) {
        *slash = 0;
        if (mkdir(path, 0777) < 0 && errno != EEXIST)
            return error_errno(err, errno, "cannot make the folder %s", path);
        *slash = '/';
    }
    if (!t->options->resume)
        return train_table_begin(path, &t->table, err);
    r = train_table_resume(path, done, &t->table, &t->result.points, &t->result.n_points, err);
    t->room_points = t->result.n_points;
    return r;
}

static int train_save(struct training *t, struct error *err)
{
    char path[PATH_MAX];
    if (!t->options->out)
        return 0;
    if (fflush(t->table) != 0 || ferror(t->table))
        return error_errno(err, errno, "cannot write %s/episodes.csv", t->options->out);
    if (!t->policy->save)
        return 0;
    int r = out_path(t, "checkpoint.json", path, err);
    return r < 0 ? r : t->policy->save(t->policy, path, err);
}

static int train_play_one(struct training *t, struct error *err)
{
    struct train_result *result = &t->result;
    struct gym_episode episode;
    struct policy_progress before = {0};
    if (t->policy->progress)
        t->policy->progress(t->policy, &before);
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
    if (result->n_points == t->room_points) {
        size_t room = t->room_points ? 2 * t->room_points : 1024;
        struct train_point *points = reallocarray(result->points, room, sizeof *points);
        if (!points)
            return error_set(err, ENOMEM, "no memory");
        result->points = points;
        t->room_points = room;
    }
    result->points[result->n_points++] = p;
    if (t->table)
        train_table_add(t->table, &p);
    result->played++;
    result->episodes = p.episode;
    if (t->sink && t->sink->episode)
        t->sink->episode(t->sink->data, &p);
    return 0;
}

/* Cancelling is not a failure. */
static int train_note_cancel(struct training *t, int r)
{
    t->result.cancelled |= r == -ECANCELED;
    return r == -ECANCELED ? 0 : r;
}

static int train_play_all(struct training *t, struct error *err)
{
    uint64_t every = t->options->every ? t->options->every : TRAIN_EVERY;
    int64_t began = clock_now();
    int r = 0;
    while (r == 0 && t->result.episodes < t->options->episodes) {
        r = train_play_one(t, err);
        if (r == 0 && t->result.episodes % every == 0)
            r = train_save(t, err);
    }
    t->result.seconds = (double)(clock_now() - began) / (double)NS_PER_S;
    r = train_note_cancel(t, r);
    return r == 0 ? train_save(t, err) : r;
}

struct labels {
    const struct task *task;
    struct task_list *into;
    int error;
};

static void labels_add_step(void *data, const struct gym_step *s)
{
    struct labels *l = data;
    char text[LABEL_MAX];
    if (s->number == 0)
        return;
    action_label(l->task, s->action, text, sizeof text);
    if (task_list_add(l->into, text) < 0)
        l->error = -ENOMEM;
}

static int train_play_greedy(struct training *t, struct error *err)
{
    struct train_sequence *s = &t->result.greedy;
    struct labels labels = {.task = env_task(t->env), .into = &s->actions};
    int r = policy_play(t->policy, t->env, t->options->seed, false, labels_add_step, &labels,
                        &s->episode, err);
    t->result.greedy_known = r == 0 && !labels.error;
    return r == 0 && labels.error ? error_set(err, ENOMEM, "no memory") : r;
}

/* The best sequence, if all can be tried. */
static int train_find_best(struct training *t, struct error *err)
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

static int train_draw(struct training *t, struct error *err)
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
    int r = out_path(t, "curve.svg", path, err);
    if (r == 0 && curve_svg(&c, &svg) < 0)
        r = error_set(err, ENOMEM, "no memory for the curve");
    return r < 0 ? r : put_file(path, svg.data, svg.len, err);
}

int train(struct gym_env *e, struct policy *p, const struct train_options *o,
          const struct train_sink *sink, struct train_result *ret, struct error *err)
{
    struct training t = {.env = e, .policy = p, .options = o, .sink = sink};
    struct policy_progress before = {0};
    if (o->episodes > TRAIN_EPISODES_MAX)
        return error_set(err, EINVAL, "at most %u episodes", TRAIN_EPISODES_MAX);
    if (p->progress)
        p->progress(p, &before);
    t.result.episodes = before.episodes;
    int r = train_open_files(&t, before.episodes, err);
    if (r == 0)
        r = train_play_all(&t, err);
    if (r == 0 && !t.result.cancelled)
        r = train_note_cancel(&t, train_play_greedy(&t, err));
    if (r == 0 && !t.result.cancelled && !o->no_search)
        r = train_note_cancel(&t, train_find_best(&t, err));
    if (r == 0)
        r = train_draw(&t, err);
    cleanup_fclose(&t.table);
    if (r < 0)
        train_result_free(&t.result);
    else
        *ret = t.result;
    return r;
}

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

bool train_table_parse(const char *line, struct train_point *ret)
{
    double v[6];
    for (size_t i = 0; i < ARRAY_SIZE(v); i++) {
        char *end;
        v[i] = strtod(line, &end);
        if (end == line || !isfinite(v[i]) || (*end && *end != ',' && *end != '\n'))
            return false;
        line = *end == ',' ? end + 1 : end;
    }
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

/* Keeps the lines of the first `keep` episodes and removes the rest: a run that was killed wrote
 * more episodes than its last checkpoint has. Leaves the file where the next line goes. */
static int table_skip(FILE *f, uint64_t keep, struct train_point *points, size_t *ret_n)
{
    char line[256];
    long end = 0;
    size_t n = 0;
    if (fgets(line, sizeof line, f) && strcmp(line, TRAIN_TABLE_HEAD) == 0)
        for (end = ftell(f); n < keep && fgets(line, sizeof line, f); end = ftell(f)) {
            bool follows = strchr(line, '\n') && train_table_parse(line, &points[n]) &&
                           points[n].episode <= keep &&
                           (n == 0 || points[n].episode == points[n - 1].episode + 1);
            if (!follows)
                break;
            n++;
        }
    if (fseek(f, end, SEEK_SET) < 0 || ftruncate(fileno(f), end) < 0)
        return -errno;
    if (end == 0)
        fputs(TRAIN_TABLE_HEAD, f);
    *ret_n = n;
    return 0;
}

int train_table_resume(const char *path, uint64_t keep, FILE **ret, struct train_point **ret_points,
                       size_t *ret_n, struct error *err)
{
    _cleanup_fclose_ FILE *f = fopen(path, "r+e");
    if (!f && errno == ENOENT)
        return train_table_begin(path, ret, err);
    if (!f)
        return error_errno(err, errno, "cannot resume %s", path);
    _cleanup_free_ struct train_point *points = calloc(keep + 1, sizeof *points);
    int r = points ? table_skip(f, keep, points, ret_n) : -ENOMEM;
    if (r < 0)
        return error_errno(err, -r, "cannot resume %s", path);
    *ret_points = TAKE_PTR(points);
    *ret = TAKE_PTR(f);
    return 0;
}

int put_file(const char *path, const void *data, size_t n, struct error *err)
{
    _cleanup_free_ char *beside = str_printf("%s.%d.new", path, getpid());
    if (!beside)
        return error_set(err, ENOMEM, "no memory");
    unlink(beside); /* of a killed process with the same number */
    _cleanup_fd_ int fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    int r = fd < 0 ? -errno : io_write_all(fd, data, n);
    if (r == 0 && (fsync(fd) < 0 || rename(beside, path) < 0))
        r = -errno;
    if (r == 0)
        return 0;
    unlink(beside);
    return error_errno(err, -r, "cannot write %s", path);
}
