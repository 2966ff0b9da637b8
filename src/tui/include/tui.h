/*
 * The chat with an agent: on a screen (ncursesw), or line by line where there is none.
 *
 * On a screen the agent works in a thread of its own and its events come through a queue; one other
 * thread owns the screen and the keys. Untrusted text (files, output, the model's words) is cleaned
 * before it reaches the terminal (text/clean.h).
 */
#pragma once

#include "agent.h"

struct tui_options {
    const struct agent_options *agent;
    bool apply;          /* apply at the end of each turn without asking */
    bool no_apply;       /* never offer to */
    bool allow_git_dirs; /* also apply files that make a folder a git directory */
    bool plain;          /* line by line even on a terminal */
    const char *first;   /* message from the command line, or NULL */
    unsigned attempts;   /* at each message, side by side; 0 or 1: one */
    const char *test;    /* command that picks the best attempt */
};

/* Runs until the user leaves. Returns 0 or a negative errno with the text set. */
int tui_run(const struct tui_options *o, struct error *err);
