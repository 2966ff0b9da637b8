/*
 * A shell command line as simple commands and their words, as far as it takes to find a program in
 * it and to put options behind it. Nothing is expanded; what a word holds besides plain text and
 * quotes makes it `odd`, which matches nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define SHELL_WORDS_MAX    512u
#define SHELL_COMMANDS_MAX 64u

struct shell_word {
    size_t begin, end; /* where in the text */
    char *text;        /* without its quotes */
    bool odd;
};

/* One simple command: words[first] … words[first + count - 1]. */
struct shell_command {
    size_t first, count;
    size_t end; /* where in the text its last word or redirection ends */
    bool piped; /* its output goes into another command */
};

struct shell_line {
    struct shell_word words[SHELL_WORDS_MAX];
    struct shell_command commands[SHELL_COMMANDS_MAX];
    size_t n_words, n_commands;
};

/* 0, -E2BIG if it has more words or commands than that, -EINVAL if a quote is open, -ENOMEM. */
int shell_line_parse(const char *text, struct shell_line **ret);
struct shell_line *shell_line_free(struct shell_line *l);

static inline void cleanup_shell_line(struct shell_line **l)
{
    shell_line_free(*l);
}
#define _cleanup_shell_line_ _cleanup_(cleanup_shell_line)

/* Appends s in single quotes, so that a shell reads it as one word. */
struct buf;
void shell_quote(struct buf *b, const char *s);
