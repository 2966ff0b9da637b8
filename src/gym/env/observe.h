/*
 * Observations: what an agent sees of a step, {"text", "failed", "data"}. Pure.
 *
 * The same state and the same action give the same bytes. So whatever a tool tells beside that is
 * left out here, for all tools in one place: how long something took, addresses in memory. (Names
 * that tools make up are made of the session's serial number, see tool_session_serial.) What a
 * command of the agent's prints is its own: it is not touched.
 *
 * Text and data are bounded. All functions return a new reference, or NULL without memory.
 */
#pragma once

#include "grade.h"
#include "tool_result.h"

#define OBSERVE_TEXT_MAX  (64u << 10)
#define OBSERVE_DATA_MAX  (256u << 10) /* bytes of its JSON */
#define OBSERVE_TESTS_MAX 1000u
#define OBSERVE_IMAGE_MAX (1u << 20) /* a larger picture is only told of */

json_t *observe_reset(const struct task *t);
json_t *observe_text(const char *text, bool failed);
json_t *observe_tool(const char *tool, const struct tool_result *r);

/* A run of the tests as they are, in the form of the tool run_tests. */
json_t *observe_look(const struct task *t, const struct grade *g);

/* What the last step's info says of a grading: {"tests": […], "hidden": {…}, "discarded": […],
 * "trouble"}. Of hidden tests nothing but how many passed. And the grading as an observation. */
json_t *observe_verdict(const struct task *t, const struct grade *g);
json_t *observe_grade(const struct task *t, const struct grade *g, json_t *verdict);

/* Replaces what differs from run to run in what a test runner prints: times and addresses. */
int observe_scrub(const char *text, size_t n, struct buf *out);
