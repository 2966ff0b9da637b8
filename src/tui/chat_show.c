/* The chat: what the view is told about the input and the status. */
#include <stdio.h>
#include <string.h>

#include "chat.h"
#include "clock.h"
#include "summary.h"
#include "banned.h"

#define WAITING_SHOWN 5

static void show_search(struct chat *c)
{
    _cleanup_buf_ struct buf title = BUF_INIT(4096);
    const char *query = buf_cstr(&c->query);
    const char *found = c->found >= 0 ? past_get(c->past, (size_t)c->found) : NULL;
    buf_append_str(&title, "search: ");
    summary_line(query ? query : "", query ? strlen(query) : 0, 60, &title);
    buf_append_str(&title, c->found < 0 && query && *query ? " (not found)" : "▏");
    const char *shown = buf_cstr(&title);
    struct view_input in = {.text = found ? found : "",
                            .n = found ? strlen(found) : 0,
                            .prompt = "‹ ",
                            .hint = "Ctrl-R: an older one, Enter takes it, Esc leaves",
                            .title = shown ? shown : "search",
                            .chosen = -1};
    view_input(c->view, &in);
}

static const char *hint(const struct chat *c)
{
    if (c->quit_until && clock_now() < c->quit_until)
        return "Ctrl-C again leaves";
    return chat_is_busy(c) ? "say more: it is sent when this turn ends"
                           : "Describe a task, or /help";
}

/* The panel below the input: completions, or the review, or what waits. */
struct panel {
    const char *choices[COMPLETE_MAX], *details[COMPLETE_MAX];
    char texts[REVIEW_CHOICES][96];
    char title[128];
};

static void fill_review(struct chat *c, struct panel *p, struct view_input *in)
{
    review_details(c, p->texts, p->title, sizeof p->title);
    for (size_t i = 0; i < REVIEW_CHOICES; i++) {
        p->choices[i] = REVIEW_NAMES[i];
        p->details[i] = p->texts[i];
    }
    in->n_choices = REVIEW_CHOICES;
    in->chosen = editor_is_empty(c->editor) ? c->review_chosen : review_letter(c);
    in->title = p->title;
}

static void fill_waiting(struct chat *c, struct panel *p, struct view_input *in)
{
    size_t shown = c->n_waiting < WAITING_SHOWN ? c->n_waiting : WAITING_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        p->choices[i] = c->waiting[i];
        p->details[i] = "";
    }
    snprintf(p->title, sizeof p->title,
             "%zu queued, sent when this turn ends; Up takes the last one back", c->n_waiting);
    in->n_choices = shown;
    in->title = p->title;
}

static void show_editor(struct chat *c)
{
    _cleanup_buf_ struct buf shown = BUF_INIT(EDITOR_TYPED_MAX * 2u);
    struct panel p = {0};
    size_t cursor = 0;
    editor_shown(c->editor, &shown, &cursor);
    const char *text = buf_cstr(&shown);
    struct view_input in = {.text = text ? text : "",
                            .n = text ? shown.len : 0,
                            .cursor = text ? cursor : 0,
                            .prompt = "› ",
                            .hint = hint(c),
                            .choices = p.choices,
                            .details = p.details,
                            .chosen = -1};
    if (c->completing && c->completion.n) {
        in.choices = c->completion.names;
        in.details = c->completion.details;
        in.n_choices = c->completion.n;
        in.chosen = c->chosen;
    } else if (review_is_open(c)) {
        fill_review(c, &p, &in);
    } else if (c->n_waiting) {
        fill_waiting(c, &p, &in);
    }
    view_input(c->view, &in);
}

static void show_status(struct chat *c)
{
    bool busy = chat_is_busy(c);
    view_status(c->view,
                &(struct view_status){
                    .model = c->state.model,
                    .session = c->state.session,
                    .workspace = c->state.workspace,
                    .context = c->state.context,
                    .window = c->state.window,
                    .cost_known = c->state.money.known,
                    .cost = c->state.money.cost,
                    .changes = c->changes.count,
                    .busy = busy ? c->busy : NULL,
                    .busy_seconds = busy ? (double)(clock_now() - c->job_began) / NS_PER_S : 0,
                    .keys = c->searching ? NULL
                            : busy       ? "Esc stops"
                                         : NULL,
                });
}

void chat_show(struct chat *c)
{
    if (c->searching)
        show_search(c);
    else
        show_editor(c);
    show_status(c);
}
