/* A merge of any three texts: a side that changed nothing gives the other one, and markers appear
 * only with a conflict. */
#include <errno.h>
#include <string.h>

#include "compose.h"
#include "linediff.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static int merge(const struct merge_text *base, const struct merge_text *mine,
                 const struct merge_text *theirs, struct buf *ret)
{
    return merge_texts(base, mine, theirs, &(struct merge_labels){"folder", "box"}, ret);
}

static void require_same(const struct merge_text *base, const struct merge_text *mine,
                         const struct merge_text *theirs, const struct merge_text *expected)
{
    _cleanup_buf_ struct buf out = BUF_INIT(64u << 20);
    require(merge(base, mine, theirs, &out) == 0);
    require(out.len == expected->size &&
            (out.len == 0 || memcmp(out.data, expected->data, out.len) == 0));
}

/* The first two bytes say where the texts end. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2)
        return 0;
    size_t size = n - 2, a = data[0] * size / 512, b = data[1] * (size - a) / 256;
    const struct merge_text base = {data + 2, a}, mine = {data + 2 + a, b},
                            theirs = {data + 2 + a + b, size - a - b};
    _cleanup_buf_ struct buf out = BUF_INIT(64u << 20);
    int conflicts = merge(&base, &mine, &theirs, &out);
    if (memchr(data + 2, 0, size)) {
        require(conflicts == -EILSEQ);
        return 0;
    }
    require(conflicts >= 0);
    require_same(&base, &base, &theirs, &theirs);
    require_same(&base, &mine, &base, &mine);
    require_same(&base, &mine, &mine, &mine);
    return 0;
}
