/* What the files of the environment share. */
#pragma once

#include "arena_private.h"
#include "env.h"
#include "session.h"
#include "state.h"

/* An action that may have changed something, to be done again in another box. */
struct env_action {
    char *tool;
    json_t *input;
};

/* A box with its tools, and how many of the episode's actions were done in it. */
struct env_box {
    struct box *box;
    struct tool_session *session;
    size_t done;
};

struct gym_env {
    struct gym_arena *arena;
    uint64_t seed;
    bool begun, over;
    unsigned calls;
    int64_t ns; /* of all steps, as the clock counted them */
    double pass_rate;

    char state[STATE_NAME_SIZE];
    bool live; /* something runs on in the box: the state has no name any more */
    struct env_action *actions;
    size_t n_actions, room_actions;
    bool ran; /* one of them ran code in the box */
    struct env_box at;
    struct snapshot
        *frozen; /* of the box after `frozen_at` actions, for runs of the tests; NULL: none */
    size_t frozen_at;

    bool *patched, *was_read; /* of each patch, each file of `reads` */
    size_t tests;             /* the feature */
    int cancel;               /* see env_cancel_on */
    bool known_only;          /* during env_step_known */
};

/* What came of an action, found out now or known from before. */
struct env_result {
    json_t *observation;
    int64_t ns; /* that it really took */
    bool changed, lingers;
    bool tested; /* it was a run of the tests: */
    size_t passed;
    double pass_rate;
    bool doubtful;     /* the run did not take place: another time it may */
    json_t *verdict;   /* of a grading: {"tests", "discarded", "trouble"} */
    char reason[1024]; /* why the episode cannot go on; or empty */
};
void env_result_free(struct env_result *o);
#define _cleanup_env_result_ _cleanup_(env_result_free)

/* Carries an action out. 0, whatever came of it; or -ENOMEM. */
int env_carry_out(struct gym_env *e, const char *tool, json_t *input, struct env_result *ret);

/* The same, if it is not known yet what will come of it; -EAGAIN if only what is known is asked
 * for. */
int env_find_out(struct gym_env *e, const char *tool, json_t *input, struct env_result *ret);

/* The box, with all actions so far done in it. */
int env_box_ready(struct gym_env *e, struct error *err);

/* A box in the same state with none of the agent's processes, for one run of the tests; to be given
 * back to the arena. The environment's own box may be gone afterwards. */
int env_box_spare(struct gym_env *e, struct box **ret, struct error *err);

void env_box_drop(struct gym_env *e);

/* Takes over the actions of another environment; and adds one. */
int env_actions_copy(struct gym_env *e, const struct gym_env *from);
int env_actions_add(struct gym_env *e, const char *tool, json_t *input);
void env_actions_free(struct gym_env *e);

/* What the discrete view sees of an action. */
void env_features_note(struct gym_env *e, const char *tool, const json_t *input,
                       const struct env_result *o);

const struct tool *env_tool(const char *name);

/* run_tests as the task means it: without any input. */
bool env_is_look(const char *tool, const json_t *input);
