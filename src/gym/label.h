/* An action as people call it: "apply fix-sign", "run tests", "read src/a.py", "bash make",
 * "submit". Pure.
 */
#pragma once

#include "task.h"

/* One line, valid UTF-8 without control characters, cut to fit. */
void action_label(const struct task *t, const json_t *action, char *text, size_t size);
