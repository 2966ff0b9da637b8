#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "view_private.h"
#include "banned.h"

int view_open(struct view **ret, struct error *err)
{
    struct view *v = calloc(1, sizeof *v);
    if (!v)
        return error_set(err, ENOMEM, "no memory");
    int r = screen_open(&v->screen, err);
    if (r < 0) {
        free(v);
        return r;
    }
    transcript_open(&v->transcript);
    v->input.text = BUF_INIT(VIEW_INPUT_MAX);
    v->input.lines = LINES_INIT;
    v->now = clock_now;
    v->changed = v->urgent = true;
    *ret = v;
    return 0;
}

struct view *view_close(struct view *v)
{
    if (!v)
        return NULL;
    screen_close(v->screen);
    transcript_clear(&v->transcript);
    input_free(&v->input);
    status_free(&v->status);
    free(v->rows);
    free(v);
    return NULL;
}

static void touch(struct view *v, bool urgent)
{
    v->changed = true;
    v->urgent |= urgent;
}

void view_suspend(struct view *v)
{
    screen_suspend(v->screen);
}

void view_resume(struct view *v)
{
    screen_resume(v->screen);
    touch(v, true);
}

void view_resized(struct view *v)
{
    screen_resized(v->screen);
    touch(v, true);
}

static struct item_look look_of(const struct view *v)
{
    int rows, columns;
    screen_size(v->screen, &rows, &columns);
    return (struct item_look){
        .width = columns > 8 ? columns : 8, .now = v->now(), .tick = v->tick, .key = VIEW_FOLD_KEY};
}

static void add(struct view *v, enum item_kind kind, const char *text, size_t n)
{
    struct item *it = transcript_add(&v->transcript, kind);
    if (it)
        item_say(it, text, n, false);
    touch(v, true);
}

void view_person(struct view *v, const char *words)
{
    transcript_end(&v->transcript);
    add(v, ITEM_PERSON, words, strlen(words));
}

void view_event(struct view *v, const struct agent_event *e)
{
    transcript_event(&v->transcript, e, v->now());
    touch(v, false);
}

void view_note(struct view *v, const char *text)
{
    add(v, ITEM_NOTE, text, strlen(text));
}

void view_diff(struct view *v, const char *diff, size_t n)
{
    add(v, ITEM_DIFF, diff, n);
}

void view_clear(struct view *v)
{
    transcript_clear(&v->transcript);
    touch(v, true);
}

void view_scroll(struct view *v, int lines_down)
{
    struct item_look look = look_of(v);
    transcript_scroll(&v->transcript, &look, lines_down);
    touch(v, true);
}

void view_page(struct view *v, int pages)
{
    int page =
        v->transcript.height > 4 ? v->transcript.height - 2 : 1; /* two lines are seen twice */
    view_scroll(v, pages * page);
}

void view_top(struct view *v)
{
    transcript_top(&v->transcript);
    touch(v, true);
}

void view_end(struct view *v)
{
    transcript_end(&v->transcript);
    touch(v, true);
}

void view_select(struct view *v, int by)
{
    struct item_look look = look_of(v);
    transcript_select(&v->transcript, &look, by);
    touch(v, true);
}

bool view_toggle(struct view *v)
{
    struct item_look look = look_of(v);
    touch(v, true);
    return transcript_toggle(&v->transcript, &look);
}

void view_toggle_all(struct view *v)
{
    transcript_toggle_all(&v->transcript);
    touch(v, true);
}

void view_input(struct view *v, const struct view_input *in)
{
    input_take(&v->input, in);
    touch(v, true);
}

void view_status(struct view *v, const struct view_status *s)
{
    status_take(&v->status, s, v->now());
    touch(v, false);
}

static bool have_rows(struct view *v, int n)
{
    if (n <= v->n_rows)
        return true;
    struct row *more = reallocarray(v->rows, (size_t)n, sizeof *more);
    if (!more)
        return false;
    v->rows = more;
    v->n_rows = n;
    return true;
}

static void draw_transcript(struct view *v, int height, const struct item_look *look)
{
    if (height <= 0 || !have_rows(v, height))
        return;
    transcript_rows(&v->transcript, look, height, v->rows);
    for (int i = 0; i < height; i++)
        if (v->rows[i].lines)
            screen_line(v->screen, i, 0, v->rows[i].lines, v->rows[i].line,
                        v->rows[i].selected && v->rows[i].line == 0 ? STYLE_REVERSE : 0);
}

/* The line between the transcript and the input says how much lies below. */
static void draw_rule(struct view *v, int row, int columns)
{
    char text[64];
    size_t below = transcript_below(&v->transcript, columns);
    screen_rule(v->screen, row);
    if (!below)
        return;
    int n = snprintf(text, sizeof text, " ↓ %zu more lines ", below) - 2;
    screen_text(v->screen, row, columns > n + 2 ? columns - n - 2 : 0, ROLE_ACCENT, text);
}

static void draw(struct view *v)
{
    int rows, columns;
    struct item_look look = look_of(v);
    screen_size(v->screen, &rows, &columns);
    int input = input_height(&v->input, rows, columns), choices = choices_height(&v->input, rows);
    int air = rows >= 16; /* an empty row above the line */
    int status = rows - 1, choices_at = status - choices, input_at = choices_at - input,
        rule = input_at - 1;
    screen_begin(v->screen);
    draw_transcript(v, rule - air, &look);
    if (rule >= 0)
        draw_rule(v, rule, columns);
    choices_draw(&v->input, v->screen, choices_at, choices, columns);
    status_draw(&v->status, v->screen, status, columns, v->tick, look.now);
    input_draw(&v->input, v->screen, input_at < 0 ? 0 : input_at, input);
    screen_end(v->screen, (input_at < 0 ? 0 : input_at) + (int)(v->input.cursor_row - v->input.top),
               v->input.cursor_column);
}

static bool moves(const struct view *v)
{
    return v->status.busy || transcript_moves(&v->transcript);
}

/* While text streams, frames are drawn now and then; what a person does is drawn at once. */
int view_draw(struct view *v)
{
    int64_t now = v->now();
    unsigned tick = (unsigned)(now / (VIEW_SPIN_MS * NS_PER_MS));
    int64_t wait = v->drawn + VIEW_FRAME_MS * NS_PER_MS - now;
    bool due = v->changed || (moves(v) && tick != v->tick);
    if (due && !v->urgent && wait > 0)
        return (int)(wait / NS_PER_MS) + 1;
    if (due) {
        v->tick = tick;
        v->drawn = now;
        v->changed = v->urgent = false;
        draw(v);
    }
    return moves(v) ? VIEW_SPIN_MS : -1;
}
