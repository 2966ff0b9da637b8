/* Undo: the texts of before, whole. They are short; what was pasted is not in them. */
#include <string.h>

#include "editor_private.h"
#include "banned.h"

static void drop(struct editor *e, size_t i)
{
    e->steps_size -= e->steps[i].n;
    free(e->steps[i].text);
    memmove(e->steps + i, e->steps + i + 1, (e->n_steps - i - 1) * sizeof *e->steps);
    e->n_steps--;
}

void editor_undo_forget(struct editor *e)
{
    while (e->n_steps)
        drop(e, e->n_steps - 1);
    e->at_step = 0;
}

static bool push(struct editor *e)
{
    while (e->n_steps &&
           (e->n_steps == EDITOR_UNDO_STEPS || e->steps_size + e->text.len > EDITOR_UNDO_MAX)) {
        drop(e, 0);
        e->at_step -= e->at_step > 0;
    }
    char *copy = strndup((const char *)e->text.data, e->text.len);
    if (!copy)
        return false;
    e->steps[e->n_steps++] = (struct editor_state){copy, e->text.len, e->cursor};
    e->steps_size += e->text.len;
    return true;
}

void editor_undo_note(struct editor *e, enum edit what)
{
    bool goes_on =
        what == EDIT_TYPING && e->last == EDIT_TYPING && e->at_step == e->n_steps && e->n_steps;
    e->last = what;
    if (goes_on)
        return;
    while (e->n_steps > e->at_step)
        drop(e, e->n_steps - 1);
    if (push(e))
        e->at_step = e->n_steps;
}

static void restore(struct editor *e, const struct editor_state *s)
{
    e->text.len = 0;
    if (buf_append(&e->text, s->text, s->n) < 0 || !buf_cstr(&e->text))
        return;
    e->cursor = s->cursor;
    e->column = SIZE_MAX;
    e->last = EDIT_NOTHING;
}

/* The newest text becomes a step, too, when one first goes back from it. */
bool editor_undo(struct editor *e)
{
    if (e->at_step == 0)
        return false;
    if (e->at_step == e->n_steps && !push(e))
        return false;
    if (e->at_step == 0) /* it had to make room */
        return false;
    restore(e, &e->steps[--e->at_step]);
    return true;
}

bool editor_redo(struct editor *e)
{
    if (e->at_step + 1 >= e->n_steps)
        return false;
    restore(e, &e->steps[++e->at_step]);
    return true;
}
