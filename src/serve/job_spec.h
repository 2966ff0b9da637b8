/*
 * Submissions of jobs: checked beyond what their schema says, and brought into the one form that is
 * stored and that workers read. Nothing is run and no file is opened.
 *
 * The stored form differs from what clients may write: `steps` is a list of {"tool", …} with tools
 * that exist, `shell` being `bash`; `goal` is an object with a `prompt`; the values of `box` are
 * strings, those of its `env` too; `title` is set. The tools `python` and `typescript` stay as they
 * are: {"tool": "python", "code": S}.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "error.h"

#define JOB_STEPS_MAX 1000

/* `submission` is the body of a request, or a list of steps. An admin may give a box the host's
 * network. -EINVAL with a text that begins with the path of the member. *ret_kind: "steps" or
 * "goal". */
int job_spec_check(const json_t *submission, bool admin, json_t **ret_spec, const char **ret_kind,
                   struct error *err);

/* The member `workspace` of a submission, also of sessions and boxes. */
int job_spec_check_workspace(const json_t *workspace, struct error *err);

/* The member `box` of a submission, also of sessions and boxes; `at` names it in errors. NULL or
 * JSON null: *ret is NULL. */
int job_spec_check_box(const json_t *box, bool admin, const char *at, json_t **ret,
                       struct error *err);

/* The name of a model, also of sessions. */
int job_spec_check_model(const char *model, const char *at, struct error *err);
