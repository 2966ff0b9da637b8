/* The input line: key presses (keys.c), the text that is edited (editor.c), and what was entered
 * before (input_history.c). All of it is pure or works on one file; none knows of screens. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

/*
 * Key presses from the bytes that a terminal sends.
 *
 * A terminal sends characters, control characters, and sequences for everything else, in several
 * dialects (xterm, the Linux console, rxvt; for keys with modifiers xterm's modifyOtherKeys and
 * kitty's protocol). All of them are decoded, whatever TERM says, since it is often wrong about the
 * terminal in front of the user (ssh, tmux). An unknown sequence is dropped as a whole. ncurses
 * knows only the dialect of TERM, and neither pastes nor kitty's protocol: hence this decoder.
 *
 * A bracketed paste is one press. Nothing in it is a key.
 *
 * The decoder is pure: bytes go in, presses come out. An Esc is a key of its own only if nothing
 * follows it: while keys_waits(), the caller waits KEYS_ESCAPE_MS and then asks again with `late`.
 */

#define KEYS_ESCAPE_MS 25
#define KEYS_PASTE_MAX (16u << 20) /* bytes of one paste; the rest is dropped */

enum keys_code {
    KEYS_NONE,
    KEYS_TEXT,  /* text: one character; with ALT, or with CTRL a small letter */
    KEYS_PASTE, /* the decoder's `paste`, until the next call */
    KEYS_ENTER,
    KEYS_TAB,
    KEYS_BACKSPACE,
    KEYS_ESCAPE,
    KEYS_UP,
    KEYS_DOWN,
    KEYS_LEFT,
    KEYS_RIGHT,
    KEYS_HOME,
    KEYS_END,
    KEYS_PAGE_UP,
    KEYS_PAGE_DOWN,
    KEYS_INSERT,
    KEYS_DELETE,
    KEYS_WHEEL_UP,
    KEYS_WHEEL_DOWN,
    KEYS_OTHER, /* known, but without use here: a function key, a focus event */
};

#define KEYS_SHIFT 1u
#define KEYS_ALT   2u
#define KEYS_CTRL  4u

struct press {
    enum keys_code code;
    unsigned with; /* KEYS_SHIFT, … */
    char text[5];  /* UTF-8 */
};

struct keys {
    struct buf in;    /* not decoded yet */
    struct buf paste; /* valid UTF-8 with newlines and tabs, no other control characters */
    struct buf raw;   /* of an incomplete paste */
    bool pasting;
    bool cut; /* the last paste was longer than KEYS_PASTE_MAX */
};

void keys_init(struct keys *k);
void keys_free(struct keys *k);

/* 0 or -ENOMEM. */
int keys_feed(struct keys *k, const void *bytes, size_t n);

/* The next press; false: there is none yet. `late`: do not wait for more bytes. */
bool keys_next(struct keys *k, bool late, struct press *ret);

/* An Esc or an incomplete sequence waits for more bytes. */
bool keys_waits(const struct keys *k);

/* Switch bracketed paste and keys with modifiers on and off. */
extern const char KEYS_ON[], KEYS_OFF[];

/*
 * The line editor: text of any number of lines with a cursor. Pure: it knows neither keys nor
 * screens.
 *
 * A long paste is kept apart, and one character of the text stands for it (in a private plane of
 * Unicode, which cannot be typed): moves and deletions treat it as one thing, it is shown as
 * `[pasted 10,000 lines]`, and it is complete again in what is sent.
 */

#define EDITOR_MAX        (32u << 20) /* bytes of a text with all that was pasted */
#define EDITOR_TYPED_MAX  (1u << 20)  /* bytes of the text itself */
#define EDITOR_FOLD_LINES 8           /* a paste of more lines or bytes is kept apart */
#define EDITOR_FOLD_BYTES 2000
#define EDITOR_PASTES     64 /* kept apart; further ones are inserted as they are */

enum edit {
    EDIT_LEFT,
    EDIT_RIGHT,
    EDIT_UP,
    EDIT_DOWN,
    EDIT_LINE_BEGIN,
    EDIT_LINE_END,
    EDIT_WORD_LEFT,
    EDIT_WORD_RIGHT,
    EDIT_BEGIN, /* of the whole text */
    EDIT_END,
    EDIT_DELETE_BEFORE,
    EDIT_DELETE,
    /* EDIT_YANK inserts what these removed; several in a row are joined. */
    EDIT_KILL_LINE_END,
    EDIT_KILL_LINE_BEGIN,
    EDIT_KILL_BLANK_BEFORE, /* back to the last blank */
    EDIT_KILL_WORD_BEFORE,
    EDIT_KILL_WORD,
    EDIT_YANK,
    EDIT_SWAP, /* the characters around the cursor */
    EDIT_UNDO,
    EDIT_REDO,
};

struct editor;

int editor_new(struct editor **ret);
void editor_free(struct editor *e);

/* False: there was nothing to do. */
bool editor_do(struct editor *e, enum edit what);

/* At the cursor; valid UTF-8. Returns 0, -ENOBUFS if the text would be too long, or -ENOMEM. */
int editor_insert(struct editor *e, const char *text, size_t n);
int editor_paste(struct editor *e, const char *text, size_t n);

/* Replaces bytes of the text: a completion. */
int editor_replace(struct editor *e, size_t from, size_t to, const char *text, size_t n);

/* Another text, with the cursor at its end; can be undone. */
int editor_set(struct editor *e, const char *text);

/* The text as it is edited, with a NUL after it; pastes are one character each. */
const char *editor_text(const struct editor *e, size_t *ret_n, size_t *ret_cursor);
bool editor_is_empty(const struct editor *e);

/* Appends the text with all pastes: in full, as it is sent, or each as a label, as it is shown; and
 * where the cursor is then (or NULL). 0 or -ENOMEM. */
int editor_copy(const struct editor *e, bool full, struct buf *out, size_t *ret_cursor);

/* Empties the text and its undo steps; keeps what was killed. */
void editor_reset(struct editor *e);

/*
 * What the user entered before, found again with Up and Ctrl-R: `input_history` in the data folder,
 * one JSON string per line, oldest first, mode 0600.
 *
 * Several programs may use it at once: a line is appended, and the file shortened, with the file
 * locked. It is read when it is first needed, so that a start costs nothing. Of equal entries the
 * last one is kept.
 */

#define INPUT_HISTORY_ENTRIES   10000
#define INPUT_HISTORY_ENTRY_MAX (32u << 10) /* bytes; longer ones are not kept */

struct input_history;

/* `folder` is the data folder; NULL: the default one. Opens nothing yet. */
int input_history_new(const char *folder, struct input_history **ret);
void input_history_free(struct input_history *h);

/* Adds it, here and in the file. If the file cannot be written, it is kept for this run only. */
void input_history_add(struct input_history *h, const char *text);

/* The i'th entry, newest first, or NULL. Borrowed until the next addition. */
const char *input_history_get(struct input_history *h, size_t i);

/* The newest entry from the i'th on that contains the text, ignoring case if the text has no
 * capitals; -1: none. */
long input_history_search(struct input_history *h, const char *text, size_t from);
