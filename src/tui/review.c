/*
 * The review: at the end of a turn with changes a panel offers to apply them, to show the diff, to
 * keep working or to undo the turn. It is in nobody's way: who types on, works on. A letter and
 * Enter choose, as in line mode; so do Tab and Enter on an empty input. A letter alone never does:
 * it may begin a sentence.
 */
#include <string.h>

#include "chat.h"
#include "banned.h"

const char *const REVIEW_NAMES[REVIEW_CHOICES] = {"[a] apply", "[d] diff", "[k] keep working",
                                                  "[u] undo"};
static const char LETTERS[REVIEW_CHOICES + 1] = "adku";

bool review_is_open(const struct chat *c)
{
    return c->review && agent_changes_any(&c->changes) && !c->o->no_apply && c->job == JOB_NONE &&
           !c->searching && !c->completing && (editor_is_empty(c->editor) || review_letter(c) >= 0);
}

int review_letter(const struct chat *c)
{
    size_t n;
    const char *text = editor_text(c->editor, &n, NULL);
    const char *letter = n == 1 ? strchr(LETTERS, text[0]) : NULL;
    return letter && *letter ? (int)(letter - LETTERS) : -1;
}

void review_details(const struct chat *c, char details[REVIEW_CHOICES][96], char *title,
                    size_t n_title)
{
    _cleanup_buf_ struct buf sum = BUF_INIT(128);
    changes_summary(&c->changes, &sum);
    const char *s = buf_cstr(&sum);
    snprintf(title, n_title, "%s to review: a letter and Enter, or just type on",
             s ? s : "changes");
    snprintf(details[0], 96, "write them to your folder");
    snprintf(details[1], 96, "show them");
    snprintf(details[2], 96, "leave them in the box for now");
    snprintf(details[3], 96, "undo the turn");
}

void review_move(struct chat *c, int by)
{
    c->review_chosen = (c->review_chosen + by + REVIEW_CHOICES + (c->review_chosen < 0 && by < 0)) %
                       REVIEW_CHOICES;
}

static void act(struct chat *c, int choice)
{
    static const enum job_kind kinds[REVIEW_CHOICES] = {JOB_APPLY, JOB_DIFF, JOB_NONE, JOB_UNDO};
    struct job job = {.kind = kinds[choice]};
    c->review_chosen = -1;
    if (job.kind != JOB_DIFF)
        c->review = false;
    if (job.kind != JOB_NONE)
        chat_begin(c, &job);
}

bool review_enter(struct chat *c)
{
    if (!review_is_open(c))
        return false;
    int choice = editor_is_empty(c->editor) ? c->review_chosen : review_letter(c);
    if (choice < 0)
        return false;
    editor_reset(c->editor);
    act(c, choice);
    return true;
}
