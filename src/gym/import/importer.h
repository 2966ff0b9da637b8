/* What the importers share. */
#pragma once

#include "import.h"
#include "task.h"
#include "task_build.h"

struct import {
    const struct import_options *o;
    struct task_set set;
};

/* One KIND of `--from KIND:WHERE`. A row or folder that is not usable is skipped with the reason
 * (import_skip); errors are only those that make the whole import fail. */
struct import_kind {
    const char *name;
    const char *form; /* for messages */
    int (*run)(struct import *im, const char *where, struct error *err);
};
extern const struct import_kind IMPORT_QUIXBUGS, IMPORT_SWEBENCH, IMPORT_HARBOR, IMPORT_TASKS;

/* The name that a task gets: what is no letter, digit, `_`, `.` or `-` becomes `_`, and what is too
 * long gets a digest for its end. */
void import_name(const char *from, char name[TASK_NAME_MAX]);

/* Is a task of that name asked for? */
bool import_wants(const struct import *im, const char *name);

void import_say(struct import *im, const char *fmt, ...) PRINTF(2, 3);
void import_skip(struct import *im, const char *name, const struct error *why);

/* Finishes the task and takes it over, or skips it; t is NULL afterwards. */
int import_add(struct import *im, struct task **t, struct error *err);

/* Sets a text of a task, by a format. */
int import_text(char **ret, struct error *err, const char *fmt, ...) PRINTF(3, 4);

/* The first line of a text, cut where a character ends, behind a prefix. */
int import_title(char **ret, const char *prefix, const char *text, struct error *err);

/* Files on the host that belong to hutch alone. */
int import_cache(char *path, size_t size,
                 struct error *err); /* $XDG_CACHE_HOME/hutch/gym, made if need be */
int import_write(int root, const char *path, mode_t mode, const void *bytes, size_t n);
void import_remove(const char *folder);

#define GIT_ID_SIZE 65

/* git, which reads objects and nothing else: a repository's settings have no effect. */
struct git_child {
    pid_t pid;
    FILE *out;
    int said; /* what it says on stderr */
};
int git_start(struct git_child *g, const char *const *args, const void *input, size_t n,
              struct error *err);
int git_end(struct git_child *g, const char *doing, struct error *err);

/* The folder with the objects of a checkout or a bare repository. */
int git_find(const char *folder, char *dir, size_t size);

/* The whole id of a commit by a shorter one, or of what is checked out (HEAD). */
int git_resolve(const char *git_dir, const char *name, char ret[GIT_ID_SIZE], struct error *err);

/* Writes all files of a commit beneath a new folder; -ECANCELED. */
int git_extract(const char *git_dir, const char *commit, const char *folder, int cancel,
                struct error *err);

/* The paths that a diff names, each once: of old and new files. -EINVAL if it is none, or names
 * files that are outside or quoted. */
int diff_paths(const char *diff, struct task_list *ret, struct error *err);

/* Copies a diff without its parts that only say that binary files differ; returns their number. */
size_t diff_drop_binary(const char *diff, struct buf *ret);

/* A unified diff of one file. */
int diff_make(const char *path, const void *a, size_t n_a, const void *b, size_t n_b,
              struct buf *ret);

/* Texts of foreign/, as they are put into boxes of tasks that come from others. */

/* Python, behind a conftest.py: calls what handles options, with the default of each. */
extern const char QUIXBUGS_CONFTEST_END[];

/* bash: functions in the place of programs that fetch packages. */
extern const char HARBOR_STAND_INS[];

/* bash: the programs uv and uvx. */
extern const char HARBOR_UV[];

/* Python: the plugin hutch_ctrf of pytest. */
extern const char HARBOR_CTRF[];

/* bash: the function that carries out a RUN line. */
extern const char HARBOR_SETUP[];

/*
 * Candidate patches for a program with a known wrong and right version: the one that repairs it,
 * and some that change a single other line (a reversed comparison, a bound moved by one) and leave
 * the bug. They are named and ordered by the line that they change, so that neither name nor order
 * shows which is right.
 */

#define VARIANTS_MAX 4 /* wrong ones */

int variants_add(struct task *t, const char *path, const struct buf *wrong, const struct buf *right,
                 struct error *err);

/* The wrong program with what makes it right, and without what else the two differ in: comments,
 * blank lines, the text behind the code. */
int bug_repair(const struct buf *wrong, const struct buf *right, struct buf *ret);

/* How often three quotes stand in a piece of text. */
size_t quotes_count(const char *at, size_t n);
