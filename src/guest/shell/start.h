/* Starting a shell: what it shares with the guest, and its process. */
#pragma once

#include "shell/shell.h"

struct error;

struct shell_start {
    struct session *session;
    struct shell_call
        *call;  /* taken, and handed over at once; NULL: it is to stand ready (only bash can) */
    bool fresh; /* without the session's state */
    bool background;
};

/* A command with a shell; its limits are the caller's to set, but for the number of files, which is
 * the session's. NULL with the text set if there is none. */
struct command *shell_start(struct guest *g, const struct shell_start *x, struct error *err);

/* Takes it out of those that stand ready. */
void shell_unready(struct command *c);

/* Hands c->shell->call to a shell that stands ready. */
int shell_hand_over(struct command *c);
