/* Writing trajectories, and comparing a step with what was recorded. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "json.h"
#include "tool_result.h"
#include "trajectory.h"
#include "banned.h"

static json_t *real_or_null(double v)
{
    return isnan(v) ? json_null() : json_real(v);
}

/* JSON's integers end at 2^63 - 1; a larger seed is a string. */
static json_t *seed_json(uint64_t seed)
{
    char text[32];
    if (seed <= INT64_MAX)
        return json_integer((json_int_t)seed);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
    return json_string(text);
}

json_t *trajectory_head(const struct gym_env *e, const char *agent)
{
    struct gym_episode sums;
    const struct task *t = env_task(e);
    env_episode(e, &sums);
    return json_pack("{s:s, s:s, s:s, s:o, s:s, s:s, s:i, s:f, s:f}", "hutch", HUTCH_VERSION,
                     "task", t->name, "digest", t->digest, "seed", seed_json(sums.seed), "clock",
                     env_clock(e) == CLOCK_VIRTUAL ? "virtual" : "wall", "agent",
                     agent ? agent : "", "max_steps", (int)t->max_steps, "call_price",
                     t->call_price, "second_price", t->second_price);
}

json_t *trajectory_step(const struct gym_step *s)
{
    return json_pack("{s:i, s:o, s:O, s:f, s:o, s:b, s:b, s:f}", "step", (int)s->number, "action",
                     s->action ? json_incref(s->action) : json_null(), "observation",
                     s->observation, "reward", s->reward, "pass_rate", real_or_null(s->pass_rate),
                     "terminated", s->terminated, "truncated", s->truncated, "seconds", s->seconds);
}

json_t *trajectory_end(const struct gym_env *e)
{
    struct gym_episode sums;
    env_episode(e, &sums);
    return json_pack("{s:f, s:o, s:i, s:f, s:o}", "return", sums.total, "pass_rate",
                     real_or_null(sums.pass_rate), "calls", (int)sums.calls, "seconds",
                     sums.seconds, "seed", seed_json(sums.seed));
}

char *trajectory_line(const json_t *o)
{
    return o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
}

static const char *const EXACT[] = {"observation", "reward",    "pass_rate",
                                    "terminated",  "truncated", "seconds"};

static bool same_member(const json_t *was, const json_t *now, const char *name, char *why,
                        size_t size)
{
    const json_t *a = json_object_get(was, name), *b = json_object_get(now, name);
    if (json_equal(a, b))
        return true;
    _cleanup_free_ char *old = json_dumps(a, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    _cleanup_free_ char *new = json_dumps(b, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    snprintf(why, size, "step %lld: %s was %.200s and is %.200s",
             (long long)json_integer_value(json_object_get(now, "step")), name,
             old ? old : "nothing", new ? new : "nothing");
    return false;
}

static bool same_step(const json_t *was, const json_t *now, enum gym_clock clock, char *why,
                      size_t size)
{
    if (!same_member(was, now, "action", why, size))
        return false;
    for (size_t i = 0; clock == CLOCK_VIRTUAL && i < ARRAY_SIZE(EXACT); i++)
        if (!same_member(was, now, EXACT[i], why, size))
            return false;
    return true;
}

bool trajectory_same(const struct trajectory *t, const struct gym_step *s, enum gym_clock clock,
                     char *why, size_t size)
{
    const json_t *was = json_array_get(t->steps, s->number);
    if (!was) {
        snprintf(why, size, "step %u is not in the recording, which ends before it", s->number);
        return false;
    }
    json_t *now = trajectory_step(s);
    bool same = now && same_step(was, now, clock, why, size);
    if (!now)
        snprintf(why, size, "no memory");
    json_decref(now);
    return same;
}

/* Reading a trajectory. The file may be anybody's: everything in it is bounded and checked before
 * it counts. */

/* Where we are, for messages. */
struct reading {
    const char *name;
    size_t line;
    struct trajectory *into;
};

void trajectory_free(struct trajectory *t)
{
    json_decref(t->head);
    json_decref(t->steps);
    json_decref(t->end);
    *t = (struct trajectory){0};
}

static int bad(const struct reading *r, struct error *err, const char *what)
{
    return error_set(err, EINVAL, "%s:%zu: %s", r->name, r->line, what);
}

static bool is_number_or_null(const json_t *v)
{
    return json_is_number(v) || json_is_null(v);
}

static bool is_seed(const json_t *v)
{
    const char *text = json_string_value(v);
    return json_is_integer(v) || (text && *text && strlen(text) == strspn(text, "0123456789"));
}

static const char *wrong_head(const json_t *o)
{
    const char *clock = json_string_value(json_object_get(o, "clock"));
    if (!json_is_string(json_object_get(o, "task")))
        return "not a trajectory: the first line names no task";
    if (!clock || (strcmp(clock, "wall") != 0 && strcmp(clock, "virtual") != 0))
        return "clock: must be \"wall\" or \"virtual\"";
    if (!is_seed(json_object_get(o, "seed")))
        return "seed: must be a whole number";
    return json_is_string(json_object_get(o, "digest")) ? NULL : "digest: must be a string";
}

static const char *wrong_action(const json_t *action, size_t number)
{
    if (number == 0)
        return json_is_null(action)
                   ? NULL
                   : "action: must be absent in the first step, which is the reset";
    return json_is_string(json_object_get(action, "tool")) ? NULL : "action: must name its tool";
}

static const char *wrong_step(const json_t *o, size_t number)
{
    const json_t *step = json_object_get(o, "step");
    if (!json_is_integer(step) || json_integer_value(step) != (json_int_t)number)
        return "step: must count up from 0 without gaps";
    const char *wrong = wrong_action(json_object_get(o, "action"), number);
    if (wrong)
        return wrong;
    if (!json_is_object(json_object_get(o, "observation")))
        return "observation: must be an object";
    if (!json_is_number(json_object_get(o, "reward")))
        return "reward: must be a number";
    if (!is_number_or_null(json_object_get(o, "pass_rate")))
        return "pass_rate: must be a number or null";
    if (!json_is_boolean(json_object_get(o, "terminated")) ||
        !json_is_boolean(json_object_get(o, "truncated")))
        return "terminated, truncated: must be true or false";
    return NULL;
}

static const char *wrong_end(const json_t *o)
{
    if (!json_is_number(json_object_get(o, "return")))
        return "return: must be a number";
    return json_is_integer(json_object_get(o, "calls")) ? NULL : "calls: must be a whole number";
}

/* Takes the line's place in the trajectory; steals o. */
static int take_line(struct reading *r, json_t *o, struct error *err)
{
    struct trajectory *t = r->into;
    size_t number = json_array_size(t->steps);
    const char *wrong = NULL;
    if (!t->head && !(wrong = wrong_head(o)))
        t->head = json_incref(o);
    else if (t->end)
        wrong = "unexpected line after the episode's totals";
    else if (t->head && json_object_get(o, "return") && !(wrong = wrong_end(o)))
        t->end = json_incref(o);
    else if (!wrong && number >= TRAJECTORY_STEPS_MAX)
        wrong = "too many steps";
    else if (!wrong && !(wrong = wrong_step(o, number)) && json_array_append(t->steps, o) < 0)
        wrong = "no memory";
    json_decref(o);
    return wrong ? bad(r, err, wrong) : 0;
}

/* `last`: nothing follows, not even an end of the line; whoever wrote it may have been stopped in
 * it. */
static int parse_line(struct reading *r, const char *text, size_t n, bool last, struct error *err)
{
    json_error_t at;
    if (n > TRAJECTORY_LINE_MAX ||
        json_count_values(text, n, TRAJECTORY_VALUES_MAX) > TRAJECTORY_VALUES_MAX)
        return bad(r, err, "the line is too long");
    json_t *o = json_loadb(text, n, JSON_REJECT_DUPLICATES, &at);
    if (!o && last && r->into->head)
        return 0;
    if (!o)
        return error_set(err, EINVAL, "%s:%zu: not JSON: %s", r->name, r->line, at.text);
    return take_line(r, o, err);
}

static int parse_all(struct reading *r, const char *text, size_t n, struct error *err)
{
    int done = 0;
    while (n && done == 0) {
        const char *end = memchr(text, '\n', n);
        size_t len = end ? (size_t)(end - text) : n;
        r->line++;
        if (len)
            done = parse_line(r, text, len, !end, err);
        text += len + (end != NULL);
        n -= len + (end != NULL);
    }
    if (done == 0 && !r->into->head)
        return error_set(err, EINVAL, "%s: the trajectory is empty", r->name);
    return done;
}

int trajectory_parse(const char *text, size_t n, const char *name, struct trajectory *ret,
                     struct error *err)
{
    struct trajectory t = {.steps = json_array()};
    struct reading r = {.name = name, .into = &t};
    int done = t.steps ? parse_all(&r, text, n, err) : error_errno(err, ENOMEM, "%s", name);
    if (done < 0) {
        trajectory_free(&t);
        return done;
    }
    *ret = t;
    return 0;
}

static int read_file(int fd, struct buf *b)
{
    ssize_t got;
    do {
        void *room = buf_reserve(b, 65536);
        if (!room)
            return -EFBIG;
        got = read(fd, room, 65536);
        b->len += got > 0 ? (size_t)got : 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    return got < 0 ? -errno : 0;
}

int trajectory_load(const char *path, struct trajectory *ret, struct error *err)
{
    _cleanup_buf_ struct buf text = BUF_INIT(TRAJECTORY_BYTES_MAX);
    struct stat st;
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return error_errno(err, errno, "cannot read the trajectory %s", path);
    if (!S_ISREG(st.st_mode))
        return error_set(err, EINVAL, "the trajectory %s is not a file", path);
    int r = read_file(fd, &text);
    if (r < 0)
        return error_errno(err, -r, "cannot read the trajectory %s", path);
    return trajectory_parse(text.len ? (const char *)text.data : "", text.len, path, ret, err);
}
