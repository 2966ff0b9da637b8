/* What the view shows of the input and the status. */
#include <stdio.h>
#include <string.h>

#include "chat.h"
#include "clock.h"
#include "summary.h"
#include "banned.h"

#define QUEUED_SHOWN 5

static int display_search(struct chat *c, const struct view_status *status)
{
    _cleanup_buf_ struct buf title = BUF_INIT(4096);
    const char *query = buf_cstr(&c->query);
    const char *found = c->found >= 0 ? input_history_get(c->history, (size_t)c->found) : NULL;
    buf_append_str(&title, "search: ");
    summary_line(query ? query : "", query ? strlen(query) : 0, 60, &title);
    buf_append_str(&title, c->found < 0 && query && *query ? " (not found)" : "▏");
    const char *shown = buf_cstr(&title);
    struct view_input in = {.text = found ? found : "",
                            .n = found ? strlen(found) : 0,
                            .prompt = "‹ ",
                            .hint = "Ctrl-R: older   Enter: use it   Esc: cancel",
                            .title = shown ? shown : "search",
                            .chosen = -1};
    return view_draw(c->view, &in, status);
}

/* The input, and below it completions, the review, or what is queued. */
static int display_editor(struct chat *c, const struct view_status *status)
{
    static const char *const reviews[REVIEW_CHOICES] = {"[a] apply", "[d] diff", "[k] keep working",
                                                        "[u] undo"};
    static const char *const review_details[REVIEW_CHOICES] = {
        "write the changes to your folder", "show the changes",
        "decide later; the changes stay in the box", "undo the turn"};
    _cleanup_buf_ struct buf shown = BUF_INIT(EDITOR_TYPED_MAX * 2u), changes = BUF_INIT(128);
    char title[128];
    size_t cursor = 0;
    bool quitting = c->quit_until && clock_now() < c->quit_until;
    editor_shown(c->editor, &shown, &cursor);
    const char *text = buf_cstr(&shown);
    struct view_input in = {.text = text ? text : "",
                            .n = text ? shown.len : 0,
                            .cursor = text ? cursor : 0,
                            .prompt = "› ",
                            .hint = quitting          ? "Press Ctrl-C again to quit"
                                    : chat_is_busy(c) ? "Type ahead: sent when this turn ends"
                                                      : "Describe a task, or /help",
                            .chosen = -1};
    if (c->completing && c->completion.n) {
        in.choices = c->completion.names;
        in.details = c->completion.details;
        in.n_choices = c->completion.n;
        in.chosen = c->chosen;
    } else if (chat_review_is_open(c)) {
        summary_of_changes(&c->changes, &changes);
        snprintf(title, sizeof title, "%.*s to review: type a letter and Enter, or the next task",
                 (int)changes.len, (const char *)changes.data);
        in.title = title;
        in.choices = reviews;
        in.details = review_details;
        in.n_choices = REVIEW_CHOICES;
        in.chosen = editor_is_empty(c->editor) ? c->review_chosen : chat_review_letter(c);
    } else if (c->n_queued) {
        snprintf(title, sizeof title,
                 "%zu queued, sent when this turn ends; Up takes the last back", c->n_queued);
        in.title = title;
        in.choices = (const char *const *)c->queued;
        in.n_choices = c->n_queued < QUEUED_SHOWN ? c->n_queued : QUEUED_SHOWN;
    }
    return view_draw(c->view, &in, status);
}

int chat_display(struct chat *c)
{
    bool busy = chat_is_busy(c);
    struct view_status status = {
        .model = c->state.model,
        .context = c->state.context,
        .window = c->state.window,
        .cost_known = c->state.money.known,
        .cost = c->state.money.cost,
        .changes = c->changes.count,
        .busy = busy ? c->busy : NULL,
        .busy_seconds = busy ? (double)(clock_now() - c->began) / NS_PER_S : 0,
        .keys = busy && !c->searching ? "Esc to stop" : NULL,
    };
    return c->searching ? display_search(c, &status) : display_editor(c, &status);
}
