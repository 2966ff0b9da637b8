/*
 * Trajectories: written, compared with a step, read. A file may come from anybody: everything in it
 * is bounded and checked.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io.h"
#include "json.h"
#include "trajectory.h"
#include "banned.h"

static json_t *number_or_null(double v)
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
    return json_pack("{s:i, s:O?, s:O, s:f, s:o, s:b, s:b, s:f}", "step", (int)s->number, "action",
                     s->action, "observation", s->observation, "reward", s->reward, "pass_rate",
                     number_or_null(s->pass_rate), "terminated", s->terminated, "truncated",
                     s->truncated, "seconds", s->seconds);
}

json_t *trajectory_end(const struct gym_env *e)
{
    struct gym_episode sums;
    env_episode(e, &sums);
    return json_pack("{s:f, s:o, s:i, s:f, s:o}", "return", sums.total, "pass_rate",
                     number_or_null(sums.pass_rate), "calls", (int)sums.calls, "seconds",
                     sums.seconds, "seed", seed_json(sums.seed));
}

char *trajectory_line(const json_t *o)
{
    return o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
}

bool trajectory_same(const struct trajectory *t, const struct gym_step *s, enum gym_clock clock,
                     char *why, size_t size)
{
    /* members after the action can only be compared on the virtual clock */
    static const char *const MEMBERS[] = {"action",     "observation", "reward", "pass_rate",
                                          "terminated", "truncated",   "seconds"};
    const json_t *was = json_array_get(t->steps, s->number);
    if (!was) {
        snprintf(why, size, "step %u is not in the recording, which ends before it", s->number);
        return false;
    }
    _cleanup_json_ json_t *now = trajectory_step(s);
    if (!now) {
        snprintf(why, size, "no memory");
        return false;
    }
    for (size_t i = 0; i < (clock == CLOCK_VIRTUAL ? ARRAY_SIZE(MEMBERS) : 1); i++) {
        const json_t *a = json_object_get(was, MEMBERS[i]), *b = json_object_get(now, MEMBERS[i]);
        if (json_equal(a, b))
            continue;
        _cleanup_free_ char *old = json_dumps(a, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        _cleanup_free_ char *new = json_dumps(b, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
        snprintf(why, size, "step %u: %s was %.200s and is %.200s", s->number, MEMBERS[i],
                 old ? old : "nothing", new ? new : "nothing");
        return false;
    }
    return true;
}

void trajectory_free(struct trajectory *t)
{
    json_decref(t->head);
    json_decref(t->steps);
    json_decref(t->end);
    *t = (struct trajectory){0};
}

static bool is_number_or_null(const json_t *v)
{
    return json_is_number(v) || json_is_null(v);
}

/* What is wrong with a line of each kind; NULL: nothing. */

static const char *head_mistake(const json_t *o)
{
    const char *clock = json_get_string(o, "clock"), *digits = json_get_string(o, "seed");
    if (!json_is_string(json_object_get(o, "task")))
        return "not a trajectory: the first line names no task";
    if (!clock || (strcmp(clock, "wall") != 0 && strcmp(clock, "virtual") != 0))
        return "clock: must be \"wall\" or \"virtual\"";
    if (!json_is_integer(json_object_get(o, "seed")) &&
        (!digits || !*digits || digits[strspn(digits, "0123456789")]))
        return "seed: must be a whole number";
    return json_is_string(json_object_get(o, "digest")) ? NULL : "digest: must be a string";
}

static const char *step_mistake(const json_t *o, size_t number)
{
    const json_t *step = json_object_get(o, "step"), *action = json_object_get(o, "action");
    if (!json_is_integer(step) || json_integer_value(step) != (json_int_t)number)
        return "step: must count up from 0 without gaps";
    if (number == 0 && !json_is_null(action))
        return "action: must be absent in the first step, which is the reset";
    if (number > 0 && !json_is_string(json_object_get(action, "tool")))
        return "action: must name its tool";
    if (!json_is_object(json_object_get(o, "observation")))
        return "observation: must be an object";
    if (!json_is_number(json_object_get(o, "reward")))
        return "reward: must be a number";
    if (!is_number_or_null(json_object_get(o, "pass_rate")))
        return "pass_rate: must be a number or null";
    bool flags = json_is_boolean(json_object_get(o, "terminated")) &&
                 json_is_boolean(json_object_get(o, "truncated"));
    return flags ? NULL : "terminated, truncated: must be true or false";
}

/* Adds a line to the trajectory. Returns what is wrong with it; NULL: nothing. */
static const char *trajectory_add(struct trajectory *t, json_t *o)
{
    size_t number = json_array_size(t->steps);
    const char *mistake;
    if (!t->head) {
        mistake = head_mistake(o);
        if (!mistake)
            t->head = json_incref(o);
        return mistake;
    }
    if (t->end)
        return "unexpected line after the episode's totals";
    if (json_object_get(o, "return")) {
        if (!json_is_number(json_object_get(o, "return")))
            return "return: must be a number";
        if (!json_is_integer(json_object_get(o, "calls")))
            return "calls: must be a whole number";
        t->end = json_incref(o);
        return NULL;
    }
    if (number >= TRAJECTORY_STEPS_MAX)
        return "too many steps";
    mistake = step_mistake(o, number);
    return !mistake && json_array_append(t->steps, o) < 0 ? "no memory" : mistake;
}

int trajectory_parse(const char *text, size_t n, const char *name, struct trajectory *ret,
                     struct error *err)
{
    struct trajectory t = {.steps = json_array()};
    int r = t.steps ? 0 : error_errno(err, ENOMEM, "%s", name);
    for (size_t line = 1; n && r == 0; line++) {
        json_error_t at;
        const char *end = memchr(text, '\n', n), *mistake = NULL;
        size_t len = end ? (size_t)(end - text) : n;
        if (len > TRAJECTORY_LINE_MAX ||
            json_count_values(text, len, TRAJECTORY_VALUES_MAX) > TRAJECTORY_VALUES_MAX)
            mistake = "the line is too long";
        _cleanup_json_ json_t *o =
            len && !mistake ? json_loadb(text, len, JSON_REJECT_DUPLICATES, &at) : NULL;
        /* a last line without an end may have been cut when its writer was stopped */
        if (o)
            mistake = trajectory_add(&t, o);
        else if (len && !mistake && (end || !t.head))
            r = error_set(err, EINVAL, "%s:%zu: not JSON: %s", name, line, at.text);
        if (mistake)
            r = error_set(err, EINVAL, "%s:%zu: %s", name, line, mistake);
        text += len + (end != NULL);
        n -= len + (end != NULL);
    }
    if (r == 0 && !t.head)
        r = error_set(err, EINVAL, "%s: the trajectory is empty", name);
    if (r < 0)
        trajectory_free(&t);
    else
        *ret = t;
    return r;
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
    int r = io_read_all(fd, &text);
    if (r < 0)
        return error_errno(err, r == -ENOBUFS ? EFBIG : -r, "cannot read the trajectory %s", path);
    return trajectory_parse(text.len ? (const char *)text.data : "", text.len, path, ret, err);
}
