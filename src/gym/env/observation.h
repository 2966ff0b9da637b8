/*
 * Observations: what an agent sees of a step, {"text", "failed", "data"}. Pure.
 *
 * The same state and the same action give the same bytes. What differs from run to run in the words
 * of hutch's own tools (durations, addresses) is removed here, for all tools in one place. (Names
 * that tools generate come from the session's serial number, see tool_session_serial.) The output
 * of the agent's own commands stays as it is.
 *
 * Text and data are bounded. All functions return a new reference, or NULL without memory.
 */
#pragma once

#include "grade.h"
#include "tool.h"

#define OBSERVE_TEXT_MAX  (64u << 10)
#define OBSERVE_DATA_MAX  (256u << 10) /* bytes of its JSON */
#define OBSERVE_TESTS_MAX 1000u
#define OBSERVE_IMAGE_MAX (1u << 20) /* larger images are left out */

json_t *observe_reset(const struct task *t);
json_t *observe_text(const char *text, bool failed);
json_t *observe_tool(const char *tool, const struct tool_result *r);

/* A run of the tests as they are, in the form of the tool run_tests. */
json_t *observe_test_run(const struct task *t, const struct grade *g);

/* What the last step's info says of a grading: {"tests": […], "hidden": {…}, "discarded": […],
 * "trouble"}; of hidden tests only counts. And the grading as an observation. */
json_t *observe_verdict(const struct task *t, const struct grade *g);
json_t *observe_grade(const struct task *t, const struct grade *g, json_t *verdict);

/* Replaces what differs from run to run in a test runner's output: times and addresses. */
int observe_scrub(const char *text, size_t n, struct buf *out);
