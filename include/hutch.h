/*
 * libhutch: boxes, tools and training environments for programs.
 *
 * Every function that can fail returns 0 or a negative errno, and takes a `struct hutch_error *`
 * (or NULL) for one line that a person can read. Handles are opaque; a function that ends one takes
 * NULL. There is no global state: handles may be used from any thread, one call at a time per
 * handle unless said otherwise. A handle may be closed while another thread is in a call with it:
 * whatever that call runs is ended at once, the call returns (-ECANCELED; a command or a tool with
 * the result that SIGKILL gives), and then close does. Strings are UTF-8 unless they are called
 * bytes; what a function returns in a `char **` is freed with hutch_free(). JSON is exchanged as
 * text. What a function returns through a pointer is untouched if it fails.
 *
 *     cc program.c $(pkg-config --cflags --libs hutch)
 *
 * hutch's own parts (hutch-guest and others) are found beside the library, or in $HUTCH_LIBEXEC.
 *
 * The library prints nothing, changes no signal handler, no locale and no folder of the process,
 * and never ends it. Its threads handle none of the process's signals. Process 1 of a box is a
 * child of the process: a SIGCHLD comes when it ends, and a program that waits for any child is
 * told of it (which does no harm here). After a fork() the child's copies of all handles are
 * refused with ECHILD and end nothing when they are closed.
 */
#ifndef HUTCH_H
#define HUTCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HUTCH_API_VERSION 1

#if defined(__GNUC__) || defined(__clang__)
#define HUTCH_API __attribute__((visibility("default")))
#else
#define HUTCH_API
#endif

#define HUTCH_ERROR_MAX 1024
struct hutch_error {
    int code; /* positive errno, 0 while there is no error */
    char text[HUTCH_ERROR_MAX];
};

HUTCH_API const char *hutch_version(void); /* "0.1.0" */
HUTCH_API int hutch_api_version(void);     /* HUTCH_API_VERSION of the library that was loaded */
HUTCH_API void hutch_free(void *memory);

/* ---- Boxes
 * ------------------------------------------------------------------------------------------- */

typedef struct hutch_box hutch_box;
typedef struct hutch_snapshot hutch_snapshot;

/*
 * Opens a box. `options` is a JSON object with the names of `hutch run`'s options, or NULL for the
 * defaults:
 * {"workspace": "/path", "mode": "cow|direct|ro", "net": "off|host|allow:HOST[:PORT],…", "memory":
 * "512M", "pids": 256, "files": 1024, "disk": "1G", "cpus": 1.5, "timeout": "10m", "cpu_time":
 * "30s", "output": "1M", "output_total": "64G", "env": {"K": "V"}, "ro": ["DIR[:AT]"], "rw":
 * ["DIR[:AT]"], "image": "NAME"} A workspace of null is an empty folder. Times may be numbers of
 * seconds, sizes numbers of bytes.
 */
HUTCH_API int hutch_box_open(const char *options, hutch_box **ret, struct hutch_error *err);
HUTCH_API void hutch_box_close(hutch_box *b);

/* Runs one command to its end. `command` is a JSON array of words, or a JSON string for `sh -c`;
 * `options` is NULL or {"cwd", "env", "timeout", "cpu_time", "stdin"}. *ret_result is the result
 * object of `hutch run
 * --json` without `changes`. Several threads may run commands in one box at once. */
HUTCH_API int hutch_box_exec(hutch_box *b, const char *command, const char *options,
                             char **ret_result, struct hutch_error *err);

/* Calls a tool: {"data", "text", "failed", "image"}; input that its schema does not allow gives a
 * failed result, a name that no tool has -ENOENT. The list of them: [{"name", "title",
 * "description", "input_schema", "output_schema", "reads_only", "changes_files", "runs_code", …},
 * …]. Several threads may call at once. */
HUTCH_API int hutch_box_tool(hutch_box *b, const char *name, const char *input, char **ret_result,
                             struct hutch_error *err);
HUTCH_API int hutch_tools(char **ret_list, struct hutch_error *err);

/* From another thread, never a signal handler: ends the commands and tools that run in the box now,
 * as SIGKILL would; the box stays. */
HUTCH_API int hutch_box_interrupt(hutch_box *b, struct hutch_error *err);

/* [{"path", "kind"}, …]; a git diff as bytes; writing the changes back: {"applied": N,
 * "conflicts": [{"path", "why"}, …], "refused": [{"path", "why"}, …], "notes": [lines about
 * commits that were delivered, see docs/git.md]}. */
HUTCH_API int hutch_box_changes(hutch_box *b, char **ret_list, struct hutch_error *err);
HUTCH_API int hutch_box_diff(hutch_box *b, char **ret_diff, size_t *ret_size,
                             struct hutch_error *err);
HUTCH_API int hutch_box_apply(hutch_box *b, char **ret_report, struct hutch_error *err);

HUTCH_API int hutch_box_snapshot(hutch_box *b, hutch_snapshot **ret, struct hutch_error *err);
HUTCH_API int hutch_snapshot_fork(hutch_snapshot *s, hutch_box **ret, struct hutch_error *err);
HUTCH_API void hutch_snapshot_free(hutch_snapshot *s);
HUTCH_API int hutch_box_fork(hutch_box *b, hutch_box **ret,
                             struct hutch_error *err); /* snapshot and fork */

/* ---- Tasks and environments
 * --------------------------------------------------------------------------- */

typedef struct hutch_arena
    hutch_arena; /* a task made ready; shared by its environments; any thread */
typedef struct hutch_env hutch_env;
typedef struct hutch_vector hutch_vector;

/* The tasks that came with hutch: [{"name", "title", "language", …}, …]. `options`: NULL, or where
 * else they are: {"tasks": DIR}, or {"from": "quixbugs:DIR" (or "swebench:FILE", "harbor:DIR"),
 * "repos": DIR, "image": NAME}, as `hutch gym` has it; those that cannot be played here are left
 * out. */
HUTCH_API int hutch_tasks(const char *options, char **ret_list, struct hutch_error *err);

/* `options`: NULL, or the same, and {"clock": "wall|virtual", "cache": true, "pool": N,
 * "max_steps": N, "cancel": FD}. Opening runs the task's tests if it does not list them; as soon as
 * the descriptor `cancel` is readable it is given up with -ECANCELED. */
HUTCH_API int hutch_arena_open(const char *task, const char *options, hutch_arena **ret,
                               struct hutch_error *err);
HUTCH_API void hutch_arena_close(
    hutch_arena *a); /* lives on until its last environment is closed */

/* {"name", "title", "instruction", "actions": ["apply fix-sign", …], "calls": [{"tool", …}, …] (the
 * same as calls of tools), "features": [2, 2, 7, …] (the size of each feature's range),
 * "max_steps", "expected": N, "tools": [...], "digest", "call_price", "second_price", …} */
HUTCH_API int hutch_arena_info(hutch_arena *a, char **ret_info, struct hutch_error *err);

/* A step. The texts are JSON, live until the next call with the same handle, and are
 * NULL-terminated. */
struct hutch_step {
    uint32_t env;             /* of a vector: which environment */
    uint32_t number;          /* 0: reset */
    double reward, pass_rate; /* pass_rate is NaN while it is not known */
    double seconds;
    double episode_return; /* the sum so far */
    int32_t terminated, truncated;
    int32_t code;            /* of a vector: 0, or a negative errno: see text */
    int32_t reset;           /* of a vector: this begins an episode */
    const char *observation; /* {"text", "failed", "data"}; or, with a code, what went wrong */
    const char *info;
    const int64_t *features; /* the discrete view's observation */
    size_t n_features;
};

HUTCH_API int hutch_env_open(hutch_arena *a, hutch_env **ret, struct hutch_error *err);
HUTCH_API void hutch_env_close(hutch_env *e);
HUTCH_API int hutch_env_reset(hutch_env *e, uint64_t seed, struct hutch_step *ret,
                              struct hutch_error *err);
HUTCH_API int hutch_env_step(hutch_env *e, const char *tool, const char *input,
                             struct hutch_step *ret, struct hutch_error *err);
HUTCH_API int hutch_env_act(hutch_env *e, size_t action, struct hutch_step *ret,
                            struct hutch_error *err);
/* Both, if it is known already what comes of the action: they take no time to speak of. Else
 * -EAGAIN, and nothing has happened. For callers that may not be held up, and want to take another
 * way then. */
HUTCH_API int hutch_env_step_known(hutch_env *e, const char *tool, const char *input,
                                   struct hutch_step *ret, struct hutch_error *err);
HUTCH_API int hutch_env_act_known(hutch_env *e, size_t action, struct hutch_step *ret,
                                  struct hutch_error *err);
HUTCH_API int hutch_env_fork(hutch_env *e, hutch_env **ret, struct hutch_error *err);

/* From another thread, never a signal handler: ends the step that is under way at once, a run of
 * the tests too, with -ECANCELED. Its episode is over: the next call is a reset. */
HUTCH_API int hutch_env_interrupt(hutch_env *e, struct hutch_error *err);

/* ---- Many at once
 * ------------------------------------------------------------------------------------- */

/* threads 0: as many as processors. */
HUTCH_API int hutch_vector_open(hutch_arena *a, size_t n, size_t threads, int autoreset,
                                hutch_vector **ret, struct hutch_error *err);
HUTCH_API void hutch_vector_close(hutch_vector *v);

struct hutch_action {
    uint32_t env;
    int32_t reset; /* 1: begin an episode with `seed` */
    uint64_t seed;
    uint64_t action;   /* the discrete action, if tool is NULL */
    const char *tool;  /* copied */
    const char *input; /* JSON, copied */
};

/* Gives actions and returns at once; -EBUSY if one of the environments is still at work. */
HUTCH_API int hutch_vector_send(hutch_vector *v, const struct hutch_action *actions, size_t n,
                                struct hutch_error *err);

/* Waits for at least `min` steps and gives at most `max`, in the order in which they were done;
 * returns how many, or a negative errno. timeout_ms -1: waits for as long as it takes. The texts
 * live until the next recv. */
HUTCH_API long hutch_vector_recv(hutch_vector *v, size_t min, size_t max, int timeout_ms,
                                 struct hutch_step *ret, struct hutch_error *err);

/* From another thread, never a signal handler: ends all steps that are under way, at once, and
 * returns when they have ended. Each comes out of recv with the code -ECANCELED; its episode is
 * over. */
HUTCH_API int hutch_vector_interrupt(hutch_vector *v, struct hutch_error *err);

#ifdef __cplusplus
}
#endif
#endif
