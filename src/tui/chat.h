/*
 * The chat on a screen: what happens. What is where and how it looks is view.h's.
 *
 * This thread owns the keys and the screen and never waits for anything else: the agent works in
 * another one (worker.h), and what it tells comes through a queue. Keys are handled at once; the
 * screen is drawn at most 30 times a second, and only when something changed.
 *
 * One job at a time is with the worker. What is said meanwhile waits, is shown as waiting, and is
 * given when its turn comes; who stops a turn gets back what waits, to think again.
 */
#pragma once

#include <stdbool.h>

#include "complete.h"
#include "desk.h"
#include "editor.h"
#include "keys.h"
#include "past.h"
#include "queue.h"
#include "view.h"
#include "worker.h"

#define CHAT_WAITING 32 /* messages that may wait */
#define CHAT_BUSY    64

struct chat {
    const struct tui_options *o;
    struct view *view;
    struct queue *queue;
    struct worker *worker;
    struct editor *editor;
    struct past *past;
    struct keys keys;

    bool leaving;
    bool changed;       /* something is to be drawn */
    bool hung_up;       /* the terminal is gone */
    int64_t quit_until; /* Ctrl-C quits if it comes again until then */
    bool prefix;        /* Ctrl-X was pressed */
    bool raw;           /* the terminal sends keys as they are */

    /* The worker. */
    enum job_kind job; /* that it is doing; JOB_NONE: it is idle */
    int64_t job_began;
    bool stopping;        /* it was told to end that */
    char busy[CHAT_BUSY]; /* what goes on */
    char *waiting[CHAT_WAITING];
    size_t n_waiting;
    struct error failure; /* why the agent could not be opened */
    int failed;

    /* What is known. */
    struct desk_state state;
    struct agent_changes changes; /* pending */
    bool talked;                  /* something was said in this session */
    struct attempts_shown {
        unsigned n;
        char doing[16][CHAT_BUSY / 2];
    } attempts;

    /* The input. */
    long past_at; /* which entry is shown; -1: what is being written */
    char *draft;  /* that, meanwhile */
    bool searching;
    struct buf query;
    long found;
    struct complete_from names;
    struct completion completion;
    bool completing; /* it is shown */
    int chosen;

    bool confirming; /* a host-side tool waits for y or n */
    bool review;     /* the panel is offered */
    int review_chosen;
};

/* chat_keys.c */
void chat_press(struct chat *c, const struct press *p);

/* chat_input.c: the text that is written. */
void chat_enter(struct chat *c);
void chat_say(struct chat *c, const char *said); /* as if it had been entered */
void chat_past(struct chat *c, bool older);
void chat_set_text(struct chat *c, const char *text);
void chat_edited(struct chat *c);   /* after each edit: completions follow */
void chat_external(struct chat *c); /* edit it in $EDITOR */

/* chat_find.c: completion, and the search in what was written before. */
void chat_complete_update(struct chat *c, bool asked);
bool chat_complete_accept(struct chat *c);
void chat_complete_close(struct chat *c);
void chat_complete_ask(struct chat *c); /* for names that are missing, if the worker is idle */
void chat_search_begin(struct chat *c);
bool chat_search_press(struct chat *c,
                       const struct press *p); /* false: the key is not for the search */

/* chat_work.c: jobs and what is told. */
void chat_begin(struct chat *c, struct job *job); /* gives it to the worker, which is idle */
void chat_next(struct chat *c);                   /* gives what waits */
void chat_stop(struct chat *c);
bool chat_is_busy(const struct chat *c); /* with something that a person should know of */
void chat_take(struct chat *c);          /* all that the queue holds */
void chat_note(struct chat *c, const char *fmt, ...) PRINTF(2, 3);

/* chat_show.c */
void chat_show(struct chat *c); /* tells the view about input and status */

/* chat_terminal.c */
void chat_raw(struct chat *c, bool on);
void chat_suspend(struct chat *c); /* Ctrl-Z */

/* review.c: the panel at the end of a turn with changes. */
#define REVIEW_CHOICES 4
extern const char *const REVIEW_NAMES[REVIEW_CHOICES];
bool review_is_open(const struct chat *c);
void review_details(const struct chat *c, char details[REVIEW_CHOICES][96], char *title,
                    size_t n_title);
int review_letter(const struct chat *c); /* which choice the input, one letter, means; -1: none */
bool review_enter(struct chat *c);       /* Enter was pressed: false if it is not for the panel */
void review_move(struct chat *c, int by);
