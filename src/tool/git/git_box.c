#include <stdlib.h>
#include <string.h>

#include "git_box.h"
#include "git_identity.h"
#include "git_mask.h"
#include "banned.h"

/* One value in quotes. */
static void put_value(struct buf *b, const char *key, const char *value)
{
    buf_printf(b, "\t%s = \"", key);
    for (; *value; value++)
        buf_printf(b, "%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
    buf_append_str(b, "\"\n");
}

static void give_identity(struct box_options *o, const char *folder, char text[BOX_GIT_SIZE])
{
    char name[GIT_IDENTITY_SIZE], email[GIT_IDENTITY_SIZE];
    _cleanup_buf_ struct buf b = BUF_INIT(BOX_GIT_SIZE - 1);
    git_identity(folder, name, email);
    if (!name[0] && !email[0])
        return;
    buf_append_str(&b, "[user]\n");
    if (name[0])
        put_value(&b, "name", name);
    if (email[0])
        put_value(&b, "email", email);
    if (b.failed || !buf_cstr(&b))
        return;
    snprintf(text, BOX_GIT_SIZE, "%s", (const char *)b.data);
    o->git_config = text;
}

void git_box_prepare(struct box_options *o, bool always, struct git_box *ret)
{
    const char *folder = o->workspace ? o->workspace : "/";
    _cleanup_buf_ struct buf mask = BUF_INIT(BOX_GIT_MASK_SIZE - 1);
    *ret = (struct git_box){0};
    if (!always && !git_repo_is_above(folder))
        return;
    give_identity(o, folder, ret->identity);
    if (o->mode == BOX_COW && o->workspace && git_mask_config(o->workspace, &mask) > 0 &&
        buf_cstr(&mask)) {
        ret->mask = strdup((const char *)mask.data);
        o->git_mask = ret->mask ? ret->mask : "";
    }
    git_worktree_show(o, &ret->worktree);
}

int git_box_install(const struct git_box *g, struct box *box, struct error *err)
{
    return git_worktree_install(&g->worktree, box, err);
}

void git_box_free(struct git_box *g)
{
    git_worktree_free(&g->worktree);
    free(g->mask);
    g->mask = NULL;
}
