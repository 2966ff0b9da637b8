/* What the test programs of the library share: each is compiled by the tests against an installed
 * copy. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <hutch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call that must succeed, or its error is the test's. */
#define OK(call)                                                                                   \
    do {                                                                                           \
        struct hutch_error *err = &(struct hutch_error){0};                                        \
        long ok_ = (call);                                                                         \
        if (ok_ < 0) {                                                                             \
            fprintf(stderr, "%s:%d: %s: %ld: %s\n", __FILE__, __LINE__, #call, ok_, err->text);    \
            exit(1);                                                                               \
        }                                                                                          \
        CHECK(err->code == 0 && err->text[0] == 0);                                                \
    } while (0)

/* A call that must fail with this errno, and say something about it that has these words. */
#define FAILS(expected, words, call)                                                               \
    do {                                                                                           \
        struct hutch_error *err = &(struct hutch_error){0};                                        \
        long bad_ = (call);                                                                        \
        if (bad_ != -(expected) || err->code != (expected) || !strstr(err->text, words)) {         \
            fprintf(stderr, "%s:%d: %s: %ld, %d: %s\n", __FILE__, __LINE__, #call, bad_,           \
                    err->code, err->text);                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Once everything is closed the process has the descriptors that it had, and no child. */
static inline void nothing_left(int descriptors)
{
    CHECK(open_descriptors() == descriptors);
    CHECK(waitpid(-1, NULL, WNOHANG | __WALL) == -1 && errno == ECHILD);
}

struct scene {
    const char *name;
    void (*run)(void);
};

/* Runs the scene of that name, after which nothing may be left. The program's exit status. */
static inline int run_scene(const struct scene *all, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(name, all[i].name) == 0) {
            int descriptors = open_descriptors();
            all[i].run();
            nothing_left(descriptors);
            return 0;
        }
    return 2;
}

/* Is this text in the result of a command? */
static inline int exec_has(hutch_box *b, const char *command, const char *options, const char *text)
{
    char *result = NULL;
    OK(hutch_box_exec(b, command, options, &result, err));
    int found = strstr(result, text) != NULL;
    if (!found)
        fprintf(stderr, "%s\n", result);
    hutch_free(result);
    return found;
}
