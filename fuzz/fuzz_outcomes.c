/* Lines of outcomes: however the bytes are split, the same comes of them, and nothing passes that
 * was forged. The first byte chooses the split. */
#include <string.h>

#include "compose.h"
#include "outcomes.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static const char TOKEN[] = "00000000000000000000000000000000";

static void hear(struct outcomes *o, const uint8_t *data, size_t n, size_t piece)
{
    outcomes_init(o, TOKEN);
    while (n > 0) {
        size_t some = n < piece ? n : piece;
        require(outcomes_feed(o, data, some));
        data += some;
        n -= some;
    }
}

static void check_same(const struct outcomes *a, const struct outcomes *b)
{
    require(a->count == b->count && a->strange == b->strange && a->forged == b->forged &&
            a->done == b->done);
    for (size_t i = 0; i < a->count; i++) {
        const char *why, *also;
        const struct outcome *t = outcomes_find(b, a->items[i].id);
        require(t && t == &b->items[i]);
        enum grade_outcome outcome = outcomes_judge(a, &a->items[i], &why);
        require(outcome == outcomes_judge(b, t, &also));
        require(!why == !also && (!why || strcmp(why, also) == 0));
        require(outcome != GRADE_PASSED || (!a->forged && a->items[i].ended && !a->items[i].twice));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    _cleanup_outcomes_ struct outcomes whole, split;
    if (n < 1) {
        outcomes_init(&whole, TOKEN);
        outcomes_init(&split, TOKEN);
        return 0;
    }
    hear(&whole, data + 1, n - 1, n);
    hear(&split, data + 1, n - 1, 1 + data[0] % 64u);
    check_same(&whole, &split);
    outcomes_current(&whole);
    return 0;
}
