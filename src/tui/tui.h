/*
 * The terminal: a chat with an agent on a screen (ncursesw), or line by line where there is none.
 *
 * The agent works in a thread of its own and its events come through a queue; this thread alone
 * owns the screen and the keys. What is shown of strangers (files, output, the model's words) goes
 * through one door that makes it harmless.
 */
#pragma once

#include "agent.h"

struct tui_options {
    const struct agent_options *agent;
    bool apply;          /* apply at the end of each turn without asking */
    bool no_apply;       /* never offer to */
    bool allow_git_dirs; /* also apply files that make a folder a git directory */
    bool plain;          /* line mode even on a terminal */
    const char *first;   /* what the person said on the command line already, or NULL */
    unsigned attempts;   /* at each thing said, side by side; 0 or 1: one */
    const char *test;    /* what tells how good an attempt is; with attempts */
};

/* Runs until the person leaves. Returns 0 or a negative errno with the text set. */
int tui_run(const struct tui_options *o, struct error *err);
