/* The chat line by line, where there is no screen. */
#pragma once

#include <stdbool.h>

#include "conversation.h"
#include "harmless.h"

/* Runs until the user leaves. 0 or a negative errno with the text set. */
int plain_chat(const struct tui_options *o, struct error *err);

/* Prints events as they come (plain_output.c). */
struct plain_output {
    bool terminal; /* stdout is one: untrusted text is made harmless */
    bool in_line;  /* the current line has text */
    bool is_shell; /* the running call is a shell command of the user: its output is shown */
    int failed;    /* errno why stdout cannot be written any more; 0: it can */
    struct harmless state;
    struct buf answer; /* text of the answer so far */
    size_t calls;      /* running */
};
void plain_output_init(struct plain_output *s);
void plain_output_free(struct plain_output *s);
void plain_output_event(struct plain_output *s, const struct agent_event *e, unsigned attempt);
void plain_output_line(struct plain_output *s, const char *text, size_t n); /* on its own line */
