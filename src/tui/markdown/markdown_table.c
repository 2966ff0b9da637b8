/*
 * Tables. Columns get the width they need; if that is too much, the wide ones get less and their
 * text is wrapped. If not even that fits, each row is shown as a list.
 */
#include <stdlib.h>
#include <string.h>

#include "clean.h"
#include "markdown_render.h"
#include "banned.h"

#define COLUMN_MIN 4

void md_table_free(struct md_table *t)
{
    for (size_t i = 0; i < t->count; i++)
        styled_free(&t->cells[i].text);
    free(t->cells);
    *t = (struct md_table){0};
}

void md_table_add_cell(struct md_render *r, MD_ALIGN align)
{
    struct md_table *t = &r->table;
    if ((t->count & (t->count - 1)) == 0) {
        struct md_cell *more = reallocarray(t->cells, t->count ? t->count * 2 : 1, sizeof *more);
        if (!more)
            return;
        t->cells = more;
    }
    t->cells[t->count++] = (struct md_cell){r->text, align};
    r->text = STYLED_INIT;
}

static void table_natural_widths(const struct md_table *t, int widths[MD_COLUMNS])
{
    memset(widths, 0, MD_COLUMNS * sizeof *widths);
    for (size_t i = 0; i < t->count; i++) {
        int w = styled_width(&t->cells[i].text);
        if (w > widths[i % t->columns])
            widths[i % t->columns] = w;
    }
    for (size_t c = 0; c < t->columns; c++)
        if (widths[c] < 1)
            widths[c] = 1;
}

static int table_sum_capped(const int *widths, size_t n, int cap)
{
    int sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += widths[i] < cap ? widths[i] : cap;
    return sum;
}

/* The widest columns shrink to one width, the others stay. False: not even that fits. */
static bool table_fit(int *widths, size_t n, int room)
{
    int low = COLUMN_MIN, high = room;
    if (table_sum_capped(widths, n, COLUMN_MIN) > room)
        return false;
    while (low < high) {
        int middle = (low + high + 1) / 2;
        if (table_sum_capped(widths, n, middle) <= room)
            low = middle;
        else
            high = middle - 1;
    }
    int spare = room - table_sum_capped(widths, n, low);
    for (size_t i = 0; i < n; i++) {
        if (widths[i] <= low)
            continue;
        widths[i] = low + (spare > 0);
        spare -= spare > 0;
    }
    return true;
}

static void table_border(struct md_render *r, const char *margin, const int *widths,
                         const char *const marks[3])
{
    lines_puts(r->out, ROLE_MUTED, margin);
    for (size_t c = 0; c < r->table.columns; c++) {
        lines_puts(r->out, ROLE_MUTED, marks[c > 0]);
        for (int i = 0; i < widths[c] + 2; i++)
            lines_put(r->out, ROLE_MUTED, "─", strlen("─"), 1);
    }
    lines_puts(r->out, ROLE_MUTED, marks[2]);
    lines_end(r->out);
}

static void table_pad(struct lines *out, int n)
{
    for (; n > 0; n--)
        lines_put(out, ROLE_TEXT, " ", 1, 1);
}

/* Line `i` of a cell, or blanks, in a column of `width`. */
static void table_cell_line(struct md_render *r, const struct lines *cell, size_t i, MD_ALIGN align,
                            int width)
{
    int free_columns = width - (i < cell->count ? cell->all[i].width : 0);
    int before = align == MD_ALIGN_RIGHT    ? free_columns
                 : align == MD_ALIGN_CENTER ? free_columns / 2
                                            : 0;
    table_pad(r->out, before + 1);
    for (size_t k = 0; i < cell->count && k < cell->all[i].count; k++) {
        const struct run *run = &cell->runs[cell->all[i].first + k];
        lines_put(r->out, run->style, (const char *)cell->text.data + run->at, run->n, run->width);
    }
    table_pad(r->out, free_columns - before + 1);
}

static void table_row(struct md_render *r, const char *margin, const int *widths, size_t first)
{
    struct lines cells[MD_COLUMNS];
    size_t height = 1;
    for (size_t c = 0; c < r->table.columns; c++) {
        cells[c] = LINES_INIT;
        wrap_words(&r->table.cells[first + c].text, &(struct margin){"", "", 0, 0}, widths[c],
                   &cells[c]);
        if (cells[c].count > height)
            height = cells[c].count;
    }
    for (size_t i = 0; i < height; i++) {
        lines_puts(r->out, ROLE_MUTED, margin);
        for (size_t c = 0; c < r->table.columns; c++) {
            lines_puts(r->out, ROLE_MUTED, "│");
            table_cell_line(r, &cells[c], i, r->table.cells[first + c].align, widths[c]);
        }
        lines_puts(r->out, ROLE_MUTED, "│");
        lines_end(r->out);
    }
    for (size_t c = 0; c < r->table.columns; c++)
        lines_free(&cells[c]);
}

static void table_as_grid(struct md_render *r, const struct md_margins *m, const int *widths)
{
    static const char *const top[] = {"┌", "┬", "┐"}, *const middle[] = {"├", "┼", "┤"},
                             *const bottom[] = {"└", "┴", "┘"};
    size_t columns = r->table.columns;
    table_border(r, m->first, widths, top);
    for (size_t i = 0; i + columns <= r->table.count; i += columns) {
        table_row(r, m->rest, widths, i);
        if (i == 0)
            table_border(r, m->rest, widths, middle);
    }
    table_border(r, m->rest, widths, bottom);
}

/* `head: cell`, a line each, with an empty line between rows. */
static void table_as_list(struct md_render *r, struct md_margins *m)
{
    size_t columns = r->table.columns;
    for (size_t i = columns; i < r->table.count; i++) {
        _cleanup_styled_ struct styled line = STYLED_INIT;
        if (i % columns == 0 && i > columns)
            lines_end(r->out);
        styled_append(&line, &r->table.cells[i % columns].text);
        styled_puts(&line, ROLE_MUTED, ": ");
        styled_append(&line, &r->table.cells[i].text);
        wrap_words(&line, &m->margin, r->width - m->width, r->out);
        m->margin.first = m->margin.rest;
    }
}

void md_table_draw(struct md_render *r)
{
    struct md_margins m;
    int widths[MD_COLUMNS];
    if (r->table.columns && r->table.count >= r->table.columns) {
        md_begin_lines(r, &m);
        table_natural_widths(&r->table, widths);
        if (table_fit(widths, r->table.columns, r->width - m.width - 3 * (int)r->table.columns - 1))
            table_as_grid(r, &m, widths);
        else
            table_as_list(r, &m);
    }
    md_table_free(&r->table);
    r->in_table = false;
}
