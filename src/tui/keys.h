/*
 * Keys: what a terminal sends, as presses.
 *
 * A terminal sends bytes: characters, control characters, and sequences for everything else, of
 * which there are several dialects (xterm, the Linux console, rxvt; and for keys with modifiers
 * xterm's modifyOtherKeys and kitty's protocol). All are understood here at once, whatever TERM
 * says, since what is in front of the person is often not what TERM says (ssh, tmux). What is not
 * understood is dropped as a whole and never typed.
 *
 * A paste comes as one press, in brackets that the terminal puts around it. Nothing in it is a key.
 *
 * The decoder is pure: bytes are fed, presses come out. An Esc is a key of its own only if nothing
 * follows it; the caller waits KEYS_ESCAPE_MS while keys_waits() and then asks once more with
 * `late`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "buf.h"

#define KEYS_ESCAPE_MS 25
#define KEYS_PASTE_MAX (16u << 20) /* bytes of one paste; what comes behind is dropped */

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
    KEYS_OTHER, /* understood, and nothing for us: a function key, a focus event */
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
    struct buf in; /* not understood yet */
    struct buf
        paste;      /* clean: valid UTF-8, line ends are \n, no other control character but tabs */
    struct buf raw; /* of a paste under way */
    bool pasting;
    bool cut; /* the last paste was longer than may be */
};

void keys_init(struct keys *k);
void keys_free(struct keys *k);

/* 0 or -ENOMEM. */
int keys_feed(struct keys *k, const void *bytes, size_t n);

/* The next press; false: there is none yet. `late`: what waits for more bytes has waited long
 * enough. */
bool keys_next(struct keys *k, bool late, struct press *ret);

/* An Esc waits for what may follow. */
bool keys_waits(const struct keys *k);

/* What makes a terminal send pastes in brackets and keys with their modifiers, and what ends that.
 */
extern const char KEYS_ON[], KEYS_OFF[];
