/* What `ask` and `chat` have in common before an agent is opened: which options go together, the
 * settings, the folder that is worked on. */
#pragma once

#include "agent.h"
#include "run_options.h"

#define AGENT_ATTEMPTS_MAX 16

/* Do the options go together? -EINVAL with a text: wrong usage. */
int agent_setup_check(const struct run_options *o, struct error *err);

/* Reads the settings and resolves the options. The folder is that of the command line, or SAFEDIR,
 * or the current one. Notes about the settings are said. */
int agent_setup(struct run_options *o, struct settings **ret, struct error *err);

/* Asks the person at the terminal, if there is one, about each folder that would set something and
 * that they have not decided about. Before agent_setup(). */
int agent_setup_ask_trust(const struct run_options *o, struct error *err);

struct agent_options agent_setup_options(const struct run_options *o, struct settings *settings);
