/* What the files about own tools share. */
#pragma once

#include <pthread.h>
#include <sys/stat.h>

#include "buf.h"
#include "own_tools.h"

#define OWN_MANIFEST_MAX (512u << 10)
#define OWN_PROGRAM_MAX  (16u << 20)
#define OWN_NAME_MAX     64
#define OWN_LISTED_MAX   256  /* manifests of one folder */
#define OWN_KEPT_MAX     1024 /* tools that a session keeps, with earlier states of changed ones */
#define OWN_FOLDER       ".hutch/tools"
#define OWN_COPIES       "/tmp/.hutch/tools"

struct own_tool {
    struct tool tool; /* the first member: what the doors are given */
    bool persons;     /* not the workspace's */
    struct buf text;  /* the manifest, by which a change is noticed */
    char *name, *title, *summary, *input, *output;
    char *command;  /* beside the manifest */
    char *program;  /* absolute, in the box */
    char *original; /* of the person's: on the host */
    int64_t timeout_ns;
    pthread_mutex_t lock; /* guards what follows */
    struct stat copied;   /* the original when it was copied; st_ino is 0 before */
    struct own_tool *next;
};

/* Is this the name that a tool may have? */
bool own_name_valid(const char *name);

/* A tool from its manifest, which is called `name`.json; takes the text over. The paths are left
 * empty. */
int own_manifest_parse(const char *name, struct buf *text, struct own_tool **ret,
                       struct error *err);
struct own_tool *own_tool_free(struct own_tool *t);

/* The tool's function. */
int own_run(struct tool_call *c, struct error *err);
