/* Patches that must not pass: each on its own, and parts of the solution. */
#include <errno.h>
#include <string.h>

#include "check_private.h"
#include "banned.h"

static bool is_whole_solution(const struct check *c, size_t patch)
{
    return c->task->solution.count == 1 &&
           strcmp(c->task->solution.items[0], c->task->patches[patch].name) == 0;
}

int check_patches(struct check *c)
{
    int r = 0;
    for (size_t i = 0; i < c->task->n_patches && r == 0; i++) {
        _cleanup_(check_played_free) struct check_played p = {0};
        if (is_whole_solution(c, i))
            continue;
        r = check_play(c, &i, 1, &p);
        if (r == 0 && p.trouble[0])
            r = check_note(c, "%s (to the original)", p.trouble);
        else if (r == 0 && check_passes(&p))
            r = check_find(c, "the patch '%s' passes alone, and is not the solution",
                           c->task->patches[i].name);
    }
    return r;
}

/* "a, b" of the patches whose bits are set. */
static void name_part(const struct check *c, unsigned long part, char *text, size_t size)
{
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < c->task->solution.count && n < size; i++)
        if (part >> i & 1)
            n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "",
                                  c->task->solution.items[i]);
}

/* One part of the solution, in its order. Parts of a single patch were looked at already. */
static int check_part(struct check *c, unsigned long part)
{
    size_t patches[TASK_PATCHES_MAX], n = 0;
    char names[400];
    for (size_t i = 0; i < c->task->solution.count; i++)
        if (part >> i & 1)
            patches[n++] =
                (size_t)(task_patch_find(c->task, c->task->solution.items[i]) - c->task->patches);
    if (n < 2)
        return 0;
    _cleanup_(check_played_free) struct check_played p = {0};
    int r = check_play(c, patches, n, &p);
    name_part(c, part, names, sizeof names);
    if (r == 0 && p.trouble[0] == 0 && check_passes(&p))
        r = check_find(c, "a part of the solution passes without the rest: %s", names);
    return r;
}

int check_subsets(struct check *c)
{
    size_t n = c->task->solution.count;
    int r = 0;
    if (n < 3)
        return 0;
    unsigned long all = n < 20 ? (1ul << n) - 1 : 1ul << 20;
    for (unsigned long part = 1, count = 0; part < all && count < CHECK_SUBSETS_MAX && r == 0;
         part++)
        if (__builtin_popcountl(part) > 1) {
            r = check_part(c, part);
            count++;
        }
    return r;
}
