#include "agent_private.h"
#include "banned.h"

/* Is x better than y? A test that passed counts more than anything; then how many tests did; then
 * which diff is smaller. */
static bool is_better(const struct attempt *x, const struct attempt *y)
{
    bool x_clean = x->test_status == 0, y_clean = y->test_status == 0;
    if (x->passed != y->passed)
        return x->passed > y->passed;
    if (x_clean != y_clean)
        return x_clean;
    if (x->failed != y->failed)
        return x->failed < y->failed;
    return x->added + x->deleted < y->added + y->deleted;
}

/* -1: none was tested. Of equals the first. */
int attempts_best(const struct attempt *all, unsigned n)
{
    int best = -1;
    for (unsigned i = 0; i < n; i++)
        if (all[i].tested && (best < 0 || is_better(&all[i], &all[best])))
            best = (int)i;
    return best;
}
