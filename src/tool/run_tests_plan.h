/* What the two files that make plans share. In templates: %D the run's folder, %N the number of the
 * report, %I the run's name. */
#pragma once

#include "run_tests.h"

/* Appends the template with those put in. */
void tests_plan_expand(const struct tests_plan *p, const char *form, size_t number,
                       struct buf *out);

/* A place of a report: a template, or a path as it is. One that is there already is not added
 * again. */
int tests_plan_add(struct tests_plan *p, const char *form, enum wire_report_format format,
                   enum tests_need need);
int tests_plan_add_path(struct tests_plan *p, const char *path, enum wire_report_format format,
                        enum tests_need need);
void tests_plan_forget_reports(struct tests_plan *p);

/* A variable of the command's environment; with keep_old, behind what it is already. */
void tests_plan_export(struct tests_plan *p, const char *name, const char *value, bool keep_old);

/* Reaches runners that the command starts somewhere beneath, and looks in the usual places. */
int tests_plan_hook(struct tests_plan *p, bool node);
