/*
 * What a Dockerfile puts into its working folder, as far as that can be told without building it:
 * COPY and ADD of local files, WORKDIR, ENV. Nothing is executed; a RUN that needs neither the
 * network nor a root user becomes a line of a script that is run in a box later. A line that would
 * change more is a trouble, told with its number; a line that only installs packages is noted,
 * since the host or an image may have them.
 *
 * The workspace stands for the folder at the top of the root filesystem that the working folder
 * lies in. For other such folders there are folders in it, and links at the top that lead there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "task.h"
#include "text.h"

#define DOCKER_TOPS      ".harbor-top"
#define DOCKER_TOPS_MAX  4 /* links that are left beside those that every task has */
#define DOCKER_ENV_MAX   64
#define DOCKER_SETUP_MAX (96u << 10)

struct dockerfile {
    char workdir[4096];        /* absolute; /app if none is named */
    struct task_tree files;    /* of the workspace */
    struct task_list tops;     /* names of other folders at the top, which are DOCKER_TOPS/NAME */
    struct task_list env;      /* KEY=VALUE */
    struct buf setup;          /* calls of the function `run` (foreign/setup.sh) */
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

/* The name at the top of an absolute path ("app"), and whether a box can have a link there. */
void docker_top(const char *path, char *ret, size_t size);
bool docker_top_free(const char *name);

/* Carries one out; *ret_why is why not, or untouched. */
int docker_copy(struct dockerfile *d, const struct task_tree *context, const struct docker_copy *c,
                const char **ret_why);

/* Words of the shell's or of JSON's form, in place; how many. */
#define DOCKER_WORDS_MAX 256
size_t docker_words(char *at, char *words[DOCKER_WORDS_MAX]);

/* An absolute path out of one that is relative to another, without . and .. and double slashes.
 * False: it is too long. */
bool docker_resolve(const char *base, const char *path, char *ret, size_t size);

/* What becomes of a RUN: from what does nothing here to what cannot be. */
enum docker_run {
    DOCKER_RUN_INSTALLS,
    DOCKER_RUN_MAY, /* is carried out, and may fail */
    DOCKER_RUN_MUST,
    DOCKER_RUN_ROOT,
    DOCKER_RUN_NETWORK,
};
enum docker_run docker_run_kind(const char *command);
void docker_run_add(struct dockerfile *d, unsigned line, const char *folder, const char *command,
                    bool must);

/* Takes the variables of an ENV; *ret_all is whether all of them could be. */
int docker_env(struct dockerfile *d, const char *args, bool *ret_all);

/* `context` is the folder with the Dockerfile, in memory; `workdir`, unless empty, is the working
 * folder in the end. An error is only a lack of memory, or too much of something. */
int dockerfile_read(const char *text, size_t n, const struct task_tree *context,
                    const char *workdir, struct dockerfile *ret, struct error *err);
void dockerfile_free(struct dockerfile *d);

/* The instructions of a Dockerfile, one after another, and the texts that stand behind some of
 * them. */

#define DOCKER_LINE_MAX 16384

struct docker_lines {
    const char *at, *end;
    unsigned line, next;        /* where the instruction began; the line after it */
    char text[DOCKER_LINE_MAX]; /* the instruction, its lines joined */
    bool cut;                   /* it is longer than that */
};

/* The next instruction, with the lines that continue it; comments in between are left out. False at
 * the end. */
bool docker_instruction(struct docker_lines *l);

/* The beginning of `<<WORD` in it, or NULL; and passing over the text that it announces. */
const char *docker_find_heredoc(const char *args);
void docker_skip_heredoc(struct docker_lines *l, const char *here);
