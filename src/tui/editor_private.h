/* What the files of the editor share. */
#pragma once

#include <stdint.h>

#include "editor.h"

/* What was done last, beside the edits of editor.h. */
#define EDIT_NOTHING ((enum edit)100)
#define EDIT_TYPING  ((enum edit)101)
#define EDIT_KILLING ((enum edit)102)

#define EDITOR_UNDO_STEPS 200
#define EDITOR_UNDO_MAX   (4u << 20) /* bytes of all steps together */

/* Characters that stand for pastes: the first of them, of the second private plane. */
#define EDITOR_PASTE_FIRST 0x10f000u
#define EDITOR_PASTE_BYTES "\xf4\x8f\x80" /* how the 64 of them begin in UTF-8 */

struct editor_state {
    char *text;
    size_t n, cursor;
};

struct editor_paste {
    char *text;
    size_t n, lines;
};

struct editor {
    struct buf text;
    size_t cursor;
    size_t column; /* that up and down keep to; SIZE_MAX: none */
    struct buf killed;
    enum edit last;
    struct editor_paste pastes[EDITOR_PASTES];
    size_t n_pastes, pasted; /* bytes of all of them */
    struct editor_state steps[EDITOR_UNDO_STEPS];
    size_t n_steps, at_step,
        steps_size; /* steps before at_step can be undone, those behind redone */
};

/* editor_replace for texts of our own, which may hold such characters. */
int editor_splice(struct editor *e, size_t from, size_t to, const char *text, size_t n);

/* Keeps the text as it is now, before it changes; not again while the same kind of change goes on.
 */
void editor_undo_note(struct editor *e, enum edit what);
bool editor_undo(struct editor *e);
bool editor_redo(struct editor *e);
void editor_undo_forget(struct editor *e);
