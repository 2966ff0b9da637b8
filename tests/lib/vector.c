/*
 * Many environments at once, through the library; bugfix_1 under the virtual clock. The first
 * argument says what:
 *
 *     many ENVS EPISODES   episodes of four kinds, without the cache; each must give what one
 * environment alone gave kill                 the box of one environment is killed in the middle of
 * a step close the vector is closed while all of it works rules                what send and recv
 * promise mistakes what the gym's functions refuse
 */
#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define ENVS_MAX 256
#define SLEEP    "{\"command\": \"sleep 600.%03u\"}"

/* What an episode does: numbers of the discrete view, to the end. */
struct plan {
    int n;
    const char *actions[4];
    uint64_t numbers[4];
    double total, pass_rate; /* what comes of it */
};

static struct plan plans[] = {
    {.n = 2, .actions = {"apply subtract-discount", "submit"}},
    {.n = 1, .actions = {"submit"}},
    {.n = 3, .actions = {"apply drop-discount", "run tests", "submit"}},
    {.n = 4,
     .actions = {"read src/calc.py", "apply take-absolute-discount", "apply subtract-discount",
                 "submit"}},
};
#define PLANS (sizeof plans / sizeof *plans)

static hutch_arena *open_arena(const char *options)
{
    hutch_arena *a = NULL;
    OK(hutch_arena_open("bugfix_1", options, &a, err));
    return a;
}

static hutch_vector *open_vector(hutch_arena *a, size_t n, size_t threads, int autoreset)
{
    hutch_vector *v = NULL;
    OK(hutch_vector_open(a, n, threads, autoreset, &v, err));
    return v;
}

/* The number of an action by its name, from the list in the arena's description. */
static uint64_t number_of(const char *info, const char *name)
{
    char quoted[128];
    const char *list = strstr(info, "\"actions\":["), *end = list ? strchr(list, ']') : NULL;
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *found = list ? strstr(list, quoted) : NULL;
    CHECK(found && found < end);
    uint64_t commas = 0;
    for (const char *at = list; at < found; at++)
        commas += *at == ',';
    return commas;
}

/* What each plan gives, played by one environment. */
static void learn_plans(hutch_arena *a)
{
    hutch_env *e = NULL;
    struct hutch_step s;
    char *info = NULL;
    OK(hutch_arena_info(a, &info, err));
    OK(hutch_env_open(a, &e, err));
    for (size_t p = 0; p < PLANS; p++) {
        OK(hutch_env_reset(e, p, &s, err));
        for (int i = 0; i < plans[p].n; i++) {
            plans[p].numbers[i] = number_of(info, plans[p].actions[i]);
            OK(hutch_env_act(e, plans[p].numbers[i], &s, err));
        }
        CHECK(s.terminated && !s.truncated);
        plans[p].total = s.episode_return;
        plans[p].pass_rate = s.pass_rate;
    }
    CHECK(plans[0].pass_rate == 1 && plans[1].pass_rate < 1 && plans[2].pass_rate < 1);
    hutch_env_close(e);
    hutch_free(info);
}

static void send_one(hutch_vector *v, struct hutch_action action)
{
    OK(hutch_vector_send(v, &action, 1, err));
}

struct player {
    size_t plan;
    int at; /* -1: being reset */
};

/* Begins the episode with this number. */
static void begin(hutch_vector *v, struct player *p, uint32_t env, size_t number)
{
    *p = (struct player){.plan = number % PLANS, .at = -1};
    send_one(v, (struct hutch_action){.env = env, .reset = 1, .seed = number});
}

/* Takes a step of this player's; true at the episode's end. */
static int play_on(hutch_vector *v, struct player *p, const struct hutch_step *s)
{
    const struct plan *plan = &plans[p->plan];
    CHECK(s->code == 0 && s->reset == (p->at < 0) && (int)s->number == p->at + 1 && !s->truncated);
    if (++p->at < plan->n) {
        CHECK(!s->terminated);
        send_one(v, (struct hutch_action){.env = s->env, .action = plan->numbers[p->at]});
        return 0;
    }
    CHECK(s->terminated && s->episode_return == plan->total && s->pass_rate == plan->pass_rate);
    return 1;
}

static void many(size_t envs, size_t episodes)
{
    static struct player players[ENVS_MAX];
    static struct hutch_step steps[ENVS_MAX];
    hutch_arena *a = open_arena("{\"clock\": \"virtual\", \"cache\": false}");
    learn_plans(a);
    hutch_vector *v = open_vector(a, envs, 0, 0);
    hutch_arena_close(a);
    size_t begun = 0, done = 0;
    for (; begun < envs && begun < episodes; begun++)
        begin(v, &players[begun], (uint32_t)begun, begun);
    while (done < episodes) {
        long n = 0;
        OK(n = hutch_vector_recv(v, 1, ENVS_MAX, -1, steps, err));
        CHECK(n > 0);
        for (long i = 0; i < n; i++)
            if (play_on(v, &players[steps[i].env], &steps[i]) && ++done && begun < episodes)
                begin(v, &players[steps[i].env], steps[i].env, begun++);
    }
    CHECK(hutch_vector_recv(v, 1, 1, -1, steps, NULL) == 0);
    hutch_vector_close(v);
}

/* ---- Processes of boxes ---- */

static pid_t parent_of(pid_t pid)
{
    char path[64];
    int parent = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f) {
        if (fscanf(f, "%*d (%*[^)]) %*c %d", &parent) != 1)
            parent = 0;
        fclose(f);
    }
    return parent;
}

static int runs(pid_t pid, const char *word)
{
    char path[64], line[256] = "";
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f)
        fclose(f);
    return n > 6 && memcmp(line, "sleep", 6) == 0 && strcmp(line + 6, word) == 0;
}

/* Process 1 of the box in which `sleep WORD` runs: the ancestor that is a child of ours. 0: not
 * yet. */
static pid_t box_of(const char *word)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;
    pid_t found = 0;
    while (!found && (d = readdir(proc))) {
        pid_t pid = (pid_t)atoi(d->d_name);
        if (pid <= 0 || !runs(pid, word))
            continue;
        while (pid > 1 && parent_of(pid) != getpid())
            pid = parent_of(pid);
        found = pid > 1 ? pid : 0;
    }
    closedir(proc);
    return found;
}

static pid_t wait_for_box(uint32_t env)
{
    char word[32];
    pid_t pid;
    snprintf(word, sizeof word, "600.%03u", env);
    while (!(pid = box_of(word)))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return pid;
}

static void reset_all(hutch_vector *v, uint32_t n)
{
    struct hutch_step s;
    for (uint32_t i = 0; i < n; i++)
        send_one(v, (struct hutch_action){.env = i, .reset = 1, .seed = i});
    for (uint32_t i = 0; i < n; i++)
        OK(hutch_vector_recv(v, 1, 1, -1, &s, err));
}

static void send_sleep(hutch_vector *v, uint32_t env)
{
    char input[64];
    snprintf(input, sizeof input, SLEEP, env);
    send_one(v, (struct hutch_action){.env = env, .tool = "bash", .input = input});
}

/* Nobody else notices; and that environment begins again like any other. */
static void killed(void)
{
    enum { N = 8, VICTIM = 3 };
    static struct player players[N];
    struct hutch_step s;
    hutch_arena *a = open_arena("{\"clock\": \"virtual\", \"cache\": false}");
    learn_plans(a);
    hutch_vector *v = open_vector(a, N, N, 1);
    reset_all(v, N);
    send_sleep(v, VICTIM);
    pid_t pid = wait_for_box(VICTIM);
    for (uint32_t i = 0; i < N; i++)
        if (i != VICTIM)
            begin(v, &players[i], i, i);
    CHECK(kill(pid, SIGKILL) == 0);
    for (int left = N; left > 0;) {
        OK(hutch_vector_recv(v, 1, 1, -1, &s, err));
        if (s.env != VICTIM) {
            left -= play_on(v, &players[s.env], &s);
            continue;
        }
        CHECK(s.code == 0 && s.truncated && !s.terminated && s.pass_rate == 0);
        CHECK(strstr(s.info, "\"reason\":\"") && strstr(s.info, "box"));
        left--;
    }
    send_one(v, (struct hutch_action){.env = VICTIM,
                                      .action = 0}); /* which is a reset, since it was over */
    OK(hutch_vector_recv(v, 1, 1, -1, &s, err));
    CHECK(s.env == VICTIM && s.reset && s.number == 0 && !s.truncated);
    hutch_vector_close(v);
    hutch_arena_close(a);
}

/* Steps that would take ten minutes, results that nobody received, actions that nobody began. */
static void closed(void)
{
    enum { N = 8 };
    hutch_arena *a = open_arena("{\"clock\": \"virtual\"}");
    hutch_vector *v = open_vector(a, N, 4, 0);
    hutch_arena_close(a); /* the vector holds it */
    reset_all(v, N);
    send_one(v, (struct hutch_action){
                    .env = 7, .tool = "read_file", .input = "{\"path\": \"src/calc.py\"}"});
    for (uint32_t i = 0; i < 7; i++)
        send_sleep(v, i);
    wait_for_box(0);
    hutch_vector_close(v);
}

static void rules(void)
{
    struct hutch_step s[4];
    hutch_arena *a = open_arena("{\"clock\": \"virtual\"}");
    learn_plans(a);
    hutch_vector *v = open_vector(a, 2, 2, 1);
    CHECK(hutch_vector_recv(v, 1, 4, -1, s, NULL) == 0);       /* nothing is under way */
    send_one(v, (struct hutch_action){.env = 0, .action = 0}); /* before any reset */
    OK(hutch_vector_recv(v, 1, 4, -1, s, err));
    CHECK(s[0].code == -EINVAL && strstr(s[0].observation, "reset"));
    reset_all(v, 2);

    send_sleep(v, 0);
    FAILS(EBUSY, "environment 0 is busy",
          hutch_vector_send(v, &(struct hutch_action){.env = 0}, 1, err));
    struct hutch_action both[] = {{.env = 1, .action = plans[1].numbers[0]}, {.env = 0}};
    FAILS(EBUSY, "environment 0",
          hutch_vector_send(v, both, 2, err)); /* and environment 1 got nothing */
    struct hutch_action twice[] = {both[0], both[0]};
    FAILS(EBUSY, "environment 1", hutch_vector_send(v, twice, 2, err));
    FAILS(EINVAL, "no environment 2; there are 2",
          hutch_vector_send(v, &(struct hutch_action){.env = 2}, 1, err));
    CHECK(hutch_vector_recv(v, 1, 4, 0, s, NULL) == 0);  /* none is there */
    CHECK(hutch_vector_recv(v, 1, 4, 20, s, NULL) == 0); /* and none comes soon */

    send_one(v, both[0]); /* who is done first comes first */
    OK(hutch_vector_recv(v, 1, 4, -1, s, err));
    CHECK(s[0].env == 1 && s[0].terminated);
    send_one(v,
             both[0]); /* the next action is a reset, with the next seed, and is not carried out */
    OK(hutch_vector_recv(v, 1, 1, -1, s, err));
    CHECK(s[0].env == 1 && s[0].reset && s[0].number == 0 && !s[0].terminated &&
          s[0].n_features > 3);
    send_one(v, (struct hutch_action){.env = 1,
                                      .action = 1000}); /* a mistake leaves the episode as it is */
    OK(hutch_vector_recv(v, 1, 1, -1, s, err));
    CHECK(s[0].code == -EINVAL && strstr(s[0].observation, "there is no action 1000"));
    send_one(v, both[0]);
    OK(hutch_vector_recv(v, 1, 1, -1, s, err));
    CHECK(s[0].code == 0 && s[0].terminated && s[0].episode_return == plans[1].total);
    hutch_vector_close(v);

    v = open_vector(a, 1, 1, 0); /* without autoreset */
    reset_all(v, 1);
    for (int i = 0; i < 2; i++) {
        send_one(v, (struct hutch_action){.env = 0, .tool = "submit"});
        OK(hutch_vector_recv(v, 1, 1, -1, s, err));
        CHECK(s[0].code == (i ? -EINVAL : 0));
    }
    hutch_vector_close(v);
    hutch_arena_close(a);
}

static void arenas(void)
{
    static const struct {
        const char *options, *words;
    } bad[] = {
        {"[]", "not a JSON object"},
        {"{\"clock\": \"sand\"}", "clock: is not one of wall|virtual"},
        {"{\"cache\": 1}", "cache: is neither true nor false"},
        {"{\"pool\": 0}", "pool: is not a number from 1"},
        {"{\"max_steps\": \"5\"}", "max_steps: is not a number from 1"},
        {"{\"tasks\": 1}", "tasks: is not a string"},
        {"{\"clok\": \"wall\"}", "an arena has no option 'clok'"},
    };
    hutch_arena *a = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        FAILS(EINVAL, bad[i].words, hutch_arena_open("bugfix_1", bad[i].options, &a, err));
    FAILS(ENOENT, "no_such", hutch_arena_open("no_such_task", NULL, &a, err));
    FAILS(EINVAL, "'task'", hutch_arena_open(NULL, NULL, &a, err));
    FAILS(EINVAL, "'ret'", hutch_arena_open("bugfix_1", NULL, NULL, err));
    CHECK(!a);
}

static void mistakes(void)
{
    char *text = NULL;
    struct hutch_step s;
    hutch_env *e = NULL;
    hutch_vector *v = NULL;
    arenas();
    FAILS(ENOENT, "/nowhere", hutch_tasks("{\"tasks\": \"/nowhere\"}", &text, err));
    FAILS(EINVAL, "no option 'task'", hutch_tasks("{\"task\": \"x\"}", &text, err));
    FAILS(EINVAL, "'ret_list'", hutch_tasks(NULL, NULL, err));
    FAILS(EINVAL, "no arena", hutch_arena_info(NULL, &text, err));
    FAILS(EINVAL, "no arena", hutch_env_open(NULL, &e, err));
    FAILS(EINVAL, "no arena", hutch_vector_open(NULL, 1, 1, 0, &v, err));
    FAILS(EINVAL, "no environment", hutch_env_reset(NULL, 0, &s, err));
    FAILS(EINVAL, "no environment", hutch_env_step(NULL, "bash", NULL, &s, err));
    FAILS(EINVAL, "no environment", hutch_env_act(NULL, 0, &s, err));
    FAILS(EINVAL, "no environment", hutch_env_fork(NULL, &e, err));
    FAILS(EINVAL, "no vector", hutch_vector_send(NULL, NULL, 0, err));
    FAILS(EINVAL, "no vector", hutch_vector_recv(NULL, 1, 1, 0, &s, err));
    hutch_arena_close(NULL);
    hutch_env_close(NULL);
    hutch_vector_close(NULL);

    hutch_arena *a = open_arena("{\"clock\": \"virtual\", \"max_steps\": 2}");
    FAILS(EINVAL, "this is not an open environment", hutch_env_reset((hutch_env *)a, 0, &s, err));
    FAILS(EINVAL, "0 environments", hutch_vector_open(a, 0, 1, 0, &v, err));
    FAILS(EINVAL, "5000 environments", hutch_vector_open(a, 5000, 1, 0, &v, err));
    OK(hutch_vector_open(a, 1, 1, 0, &v, err));
    FAILS(EINVAL, "'actions'", hutch_vector_send(v, NULL, 1, err));
    FAILS(EINVAL, "'ret'", hutch_vector_recv(v, 1, 1, 0, NULL, err));
    FAILS(EINVAL, "no room", hutch_vector_recv(v, 1, 0, 0, &s, err));
    FAILS(EINVAL, "'input' is not a JSON object",
          hutch_vector_send(v, &(struct hutch_action){.tool = "bash", .input = "5"}, 1, err));
    FAILS(EBUSY, "2 actions for 1 environments",
          hutch_vector_send(v, (struct hutch_action[2]){0}, 2, err));
    hutch_vector_close(v);
    OK(hutch_env_open(a, &e, err));
    FAILS(EINVAL, "not reset", hutch_env_act(e, 0, &s, err));
    OK(hutch_env_reset(e, 1, &s, err));
    CHECK(isnan(s.pass_rate) && s.number == 0);
    FAILS(EINVAL, "'ret'", hutch_env_reset(e, 1, NULL, err));
    FAILS(EINVAL, "there is no action 99", hutch_env_act(e, 99, &s, err));
    FAILS(EINVAL, "'input' is not JSON", hutch_env_step(e, "bash", "{", &s, err));
    FAILS(EINVAL, "'tool'", hutch_env_step(e, NULL, NULL, &s, err));
    OK(hutch_env_step(e, "no_such_tool", NULL, &s,
                      err)); /* an observation: it is the agent's mistake */
    CHECK(strstr(s.observation, "there is no tool"));
    OK(hutch_env_step(e, "bash", "{\"command\": 5}", &s, err));
    CHECK(s.truncated); /* max_steps */
    hutch_env_close(e);
    hutch_arena_close(a);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int descriptors = open_descriptors();
    if (strcmp(what, "many") == 0 && argc == 4)
        many((size_t)atoi(argv[2]), (size_t)atoi(argv[3]));
    else if (strcmp(what, "kill") == 0)
        killed();
    else if (strcmp(what, "close") == 0)
        closed();
    else if (strcmp(what, "rules") == 0)
        rules();
    else if (strcmp(what, "mistakes") == 0)
        mistakes();
    else
        return 2;
    nothing_left(descriptors);
    return 0;
}
