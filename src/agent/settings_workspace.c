/*
 * The files of folders: what of the workspace's configuration counts, and the report of what does
 * not.
 *
 * Of a workspace that is not trusted, limits count if they are lower than the person's: nothing
 * that sends anything to another place, costs more, or runs a program.
 */
#include <errno.h>
#include <string.h>

#include "settings_private.h"
#include "banned.h"

#define NAMES_MAX 500 /* bytes of a report; the rest is counted */

static void take_limit(const struct settings *s, const char *name, json_t *counts)
{
    json_t *limit = json_object_get(s->config.untrusted, name);
    const json_t *own = json_object_get(s->config.own, name);
    if (limit && (!own || json_number_value(limit) < json_number_value(own)))
        json_object_set(counts, name, limit);
}

/* The names of what needs trust in one of the files, as a list for people. */
static size_t list_items(const json_t *items, enum trust_file_name which, struct buf *out)
{
    size_t i, count = 0, left_out = 0;
    json_t *item;
    json_array_foreach(items, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        if (strcmp(json_string_value(json_object_get(item, "file")), trust_file_path(which)) != 0)
            continue;
        if (out->len + strlen(name) > NAMES_MAX)
            left_out++;
        else
            buf_printf(out, "%s%s", count ? ", " : "", name);
        count++;
    }
    if (left_out)
        buf_printf(out, " and %zu more", left_out);
    return count;
}

static bool is_same_folder(const struct settings *s)
{
    return s->here.folder && s->work.folder && strcmp(s->here.folder, s->work.folder) == 0;
}

/* Is this file of the folder one of those that the settings are read from, and not trusted? */
static bool is_ignored(const struct settings *s, const struct trust *t, const char *file)
{
    if (strcmp(file, trust_file_path(TRUST_DOTENV)) == 0)
        return t == &s->here && !s->dotenv_trusted;
    return (t == &s->work || is_same_folder(s)) && s->config.untrusted;
}

json_t *settings_ignored(const struct settings *s, const struct trust *t)
{
    size_t i;
    json_t *item, *ignored = json_array();
    struct error trouble = {0}; /* is a note of its own */
    json_t *items = trust_items(t, &trouble);
    json_array_foreach(items, i, item)
    {
        if (is_ignored(s, t, json_string_value(json_object_get(item, "file"))))
            json_array_append(ignored, item);
    }
    json_decref(items);
    return ignored;
}

/* One line about a folder: what is ignored in which of its files, why, and what to do. */
static void report_ignored(struct settings *s, const struct trust *t)
{
    _cleanup_buf_ struct buf names = BUF_INIT(8u << 10);
    json_t *items = settings_ignored(s, t);
    size_t found = 0;
    for (size_t i = 0; i < TRUST_FILES; i++) {
        _cleanup_buf_ struct buf list = BUF_INIT(4u << 10);
        if (list_items(items, (enum trust_file_name)i, &list) == 0)
            continue;
        buf_printf(&names, "%s%s in %s", found++ ? "; " : "",
                   buf_cstr(&list) ? (char *)list.data : "",
                   trust_file_path((enum trust_file_name)i));
    }
    if (found && buf_cstr(&names))
        settings_note(s,
                      "ignored %s: the folder %s %s; `hutch trust %s` uses them from now on, "
                      "--trust for one run",
                      names.data, t->folder,
                      t->state == TRUST_CHANGED ? "has changed since you decided about it"
                                                : "is not trusted",
                      t->folder);
    json_decref(items);
}

static void report_workspace(struct settings *s)
{
    if (s->config.untrusted)
        report_ignored(s, &s->work);
    if (s->config.trouble.code)
        settings_note(s, "%s", s->config.trouble.text);
}

void settings_report(struct settings *s)
{
    if (s->here.folder)
        report_ignored(s, &s->here);
    if (!is_same_folder(s))
        report_workspace(s);
    else if (s->config.trouble.code)
        settings_note(s, "%s", s->config.trouble.text);
}

int settings_load_workspace(struct settings *s, const char *folder, struct error *err)
{
    if (s->config.trusted) /* specs of other agents borrow from it */
        json_array_append(s->kept, s->config.trusted);
    trust_free(&s->work);
    json_decref(s->workspace);
    s->workspace = NULL;
    trust_read(folder, &s->work, NULL); /* making a box of a folder that is gone says so */
    int r = config_add_workspace(&s->config, &s->work, s->trust_run, err);
    if (r < 0)
        return r;
    if (s->config.trusted) {
        s->workspace = json_incref(s->config.trusted);
    } else if (s->config.untrusted) {
        s->workspace = json_object();
        take_limit(s, "max_cost", s->workspace);
        take_limit(s, "max_turns", s->workspace);
        take_limit(s, "max_tokens", s->workspace);
    }
    return 0;
}

int settings_set_workspace(struct settings *s, const char *folder, struct error *err)
{
    _cleanup_free_ char *path = realpath(folder, NULL);
    if (s->work.folder && path && strcmp(s->work.folder, path) == 0)
        return 0;
    int r = settings_load_workspace(s, folder, err);
    if (r < 0)
        return r;
    report_workspace(s);
    return 1;
}

size_t settings_untrusted(const struct settings *s, const struct trust *ret[2])
{
    size_t n = 0;
    const struct trust *folders[] = {s->here.folder ? &s->here : NULL,
                                     s->work.folder && !is_same_folder(s) ? &s->work : NULL};
    for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
        json_t *items = folders[i] ? settings_ignored(s, folders[i]) : NULL;
        if (json_array_size(items) > 0)
            ret[n++] = folders[i];
        json_decref(items);
    }
    return n;
}

int settings_config(const struct settings *s, struct config *ret, struct error *err)
{
    const struct config *c = &s->config;
    struct config copy = {.file = c->file ? strdup(c->file) : NULL,
                          .workspace = c->workspace ? strdup(c->workspace) : NULL,
                          .own = json_incref(c->own),
                          .trusted = json_incref(c->trusted),
                          .untrusted = json_incref(c->untrusted),
                          .trouble = c->trouble,
                          .reported = true};
    if ((c->file && !copy.file) || (c->workspace && !copy.workspace)) {
        config_free(&copy);
        return error_set(err, ENOMEM, "no memory");
    }
    *ret = copy;
    return 0;
}
