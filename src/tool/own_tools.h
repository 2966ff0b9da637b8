/*
 * Tools of the person's own: an executable with a manifest, no C.
 *
 *     .hutch/tools/NAME.json   {"name": NAME, "description": …, "input_schema": {…}, "timeout": 60}
 *     .hutch/tools/NAME        gets the input as JSON on stdin, prints text or a JSON object
 *
 * in the workspace, or in ~/.config/hutch/tools. Both kinds run inside the box: the person's
 * executables are copied there when they are first used. The workspace's manifests are untrusted;
 * the guest reads them, and they can neither replace a tool of the table nor one of the person's.
 */
#pragma once

#include <pthread.h>
#include <sys/stat.h>

#include "session.h"

#define OWN_NAME_MAX    64
#define OWN_PROGRAM_MAX (16u << 20)

struct own_tool {
    struct tool tool; /* the first member: what frontends get */
    bool persons;     /* not the workspace's */
    struct buf text;  /* the manifest, to notice a change */
    char *name, *title, *summary, *input, *output;
    char *command;  /* beside the manifest */
    char *program;  /* absolute, in the box */
    char *original; /* of the person's: on the host */
    int64_t timeout_ns;
    pthread_mutex_t lock; /* guards what follows */
    struct stat copied;   /* the original when it was copied; st_ino is 0 before */
    struct own_tool *next;
};

/* Gives the session these tools. They are looked for when they are asked for: a tool that is
 * written during the session is there at once. */
int own_tools_add(struct tool_session *s, struct error *err);

bool own_name_valid(const char *name);

/* The function of all of them (own_run.c). */
int own_run(struct tool_call *c, struct error *err);
