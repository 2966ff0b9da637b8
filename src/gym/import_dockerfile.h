/*
 * What a Dockerfile puts into its working folder, as far as that can be told without building it: COPY and
 * ADD of local files, WORKDIR. Nothing is executed. A line that would change more is a trouble, told with its
 * number; a line that only installs packages is noted, since the host or an image may have them.
 */
#pragma once

#include "task.h"

struct dockerfile {
    char workdir[4096];        /* absolute; /app if none is named */
    struct task_tree files;    /* beneath it */
    struct task_list notes;    /* what was left out and may not matter */
    struct task_list troubles; /* what was left out and matters */
    uint64_t bytes;            /* copied so far */
};

/* A COPY: its target is absolute. */
struct docker_copy {
    unsigned line;
    char *source;
    char *target;
    bool into; /* the target is a folder */
};

/* Carries one out, within the working folder; *ret_why is why not, or untouched. */
int docker_copy(struct dockerfile *d, const struct task_tree *context, const struct docker_copy *c,
                const char **ret_why);

/* Words of the shell's or of JSON's form, in place; how many. */
#define DOCKER_WORDS_MAX 256
size_t docker_words(char *at, char *words[DOCKER_WORDS_MAX]);

/* An absolute path out of one that is relative to another, without . and .. and double slashes. False: it is
 * too long. */
bool docker_resolve(const char *base, const char *path, char *ret, size_t size);

/* `context` is the folder with the Dockerfile, in memory. An error is only a lack of memory. */
int dockerfile_read(const char *text, size_t n, const struct task_tree *context, struct dockerfile *ret,
                    struct error *err);
void dockerfile_free(struct dockerfile *d);
