/*
 * Where a hunk that has no place was perhaps meant to go: the place that has most of its lines in
 * their order.
 *
 * Each line of the file that is the same as one of the hunk, but for blanks at its ends, votes for
 * the line where the hunk would begin. If no line is the same, the one that is most like the
 * longest line of the hunk decides.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "diff_text.h"
#include "hunk_place.h"
#include "banned.h"

#define WANT_MAX  256u /* lines of the hunk that are looked at */
#define SLOTS     1024u
#define SHIFT_MAX 16  /* lines that may have come or gone within the hunk */
#define LIKE_MIN  60u /* percent: less is not alike */
#define LIKE_SIZE 400u

struct search {
    const struct text_lines *file;
    const struct text_line *want;
    size_t n, guess;
    uint32_t *votes; /* by the line where the hunk would begin, plus n */
    uint32_t hash[WANT_MAX];
    uint8_t weight[WANT_MAX];
    uint16_t next[WANT_MAX], slots[SLOTS]; /* lines of the hunk by hash: index plus 1 */
};

static struct slice line_content(const struct text_line *line)
{
    struct slice s = {(const char *)line->text, line->size};
    while (s.size && strchr("\r\n", s.at[s.size - 1]) && s.at[s.size - 1])
        s.size--;
    return slice_trim(s);
}

static uint32_t hash_of(struct slice s)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < s.size; i++)
        h = (h ^ (uint8_t)s.at[i]) * 16777619u;
    return h;
}

/* The beginning with most votes, counted as votes are; SIZE_MAX if there are none. */
static size_t search_vote(struct search *s)
{
    size_t best = SIZE_MAX, want = s->guess + s->n, best_distance = 0;
    for (size_t i = s->n; i-- > 0;) {
        struct slice c = line_content(&s->want[i]);
        s->hash[i] = hash_of(c);
        s->weight[i] = c.size == 0 ? 0 : c.size < 4 ? 1 : 8; /* a brace says little */
        s->next[i] = s->slots[s->hash[i] % SLOTS];
        s->slots[s->hash[i] % SLOTS] = (uint16_t)(i + 1);
    }
    for (size_t j = 0; j < s->file->count; j++) {
        uint32_t h = hash_of(line_content(&s->file->lines[j]));
        for (size_t i = s->slots[h % SLOTS]; i; i = s->next[i - 1])
            if (s->hash[i - 1] == h)
                s->votes[j + s->n - (i - 1)] += s->weight[i - 1];
    }
    for (size_t i = 0; i <= s->file->count + s->n; i++) {
        size_t distance = i > want ? i - want : want - i;
        if (s->votes[i] == 0)
            continue;
        if (best == SIZE_MAX || s->votes[i] > s->votes[best] ||
            (s->votes[i] == s->votes[best] && distance < best_distance)) {
            best = i;
            best_distance = distance;
        }
    }
    return best;
}

/* How alike two lines are, in percent: what they share at their ends. */
static unsigned likeness(struct slice a, struct slice b)
{
    size_t least = a.size < b.size ? a.size : b.size, most = a.size < b.size ? b.size : a.size,
           head = 0, tail = 0;
    while (head < least && a.at[head] == b.at[head])
        head++;
    while (tail < least - head && a.at[a.size - 1 - tail] == b.at[b.size - 1 - tail])
        tail++;
    return most ? (unsigned)((head + tail) * 100 / most) : 0;
}

/* The beginning by the line that is most like the longest line of the hunk. */
static size_t search_alike(const struct search *s)
{
    size_t longest = 0, best = SIZE_MAX;
    unsigned most = LIKE_MIN - 1;
    for (size_t i = 1; i < s->n; i++)
        if (line_content(&s->want[i]).size > line_content(&s->want[longest]).size)
            longest = i;
    struct slice want = line_content(&s->want[longest]);
    if (want.size < 4 || want.size > LIKE_SIZE)
        return SIZE_MAX;
    for (size_t j = 0; j < s->file->count; j++) {
        struct slice have = line_content(&s->file->lines[j]);
        unsigned like = have.size <= LIKE_SIZE ? likeness(want, have) : 0;
        if (like > most) {
            most = like;
            best = j + s->n - longest;
        }
    }
    return best;
}

/* How many lines at one end of the hunk are the same, of the n that may be, if it begins there. */
static size_t count_same(const struct search *s, size_t begin, size_t n, bool tail)
{
    size_t same = 0;
    for (; same < n; same++) {
        size_t i = tail ? s->n - 1 - same : same;
        if (begin + i < s->n || begin + i - s->n >= s->file->count)
            break;
        const struct text_line *have = &s->file->lines[begin + i - s->n], *want = &s->want[i];
        if (have->size != want->size || memcmp(have->text, want->text, have->size) != 0)
            break;
    }
    return same;
}

/* Lines may have come or gone within the hunk: each of its ends is looked for a few lines further
 * up or down. */
static size_t shift_end(const struct search *s, size_t begin, size_t n, bool tail, size_t *ret_same)
{
    size_t best = begin, most = count_same(s, begin, n, tail);
    for (size_t i = 1; i <= SHIFT_MAX; i++)
        for (int up = 0; up < 2; up++) {
            if (up && begin < i)
                continue;
            size_t to = up ? begin - i : begin + i, same = count_same(s, to, n, tail);
            if (same > most) {
                most = same;
                best = to;
            }
        }
    *ret_same = most;
    return best;
}

int hunk_nearest_find(const struct text_lines *file, const struct text_line *want, size_t n,
                      size_t guess, struct hunk_nearest *ret)
{
    _cleanup_free_ struct search *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->file = file;
    s->want = want;
    s->n = n < WANT_MAX ? n : WANT_MAX;
    s->guess = guess;
    *ret = (struct hunk_nearest){.n_expected = s->n};
    if (n == 0 || file->count == 0)
        return 0;
    _cleanup_free_ uint32_t *votes = s->votes = calloc(file->count + s->n + 1, sizeof *votes);
    if (!votes)
        return -ENOMEM;
    size_t begin = search_vote(s), head, tail, count = file->count;
    if (begin == SIZE_MAX)
        begin = search_alike(s);
    if (begin == SIZE_MAX)
        return 0;
    size_t start = shift_end(s, begin, s->n, false, &head);
    size_t end = shift_end(s, begin, s->n - head, true, &tail);
    size_t from = start + head > s->n ? start + head - s->n : 0;
    size_t to = end > tail ? end - tail : 0; /* end + n - tail, less n */
    from = from < count ? from : count;
    to = to > count ? count : to;
    *ret = (struct hunk_nearest){.line = from + 1,
                                 .expected = head,
                                 .n_expected = s->n - head - tail,
                                 .found = from,
                                 .n_found = to > from ? to - from : 0};
    return 0;
}
