#include <inttypes.h>

#include "differ.h"
#include "fold.h"
#include "banned.h"

static void put_count(struct buf *out, size_t n, const char *what)
{
    buf_printf(out, "%zu %s%s", n, what, n == 1 ? "" : "s");
}

/* "4 blanks", "1 tab and 2 blanks", "nothing". */
static void put_blanks(struct buf *out, struct bytes s)
{
    size_t tabs = (size_t)bytes_count(s, '\t', s.n), blanks = (size_t)bytes_count(s, ' ', s.n);
    size_t others = s.n - tabs - blanks;
    if (s.n == 0)
        buf_append_str(out, "nothing");
    if (tabs)
        put_count(out, tabs, "tab");
    if (blanks) {
        buf_append_str(out, tabs ? " and " : "");
        put_count(out, blanks, "blank");
    }
    if (others)
        buf_append_str(out, tabs || blanks ? " and more" : "other blanks");
}

/* "’ (U+2019)", for what a model cannot tell apart by looking. */
static void put_characters(struct buf *out, struct bytes s)
{
    if (s.n == 0) {
        buf_append_str(out, "nothing");
        return;
    }
    if (fold_next(s).n)
        buf_append(out, s.data, fold_next(s).used);
    buf_printf(out, fold_next(s).n ? " (U+%04" PRIX32 ")" : "U+%04" PRIX32, fold_code(s));
}

static void put_breaks(struct buf *out, struct bytes s)
{
    put_count(out, (size_t)bytes_count(s, '\n', s.n), "line break");
}

static void put_ending(struct buf *out, struct bytes s)
{
    buf_append_str(out, s.n ? "CRLF" : "LF");
}

static const struct {
    const char *what;
    const char *where;
    void (*put)(struct buf *out, struct bytes s);
} WORDS[DIFFER_KINDS] = {
    [DIFFER_INDENT] = {"indentation", "line %" PRIu64 " begins with ", put_blanks},
    [DIFFER_TRAILING] = {"trailing blanks", "line %" PRIu64 " ends with ", put_blanks},
    [DIFFER_INNER] = {"blanks", "line %" PRIu64 " has within it ", put_blanks},
    [DIFFER_BREAKS] = {"line breaks", "behind line %" PRIu64 " there is ", put_breaks},
    [DIFFER_ENDINGS] = {"line endings", "line %" PRIu64 " ends with ", put_ending},
    [DIFFER_ODD_BLANK] = {"special blanks", "line %" PRIu64 " has ", put_characters},
    [DIFFER_INVISIBLE] = {"invisible characters", "line %" PRIu64 " has ", put_characters},
    [DIFFER_QUOTE] = {"quotes", "line %" PRIu64 " has ", put_characters},
    [DIFFER_DASH] = {"dashes", "line %" PRIu64 " has ", put_characters},
    [DIFFER_FORM] = {"forms of letters", "line %" PRIu64 " has ", put_characters},
    [DIFFER_CASE] = {"upper and lower case", "line %" PRIu64 " has ", put_characters},
};

/* All lines moved by the same, or tabs on one side and blanks on the other. */
static bool say_shift(const struct differ *d, struct buf *out)
{
    const struct differ_finding *f = &d->found[DIFFER_INDENT];
    bool file_tabs = bytes_count(f->file, '\t', f->file.n) > 0,
         old_tabs = bytes_count(f->old, '\t', f->old.n) > 0;
    if (f->count > 1 && d->uniform && f->count == d->indents) {
        buf_printf(out, "- indentation: every line from line %" PRIu64 " on begins with ", f->line);
        put_blanks(out, d->more);
        buf_printf(out, " %s in the file than in `old`\n", d->file_has_more ? "more" : "less");
        return true;
    }
    if (f->count > 1 && f->file.n && f->old.n && file_tabs != old_tabs) {
        buf_printf(out,
                   "- indentation: the file has %s where `old` has %s (%" PRIu64
                   " lines, first line %" PRIu64 ": ",
                   file_tabs ? "tabs" : "blanks", file_tabs ? "blanks" : "tabs", f->count, f->line);
        put_blanks(out, f->file);
        buf_append_str(out, " in the file, ");
        put_blanks(out, f->old);
        buf_append_str(out, " in `old`)\n");
        return true;
    }
    return false;
}

void differ_say(const struct differ *d, struct buf *out)
{
    for (int i = 0; i < DIFFER_KINDS; i++) {
        const struct differ_finding *f = &d->found[i];
        if (f->count == 0 || (i == DIFFER_INDENT && say_shift(d, out)))
            continue;
        buf_printf(out, "- %s: ", WORDS[i].what);
        buf_printf(out, WORDS[i].where, f->line);
        WORDS[i].put(out, f->file);
        buf_append_str(out, " in the file, ");
        WORDS[i].put(out, f->old);
        buf_append_str(out, " in `old`");
        if (f->count > 1)
            buf_printf(out, " (and %" PRIu64 " more)", f->count - 1);
        buf_append_str(out, "\n");
    }
}
