/* What the files task*.c and import*.c share. */
#pragma once

#include <stdio.h>

#include "task.h"
#include "text.h"

#define TASK_JSON_MAX   (4u << 20)   /* bytes of task.json */
#define TASK_DIFFS_MAX  (16u << 20)  /* bytes of patches.json */
#define TASK_VALUES_MAX 400000u      /* values in either */
#define TASK_TEXT_MAX   (256u << 10) /* bytes of a title, an instruction, a command */
#define TASK_DEPTH_MAX  64           /* folders within folders */

/* One regular file beneath a folder, bounded by the buffer's maximum; never through a link as its
 * last part. -ENOENT (with words) if there is none, -ELOOP for a link, -EFBIG if it is larger.
 * `shown` names it. */
int task_read_file(int dir, const char *name, const char *shown, struct buf *b, struct error *err);

/* A folder of files, if there is one by that name: put beneath `at` of the tree, or at its top. */
int task_read_part(struct task_tree *tree, const char *folder, const char *part, const char *at,
                   struct error *err);

/* task.json and patches.json as bytes: what is in them goes to the task. Errors name the member
 * only; the caller puts the file's name in front. */
int task_parse(struct task *t, const char *text, size_t n, struct error *err);
int task_parse_patches(struct task *t, const char *text, size_t n, struct error *err);

/* JSON of a stranger, bounded. */
int task_json(const char *text, size_t n, json_t **ret, struct error *err);

/* The numbers that a task has before anybody says otherwise. */
void task_defaults(struct task *t);

/* Makes a new, empty task with the defaults. */
struct task *task_new(void);

/* Hex SHA-256 over everything that an episode can depend on. */
void task_digest(const struct task *t, char ret[65]);

/* Is the path `path` itself, or beneath it? "." holds everything. */
bool task_path_covers(const char *path, const char *file);
void task_list_sort(struct task_list *l);
bool task_list_has(const struct task_list *l, const char *text);
bool task_list_covers(const struct task_list *l, const char *file);

/* "." or a clean relative path. */
bool task_path_ok(const char *path);

/* Does a link at `path` with this target stay in the workspace? By its words alone. */
bool task_link_stays(const char *path, const char *target);

int task_tree_find(const struct task_tree *tree, const char *path,
                   size_t *ret_at); /* 1, or 0: where it would be */
void task_tree_free(struct task_tree *tree);

/* All strings are copied. */
int task_patch_add(struct task *t, const char *name, const char *diff);
int task_link_add(struct task *t, const char *at, const char *to);

/* "no memory", which is said in many places. */
int task_no_memory(struct error *err);
