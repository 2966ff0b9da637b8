#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cursor.h"
#include "nearest.h"
#include "banned.h"

#define WANT_MAX  256u /* lines of the hunk that are looked at */
#define SLOTS     1024u
#define SHIFT_MAX 16  /* lines that may have come or gone within the hunk */
#define LIKE_MIN  60u /* of 100: less is not alike */
#define LIKE_SIZE 400u

struct search {
    const struct image *img;
    const struct image_line *want;
    size_t n, guess;
    uint32_t *votes; /* by the line where the hunk would begin, plus n */
    uint32_t hash[WANT_MAX];
    uint8_t weight[WANT_MAX];
    uint16_t next[WANT_MAX], slots[SLOTS]; /* lines of the hunk by hash: index plus 1 */
};

static struct slice content(const struct image_line *line)
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

/* A brace or an empty line says little about where it stands. */
static uint8_t weight_of(struct slice s)
{
    return s.size == 0 ? 0 : s.size < 4 ? 1 : 8;
}

static void prepare(struct search *s)
{
    for (size_t i = s->n; i-- > 0;) {
        struct slice c = content(&s->want[i]);
        s->hash[i] = hash_of(c);
        s->weight[i] = weight_of(c);
        s->next[i] = s->slots[s->hash[i] % SLOTS];
        s->slots[s->hash[i] % SLOTS] = (uint16_t)(i + 1);
    }
}

static void vote(struct search *s)
{
    for (size_t j = 0; j < s->img->count; j++) {
        uint32_t h = hash_of(content(image_line(s->img, j)));
        for (size_t i = s->slots[h % SLOTS]; i; i = s->next[i - 1])
            if (s->hash[i - 1] == h)
                s->votes[j + s->n - (i - 1)] += s->weight[i - 1];
    }
}

static size_t distance(size_t a, size_t b)
{
    return a > b ? a - b : b - a;
}

/* Where most of it is; SIZE_MAX if none. The result is counted as votes are. */
static size_t elect(const struct search *s)
{
    size_t best = SIZE_MAX, want = s->guess + s->n;
    for (size_t i = 0; i <= s->img->count + s->n; i++) {
        if (s->votes[i] == 0)
            continue;
        if (best == SIZE_MAX || s->votes[i] > s->votes[best] ||
            (s->votes[i] == s->votes[best] && distance(i, want) < distance(best, want)))
            best = i;
    }
    return best;
}

/* How alike two lines are, of 100: what they share at their ends. */
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

/* No line is the same: the line that is most like the longest of the hunk. */
static size_t elect_alike(const struct search *s)
{
    size_t longest = 0, best = SIZE_MAX;
    unsigned most = LIKE_MIN - 1;
    for (size_t i = 1; i < s->n; i++)
        if (content(&s->want[i]).size > content(&s->want[longest]).size)
            longest = i;
    struct slice want = content(&s->want[longest]);
    if (want.size < 4 || want.size > LIKE_SIZE)
        return SIZE_MAX;
    for (size_t j = 0; j < s->img->count; j++) {
        struct slice have = content(image_line(s->img, j));
        unsigned like = have.size <= LIKE_SIZE ? likeness(want, have) : 0;
        if (like > most) {
            most = like;
            best = j + s->n - longest;
        }
    }
    return best;
}

/* The hunk's line i stands at line i + begin - n of the file, and is the same. */
static bool is_same(const struct search *s, size_t begin, size_t i)
{
    if (begin + i < s->n || begin + i - s->n >= s->img->count)
        return false;
    const struct image_line *have = image_line(s->img, begin + i - s->n);
    return have->size == s->want[i].size && memcmp(have->text, s->want[i].text, have->size) == 0;
}

/* How many lines at one end of the hunk are the same, of the n that may be. */
static size_t count_same(const struct search *s, size_t begin, size_t n, bool tail)
{
    size_t same = 0;
    while (same < n && is_same(s, begin, tail ? s->n - 1 - same : same))
        same++;
    return same;
}

/* Lines may have come or gone within the hunk: each of its ends is looked for a few lines further
 * up or down.
 */
static size_t shift(const struct search *s, size_t begin, size_t n, bool tail, size_t *ret_same)
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

static void compare(const struct search *s, size_t begin, struct nearest *ret)
{
    size_t head, tail, count = s->img->count;
    size_t start = shift(s, begin, s->n, false, &head);
    size_t end = shift(s, begin, s->n - head, true, &tail);
    size_t from = start + head > s->n ? start + head - s->n : 0;
    size_t to = end > tail ? end - tail : 0; /* end + n - tail, less n */
    from = from < count ? from : count;
    to = to > count ? count : to;
    *ret = (struct nearest){.line = from + 1,
                            .expected = head,
                            .n_expected = s->n - head - tail,
                            .found = from,
                            .n_found = to > from ? to - from : 0};
}

int nearest_find(const struct image *img, const struct image_line *want, size_t n, size_t guess,
                 struct nearest *ret)
{
    _cleanup_free_ struct search *s = calloc(1, sizeof *s);
    if (!s)
        return -ENOMEM;
    s->img = img;
    s->want = want;
    s->n = n < WANT_MAX ? n : WANT_MAX;
    s->guess = guess;
    *ret = (struct nearest){.n_expected = s->n};
    if (n == 0 || img->count == 0)
        return 0;
    _cleanup_free_ uint32_t *votes = s->votes = calloc(img->count + s->n + 1, sizeof *votes);
    if (!votes)
        return -ENOMEM;
    prepare(s);
    vote(s);
    size_t begin = elect(s);
    if (begin == SIZE_MAX)
        begin = elect_alike(s);
    if (begin != SIZE_MAX)
        compare(s, begin, ret);
    return 0;
}
