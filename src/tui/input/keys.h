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
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "text.h"

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
