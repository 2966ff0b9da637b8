#include <errno.h>
#include <string.h>

#include "config.h"
#include "config_file.h"
#include "io.h"
#include "text.h"
#include "banned.h"

int config_read(struct config *ret, struct error *err)
{
    struct error why = {0};
    struct config c = {.file = ownfile_config_path("config.json")};
    _cleanup_buf_ struct buf text = BUF_INIT(CONFIG_MAX + 1);
    int r = c.file ? ownfile_read(c.file, &text, &why) : -ENOENT;
    if (r == -ENOENT || r == -ENOTDIR) {
        c.own = json_object();
        r = c.own ? 0 : error_set(err, ENOMEM, "out of memory");
    } else if (r < 0) {
        if (err)
            *err = why;
    } else {
        r = config_parse(c.file, text.len ? (const char *)text.data : "", text.len, &c.own, err);
    }
    if (r < 0) {
        config_free(&c);
        return r;
    }
    *ret = c;
    return 0;
}

void config_free(struct config *c)
{
    json_decref(c->own);
    json_decref(c->trusted);
    json_decref(c->untrusted);
    free(c->file);
    free(c->workspace);
    *c = (struct config){0};
}

int config_add_workspace(struct config *c, const struct trust *t, bool trust, struct error *err)
{
    const struct trust_file *f = &t->files[TRUST_CONFIG];
    json_t *config = NULL;
    char *workspace = t->folder ? strdup(t->folder) : NULL;
    if (t->folder && !workspace)
        return error_set(err, ENOMEM, "out of memory");
    free(c->workspace);
    c->workspace = workspace;
    json_decref(c->trusted);
    json_decref(c->untrusted);
    c->trusted = c->untrusted = NULL;
    c->trouble = f->unreadable;
    if (!f->exists || f->unreadable.code)
        return 0;
    if (config_parse("the workspace's " CONFIG_WORKSPACE_FILE,
                     f->text.len ? (const char *)f->text.data : "", f->text.len, &config,
                     &c->trouble) < 0)
        return 0;
    /* It names a file of the host: a workspace must not choose one, even a trusted one. */
    json_object_del(config, "summary_prompt");
    *(trust || t->state == TRUST_YES ? &c->trusted : &c->untrusted) = config;
    return 0;
}

int config_read_all(const char *workspace, bool trust, struct config *ret, struct error *err)
{
    _cleanup_config_ struct config c = {0};
    _cleanup_trust_ struct trust t = {0};
    int r = config_read(&c, err);
    if (r == 0 && workspace)
        r = trust_read(workspace, &t, err);
    if (r == 0 && workspace)
        r = config_add_workspace(&c, &t, trust, err);
    if (r < 0)
        return r;
    *ret = c;
    c = (struct config){0};
    return 0;
}
