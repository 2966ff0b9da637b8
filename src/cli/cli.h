/*
 * What the commands share: the table of commands, output and signals (terminal.c), applying changes
 * (changes.c), sessions of tools (tool.c) and the question about trust (trust.c).
 *
 * A command is a file with a `const struct command_body` and a row of commands.def. Dispatch, help,
 * `hutch help --json` and the suggestions for mistyped names read the rows.
 *
 * Several programs are built from the table. `hutch` is static and starts fast; for a row that names
 * another program it executes that one, with the same argv. `hutch-agent` has what needs libcurl,
 * SQLite or ncurses, `hutch-server` what needs libwebsockets, `hutch-worker` the worker. The files of
 * the last two are compiled into hutch-agent, too, without their functions: it prints the help.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "error.h"
#include "options.h"
#include "git_box.h"

struct command;
struct run_options;
struct tool_confirm;
struct trust;

/* What a command's file defines. */
struct command_body {
    const char *usage;            /* what follows the name */
    struct option_set options[3]; /* ends with a NULL table */
    const char *notes;            /* more for --help, or NULL */
    /* argv holds what follows the name. Returns the exit status. */
    int (*run)(const struct command *self, int argc, char **argv);
};

/* A row of commands.def. */
struct command {
    const char *group, *name; /* "box", "new"; the group is "" at the top level */
    const char *summary;
    const char *program;             /* of libexec/hutch that implements it; NULL: hutch itself */
    const struct command_body *body; /* NULL: a group, or a command of another program */
};

#define GROUP(name, summary)
#define COMMAND(body, group, name, program, summary) extern const struct command_body body;
#include "commands.def"
#undef COMMAND
#undef GROUP

/* For commands whose only option is --json; the target is a bool. */
extern const struct option JSON_OPTION[];

/* Prints the help of a command on stdout; returns the exit status. */
int help_command(const struct command *c);

/*
 * Parses the options and words of a command, which may be mixed; prints --help; refuses less than
 * min or more than max words (-1: any number). Returns true if the command goes on, with its words
 * at the front of argv; else it exits with *ret_status.
 */
bool command_words(const struct command *self, int argc, char **argv, void *target, int min,
                   int max, int *ret_n_words, int *ret_status);

/*
 * Standard output. A failure to write is remembered, and main turns it into the exit status: so a
 * command prints with printf() or output_write() and need not look at the result.
 */

void output_begin(void); /* before anything is printed */

/* Writes to standard output, past stdio. Returns 0 or -errno, for a command that must stop. */
int output_write(const void *data, size_t n);

/* Prints a JSON value (dump flags as jansson's) and a newline in one write, and releases it. NULL
 * means that memory ran out, which counts as a failure to write. */
int output_json(json_t *value, size_t flags);

void output_flush(void);       /* before messages on stderr, or while a person watches */
void output_failed(int code);  /* a write to standard output that failed elsewhere */
bool output_is_lost(void);     /* did a write fail so far? */
int output_finish(int status); /* the exit status of a command that ended with `status` */

/* Exit statuses of hutch itself. */
#define EXIT_USAGE 2
#define EXIT_HUTCH 125

/* One line on stderr. Control characters (of a file's name, say) are made harmless, so that it
 * stays one line. */
void say(const char *fmt, ...) PRINTF(1, 2);
void say_lines(const char *text); /* each line of a text of hutch's own */

/* The same, returning the exit status that goes with it. */
int say_usage(const struct error *err);
int say_failure(const struct error *err);

/* A name that comes from a box or a command line, with control characters and what is not UTF-8
 * shown as \xNN; cut to fit. Returns `out`. */
const char *say_clean(const char *text, char *out, size_t size);

/* The escape sequence if fd is a terminal and NO_COLOR is not set, else "". */
const char *say_colour(int fd, const char *sequence);

unsigned columns_of(int fd); /* 0 if fd is no terminal */

/* Prints text on stdout that starts in column `at`, broken between words at the terminal's width
 * and indented as far. Where stdout is no terminal it is `otherwise` columns wide; 0: one line. */
void columns_put(const char *text, unsigned at, unsigned otherwise);

/*
 * Signals and the terminal while a command runs in a box. The first SIGINT, SIGTERM, SIGHUP or
 * SIGQUIT makes a descriptor readable, which ends the command in its box; hutch then exits with
 * 128+N. A second one finds the default action and ends hutch at once; the box dies with it.
 * Whatever happens, the terminal gets its settings back, in the handler if need be.
 */

/* Installs the handlers; returns the descriptor for box_command.cancel, or a negative errno. */
int interrupt_watch(struct error *err);
int interrupt_descriptor(void); /* the same descriptor again; -1 before interrupt_watch */
int interrupt_signal(void);     /* the signal that came, or 0 */

/* Has the handler call this, too; it may only do what is safe there. NULL: nothing. */
void interrupt_call(void (*call)(void *data), void *data);

/* Puts the terminal at fd, if it is one, into raw mode; and gives it its settings back. */
int interrupt_raw(int fd, struct error *err);
void interrupt_restore(void);

/* What a person sees of applying changes: a line per path that was left alone, and a summary. */
struct apply_tally {
    size_t done, same, merged, conflicts, refused, notes;
    /* "apply" or "sync" of this box, which can be given again with a choice; or NULL */
    const char *command;
    const char *id;
};
struct tool_apply_options apply_tally_options(struct apply_tally *t);
void apply_summary(const struct apply_tally *t);

/* Applies the files and commits of a box and says what became of them. `disk` may be 0
 * (tool_apply.h). Returns the exit status: 1 if something was left alone. */
int apply_box(struct box *box, const struct apply_options *files, uint64_t disk);

/* A session of tools as `hutch tool` and `hutch mcp` open it: on a fresh box, or on one that a
 * keeper holds. The options are resolved if a box is made. `confirm` NULL: nobody can be asked. */
struct tool_open {
    struct box *box;
    struct tool_session *session;
};
int tool_open(struct run_options *o, const struct tool_confirm *confirm, struct tool_open *ret,
              struct error *err);
void tool_close(struct tool_open *t);
#define _cleanup_tool_open_ _cleanup_(tool_close)

/* Asks on the terminal about a folder whose files would set `items` (trust_items()), and stores the
 * answer. Returns 0 or a negative errno. */
int trust_ask(const struct trust *t, const json_t *items, struct error *err);
