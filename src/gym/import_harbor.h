/* What the files of the importer for Harbor and Terminal-Bench share. */
#pragma once

#include "import_private.h"

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
    bool old;           /* Terminal-Bench */
    char workdir[4096]; /* in the box */
};

/* task.toml and instruction.md, or task.yaml: title, instruction, limits. */
int harbor_settings(struct harbor *h, struct task *t, struct error *err);

/* The script that runs the tests and leaves the reward as a number. */
int harbor_add_runner(struct harbor *h, struct task *t, struct error *err);
