/* The instructions of a Dockerfile, one after another, and the texts that stand behind some of
 * them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define DOCKER_LINE_MAX 16384

struct docker_lines {
    const char *at, *end;
    unsigned line, next;        /* where the instruction began; the line after it */
    char text[DOCKER_LINE_MAX]; /* the instruction, its lines joined */
    bool cut;                   /* it is longer than that */
};

/* The next instruction, with the lines that continue it; comments in between are left out. False at
 * the end.
 */
bool docker_instruction(struct docker_lines *l);

/* The beginning of `<<WORD` in it, or NULL; and passing over the text that it announces. */
const char *docker_find_heredoc(const char *args);
void docker_skip_heredoc(struct docker_lines *l, const char *here);
