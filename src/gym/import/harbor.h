/* What the files of the importer for Harbor and Terminal-Bench share. */
#pragma once

#include <stddef.h>

#include "error.h"
#include "importer.h"

/* Where its parts are in a box. The links /tests, /solution and /logs lead there. */
#define HARBOR_FOLDER   ".harbor"
#define HARBOR_TESTS    HARBOR_FOLDER "/tests"
#define HARBOR_SOLUTION ".harbor-solution"
#define HARBOR_RUN      HARBOR_FOLDER "/run.sh"
#define HARBOR_LOGS     "/tmp/logs"

struct harbor {
    struct import *im;
    const char *folder;
    int dir;
    bool old;                /* Terminal-Bench */
    char workdir[4096];      /* in the box; empty as long as nobody has said */
    char docker_image[256];  /* what it is built from elsewhere; or empty */
    struct task_list env;    /* KEY=VALUE, of its boxes */
    struct task_list checks; /* of the script that runs the tests */
    struct task_list solves; /* of the solution's */
};

#define HARBOR_TEXT_MAX (1u << 20)

/* A file of its folder. */
bool harbor_has(const struct harbor *h, const char *name);
int harbor_read(struct harbor *h, const char *name, struct buf *b, struct error *err);

/* task.toml and instruction.md, or task.yaml: title, instruction, limits. */
int harbor_settings(struct harbor *h, struct task *t, struct error *err);

/* What its boxes are like: files, image, links, variables, set-up. Needs the settings. */
int harbor_environment(struct harbor *h, struct task *t, struct error *err);

/* The script that runs the tests and leaves the reward as a number, and what it needs. */
int harbor_add_runner(struct harbor *h, struct task *t, struct error *err);

/* The command line that carries out the solution. */
int harbor_solution_script(struct harbor *h, struct task *t, struct error *err);

/* The script that sets up its box, of the RUN lines of its Dockerfile. */
int harbor_setup_script(struct task *t, const struct buf *runs, struct error *err);

/* The texts of a YAML document's top level, by name; what lies deeper is passed over. libyaml reads
 * it. */

struct yaml_sink {
    void (*value)(void *data, const char *name, const char *value);
    void (*deeper)(void *data, const char *name,
                   const char *inner); /* a name beneath a name; or NULL */
    void *data;
};

int yaml_scan(const char *text, size_t n, const struct yaml_sink *sink, struct error *err);
