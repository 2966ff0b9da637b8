/*
 * The library in a program that has a life of its own. The argument says which:
 *
 *     threads    8 threads, each with boxes of its own and all with one that they share
 *     signals    a timer that interrupts every system call; SIGPIPE ends the program, as it does by
 * default children   the program waits for any child, and reaps what it finds ignored    SIGCHLD is
 * ignored: the kernel reaps, nobody can be waited for fork       a fork of the program has copies
 * of all handles interrupt  another thread ends the commands that run manners    nothing of the
 * process is changed
 */
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include "check.h"

#define THREADS 8

static hutch_box *shared;

static hutch_box *open_box(void)
{
    hutch_box *b = NULL;
    OK(hutch_box_open("{\"workspace\": null}", &b, err));
    return b;
}

/* A bit of everything. */
static void use(hutch_box *b, int n)
{
    char command[256], *text = NULL;
    hutch_box *fork = NULL;
    snprintf(command, sizeof command, "\"echo %d > n; cat n\"", n);
    CHECK(exec_has(b, command, NULL, "\"exit_code\":0"));
    CHECK(exec_has(b, "[\"true\"]", "{\"stdin\": \"not read\"}", "\"exit_code\":0"));
    OK(hutch_box_tool(b, "read_file", "{\"path\": \"n\"}", &text, err));
    CHECK(strstr(text, "\"failed\":false"));
    hutch_free(text);
    OK(hutch_box_changes(b, &text, err));
    CHECK(strstr(text, "added"));
    hutch_free(text);
    OK(hutch_box_fork(b, &fork, err));
    snprintf(command, sizeof command, "\"stdout\":\"%d\\n\"", n);
    if (b != shared)
        CHECK(exec_has(fork, "[\"cat\", \"n\"]", NULL, command));
    hutch_box_close(fork);
}

static void *thread(void *data)
{
    int n = (int)(intptr_t)data;
    for (int i = 0; i < 3; i++) {
        hutch_box *b = open_box();
        use(b, 10 * n + i);
        use(shared, 10 * n + i);
        hutch_box_close(b);
    }
    return NULL;
}

static void threads(void)
{
    pthread_t all[THREADS];
    shared = open_box();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&all[i], NULL, thread, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(all[i], NULL);
    hutch_box_close(shared);
}

static volatile sig_atomic_t ticks;

static void tick(int number)
{
    ticks++;
}

/* Without SA_RESTART, as Python does it. */
static void signals(void)
{
    struct sigaction how = {.sa_handler = tick};
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    static char big[1 << 20];
    sigaction(SIGALRM, &how, NULL);
    CHECK(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    setitimer(ITIMER_REAL, &often, NULL);
    hutch_box *b = open_box();
    for (int i = 0; i < 10; i++)
        use(b, i);
    int n = snprintf(big, sizeof big, "{\"stdin\": \"%0*d\"}", (int)sizeof big - 100, 0);
    CHECK(n > 0 && exec_has(b, "[\"true\"]", big, "\"exit_code\":0"));
    hutch_box_close(b);
    setitimer(ITIMER_REAL, &never, NULL);
    CHECK(ticks > 10);
    sigset_t pending;
    sigpending(&pending);
    CHECK(!sigismember(&pending, SIGPIPE));
}

static void *reap(void *data)
{
    volatile sig_atomic_t *stop = data;
    while (!*stop)
        if (waitpid(-1, NULL, WNOHANG) <= 0)
            usleep(100);
    return NULL;
}

static void children(void)
{
    static volatile sig_atomic_t stop;
    pthread_t reaper;
    CHECK(pthread_create(&reaper, NULL, reap, (void *)&stop) == 0);
    for (int i = 0; i < 10; i++) {
        hutch_box *b = open_box();
        use(b, i);
        hutch_box_close(b);
    }
    stop = 1;
    pthread_join(reaper, NULL);
}

static void ignored(void)
{
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 10; i++) {
        hutch_box *b = open_box();
        use(b, i);
        hutch_box_close(b);
    }
}

static void forked(void)
{
    hutch_snapshot *s = NULL;
    hutch_box *b = open_box();
    OK(hutch_box_snapshot(b, &s, err));
    pid_t child = fork();
    if (child == 0) {
        char *text = NULL;
        hutch_box *other = NULL;
        FAILS(ECHILD, "belongs to process", hutch_box_exec(b, "\"true\"", NULL, &text, err));
        FAILS(ECHILD, "belongs to process", hutch_snapshot_fork(s, &other, err));
        FAILS(ECHILD, "belongs to process", hutch_box_interrupt(b, err));
        hutch_box_close(b);
        hutch_snapshot_free(s);
        other = open_box(); /* the child may have boxes of its own */
        use(other, 1);
        hutch_box_close(other);
        exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    use(b, 1);
    hutch_box_close(b);
    hutch_snapshot_free(s);
}

static void *interrupt(void *data)
{
    hutch_box *b = data;
    char *text = NULL;
    OK(hutch_box_exec(b, "\"until [ -e started ]; do sleep 0.01; done\"", NULL, &text, err));
    hutch_free(text);
    OK(hutch_box_interrupt(b, err));
    return NULL;
}

static void interrupted(void)
{
    pthread_t other;
    hutch_box *b = open_box();
    CHECK(pthread_create(&other, NULL, interrupt, b) == 0);
    CHECK(exec_has(b, "\"touch started; sleep 600\"", NULL, "\"signal\":\"SIGKILL\""));
    pthread_join(other, NULL);
    use(b, 1); /* the box goes on */
    hutch_box_close(b);
}

/* A locale with a comma: the library's numbers have points all the same. */
static void manners(void)
{
    struct sigaction before[65], after;
    sigset_t mask, mask_after;
    char folder[4096], folder_after[4096];
    setlocale(LC_ALL, "");
    char *locale = strdup(setlocale(LC_ALL, NULL));
    for (int i = 1; i < 65; i++)
        sigaction(i, NULL, &before[i]);
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    CHECK(getcwd(folder, sizeof folder));
    hutch_box *b = NULL;
    OK(hutch_box_open("{\"workspace\": null, \"cpus\": 1.0, \"net\": \"allow:example.org\"}", &b,
                      err));
    use(b, 1);
    hutch_box_close(b);
    for (int i = 1; i < 65; i++)
        CHECK(sigaction(i, NULL, &after) < 0 || after.sa_handler == before[i].sa_handler);
    pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
    CHECK(memcmp(&mask, &mask_after, sizeof mask) == 0);
    CHECK(getcwd(folder_after, sizeof folder_after) && strcmp(folder, folder_after) == 0);
    CHECK(strcmp(setlocale(LC_ALL, NULL), locale) == 0 && uselocale(NULL) == LC_GLOBAL_LOCALE);
    free(locale);
}

int main(int argc, char **argv)
{
    static const struct scene all[] = {
        {"threads", threads}, {"signals", signals}, {"children", children},
        {"ignored", ignored}, {"fork", forked},     {"interrupt", interrupted},
        {"manners", manners},
    };
    return argc == 2 ? run_scene(all, sizeof all / sizeof *all, argv[1]) : 2;
}
