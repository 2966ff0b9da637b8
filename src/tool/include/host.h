/*
 * What host-side tools (TOOL_HOST) may do for a session: which folder of the host it works on, who
 * confirms, and what the person decided in advance. A session without it (the gym, the C library)
 * does not offer these tools.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tool.h"

#define TOOL_HOST_CLONES_MAX 16
#define TOOL_HOST_NETS_MAX   32

/* Asks the person, showing them a text that is safe for a terminal. 1: yes; 0: no; -ENOTTY: nobody
 * can be asked; -ECANCELED. From the thread of the call; `cancel` as in tool_call. */
struct tool_confirm {
    int (*ask)(void *data, const char *title, const char *text, int cancel);
    void *data;
};

struct tool_host {
    /* the folder that the box shows; NULL: none; filled in by tool_session_set_host */
    const char *workspace;
    bool direct;     /* the box writes into it: the host must not believe its .git; likewise */
    bool trial;      /* one of several attempts side by side, of which most are dropped */
    bool allow_push; /* --allow-push: yes to every push and pull request */
    /* --allow-clone: hosts that may be cloned from unasked */
    const char *clones[TOOL_HOST_CLONES_MAX];
    size_t n_clones;
    /* --allow-net: HOST[:PORT] and @GROUPs that need no asking */
    const char *nets[TOOL_HOST_NETS_MAX];
    size_t n_nets;
    uint64_t clone_max; /* bytes of a clone; 0: HOST_CLONE_MAX */
    struct tool_confirm confirm;
};

#define HOST_CLONE_MAX (1ull << 30)

/* Copies it, and asks the box for its folder and mode. */
int tool_session_set_host(struct tool_session *s, const struct tool_host *host, struct error *err);
const struct tool_host *tool_session_host(const struct tool_session *s); /* NULL: none */

/*
 * Lets the person confirm what is shown. Yes is remembered in this session for exactly the same
 * text. 0, or a negative errno with the text set: -EPERM (they said no), -ENOTTY (nobody can be
 * asked; `option` says how to decide in advance).
 */
int host_confirm(struct tool_call *c, const char *title, const char *text, const char *option,
                 struct error *err);
