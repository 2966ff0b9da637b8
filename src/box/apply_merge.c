#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "apply_merge.h"
#include "merge.h"
#include "note.h"
#include "relpath.h"
#include "banned.h"

#define MERGED_MAX (2 * MERGE_SIZE_MAX + (1u << 20))

void apply_merged_free(struct apply_merged *m)
{
    seen_base_unref(m->bytes);
    seen_base_unref(m->mine);
    seen_base_unref(m->theirs);
    *m = (struct apply_merged){0};
}

static struct merge_text text_of(const struct seen_base *b)
{
    return b ? (struct merge_text){b->data, b->size} : (struct merge_text){"", 0};
}

/* The merged permissions are those of the side that changed them. False if both did, differently.
 */
static bool merge_modes(const struct seen_entry *seen, mode_t mine, mode_t theirs, mode_t *ret)
{
    mode_t base = seen ? seen->id.mode & 0777 : theirs & 0777;
    mine &= 0777;
    theirs &= 0777;
    *ret = mine == base ? theirs : mine;
    return mine == base || theirs == base || mine == theirs;
}

/* Merges by lines; the text is kept also with conflicts, then it has markers. */
static int merge_by_lines(const struct seen_base *base, struct apply_merged *m, struct error *err)
{
    static const struct merge_labels LABELS = {"folder", "box"};
    _cleanup_buf_ struct buf out = BUF_INIT(MERGED_MAX);
    const struct merge_text b = text_of(base), mine = text_of(m->mine), theirs = text_of(m->theirs);
    int r = merge_texts(&b, &mine, &theirs, &LABELS, &out);
    if (r == -EILSEQ || r == -E2BIG)
        return APPLY_MERGE_CONFLICT;
    if (r >= 0) {
        m->bytes = seen_base_new(out.data, out.len);
        r = m->bytes ? r : -ENOMEM;
    }
    if (r < 0)
        return error_errno(err, -r, "cannot merge");
    return r == 0 && base ? APPLY_MERGE_CLEAN : APPLY_MERGE_CONFLICT;
}

int apply_merge(struct apply *ap, int dir, const struct changes_entry *e,
                const struct identity *now, const struct seen_entry *seen, struct apply_merged *ret,
                struct error *err)
{
    struct apply_merged m = {0};
    if (!S_ISREG(now->mode) || !S_ISREG(e->mode) || (seen && !S_ISREG(seen->id.mode)))
        return APPLY_MERGE_CONFLICT;
    bool modes = merge_modes(seen, now->mode, e->mode, &m.mode);
    int r = note_read_file(dir, relpath_name(e->path), now, MERGE_SIZE_MAX, &m.mine);
    if (r == 0)
        r = apply_fetch(ap, e, MERGE_SIZE_MAX, &m.theirs, err);
    if (r == -EFBIG || r == -ESTALE || r == -EACCES || r == -ENOENT || r == -ELOOP) {
        apply_merged_free(&m);
        return APPLY_MERGE_CONFLICT;
    }
    const struct seen_base *base = r == 0 && seen ? seen->base : NULL;
    if (r < 0) {
        if (!m.theirs && m.mine == NULL)
            error_errno(err, -r, "cannot read your version");
    } else if (base && modes && seen_base_same(base, m.theirs) && m.mode == (now->mode & 0777)) {
        r = APPLY_MERGE_ONLY_FOLDER;
    } else if (base && modes && seen_base_same(base, m.mine) && m.mode == (e->mode & 0777)) {
        r = APPLY_MERGE_ONLY_BOX;
    } else {
        r = merge_by_lines(base, &m, err);
        if (r == APPLY_MERGE_CLEAN && !modes)
            r = APPLY_MERGE_MODE;
    }
    if (r < 0)
        apply_merged_free(&m);
    else
        *ret = m;
    return r;
}
