/*
 * Ends that come from another thread while tests run that would take very long.
 *
 *     interrupt WHAT TASK NAP      NAP: the argument of the `sleep` that the task's tests start
 *
 *     close-env      an environment is closed in the middle of a grading
 *     stop-env       its step is interrupted, and it is reset
 *     close-vector   a vector is closed while a thread waits for its results
 *     stop-vector    its steps are interrupted, and it is reset
 *     close-box      a box is closed while commands run in it
 *     arena          the opening of an arena is given up
 */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "check.h"

#define ENVS 3

static const char *task, *nap;

static int is_napping(const char *pid)
{
    char path[300], line[256] = "", wanted[256];
    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof line - 1);
    if (fd >= 0)
        close(fd);
    int size = snprintf(wanted, sizeof wanted, "sleep%c%s", 0, nap) + 1;
    return n == size && memcmp(line, wanted, (size_t)size) == 0;
}

/* Until so many tests run. */
static void wait_for_naps(int count)
{
    for (int found = 0; found < count; usleep(2000)) {
        DIR *all = opendir("/proc");
        CHECK(all);
        found = 0;
        for (struct dirent *one; (one = readdir(all));)
            found += is_napping(one->d_name);
        closedir(all);
    }
}

static hutch_arena *open_arena(void)
{
    hutch_arena *a = NULL;
    OK(hutch_arena_open(task, "{\"cache\": false}", &a, err));
    return a;
}

static hutch_env *open_env(void)
{
    hutch_arena *a = open_arena();
    hutch_env *e = NULL;
    struct hutch_step s;
    OK(hutch_env_open(a, &e, err));
    OK(hutch_env_reset(e, 1, &s, err));
    hutch_arena_close(a);
    return e;
}

static void *submit(void *env)
{
    struct hutch_step s;
    FAILS(ECANCELED, "interrupted", hutch_env_step(env, "submit", NULL, &s, err));
    return NULL;
}

static pthread_t start(void *(*run)(void *), void *data)
{
    pthread_t t;
    CHECK(pthread_create(&t, NULL, run, data) == 0);
    return t;
}

static void close_env(void)
{
    hutch_env *e = open_env();
    pthread_t other = start(submit, e);
    wait_for_naps(1);
    hutch_env_close(e);
    pthread_join(other, NULL);
}

static void stop_env(void)
{
    struct hutch_step s;
    hutch_env *e = open_env();
    pthread_t other = start(submit, e);
    wait_for_naps(1);
    OK(hutch_env_interrupt(e, err));
    pthread_join(other, NULL);
    FAILS(ECANCELED, "reset the environment first", hutch_env_step(e, "submit", NULL, &s, err));
    FAILS(ECANCELED, "reset the environment first", hutch_env_act_known(e, 0, &s, err));
    OK(hutch_env_reset(e, 2, &s, err));
    OK(hutch_env_step(e, "list_files", NULL, &s, err));
    FAILS(EAGAIN, "not in the cache", hutch_env_step_known(e, "submit", NULL, &s, err));
    OK(hutch_env_step(e, "list_files", NULL, &s, err)); /* nothing has happened */
    CHECK(s.number == 2);
    hutch_env_close(e);
}

static hutch_vector *open_vector(void)
{
    hutch_arena *a = open_arena();
    hutch_vector *v = NULL;
    struct hutch_action actions[ENVS] = {0};
    struct hutch_step s[ENVS];
    OK(hutch_vector_open(a, ENVS, ENVS, 0, &v, err));
    hutch_arena_close(a);
    for (uint32_t i = 0; i < ENVS; i++)
        actions[i] = (struct hutch_action){.env = i, .reset = 1, .seed = i};
    OK(hutch_vector_send(v, actions, ENVS, err));
    OK(hutch_vector_recv(v, ENVS, ENVS, -1, s, err));
    for (uint32_t i = 0; i < ENVS; i++)
        actions[i] = (struct hutch_action){.env = i, .tool = "submit"};
    OK(hutch_vector_send(v, actions, ENVS, err));
    return v;
}

static atomic_int receiver; /* the thread that is about to wait */

static void *receive(void *vector)
{
    struct hutch_step s;
    receiver = (int)gettid();
    FAILS(ECANCELED, "being closed", hutch_vector_recv(vector, 1, 1, -1, &s, err));
    return NULL;
}

static void wait_until_it_waits(void)
{
    char path[64], line[256], state = 0;
    for (; state != 'S'; usleep(1000)) {
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", receiver);
        FILE *f = receiver ? fopen(path, "re") : NULL;
        if (f && fgets(line, sizeof line, f))
            sscanf(strrchr(line, ')'), ") %c", &state);
        if (f)
            fclose(f);
    }
}

static void close_vector(void)
{
    hutch_vector *v = open_vector();
    wait_for_naps(ENVS);
    pthread_t other = start(receive, v);
    wait_until_it_waits();
    hutch_vector_close(v);
    pthread_join(other, NULL);
}

static void stop_vector(void)
{
    struct hutch_step s[ENVS];
    hutch_vector *v = open_vector();
    wait_for_naps(ENVS);
    OK(hutch_vector_interrupt(v, err));
    CHECK(hutch_vector_recv(v, ENVS, ENVS, 0, s, NULL) == ENVS);
    for (int i = 0; i < ENVS; i++)
        CHECK(s[i].code == -ECANCELED && strstr(s[i].observation, "interrupted"));
    struct hutch_action again = {.env = 0, .reset = 1}, look = {.env = 0, .tool = "list_files"};
    OK(hutch_vector_send(v, &again, 1, err));
    CHECK(hutch_vector_recv(v, 1, 1, -1, s, NULL) == 1 && s[0].code == 0 && s[0].reset);
    OK(hutch_vector_send(v, &look, 1, err));
    CHECK(hutch_vector_recv(v, 1, 1, -1, s, NULL) == 1 && s[0].code == 0);
    hutch_vector_close(v);
}

static void *run_long(void *box)
{
    char command[64];
    snprintf(command, sizeof command, "[\"sleep\", \"%s\"]", nap);
    CHECK(exec_has(box, command, "{\"timeout\": \"20m\"}", "\"signal\":\"SIGKILL\""));
    return NULL;
}

static void close_box(void)
{
    pthread_t others[ENVS];
    hutch_box *b = NULL;
    OK(hutch_box_open("{\"workspace\": null}", &b, err));
    for (int i = 0; i < ENVS; i++)
        others[i] = start(run_long, b);
    wait_for_naps(ENVS);
    hutch_box_close(b);
    for (int i = 0; i < ENVS; i++)
        pthread_join(others[i], NULL);
}

static void *open_long(void *options)
{
    hutch_arena *a = NULL;
    FAILS(ECANCELED, "interrupted", hutch_arena_open(task, options, &a, err));
    CHECK(!a);
    return NULL;
}

static void arena(void)
{
    int ends[2];
    char options[64];
    hutch_arena *a = NULL;
    CHECK(pipe(ends) == 0);
    FAILS(EINVAL, "cancel: is not an open descriptor",
          hutch_arena_open(task, "{\"cancel\": 999999}", &a, err));
    snprintf(options, sizeof options, "{\"cancel\": %d}", ends[0]);
    pthread_t other = start(open_long, options);
    wait_for_naps(1);
    CHECK(write(ends[1], "x", 1) == 1);
    pthread_join(other, NULL);
    close(ends[0]);
    close(ends[1]);
}

int main(int argc, char **argv)
{
    static const struct scene all[] = {{"close-env", close_env},       {"stop-env", stop_env},
                                       {"close-vector", close_vector}, {"stop-vector", stop_vector},
                                       {"close-box", close_box},       {"arena", arena}};
    if (argc != 4)
        return 2;
    task = argv[2];
    nap = argv[3];
    return run_scene(all, sizeof all / sizeof *all, argv[1]);
}
