/*
 * The workspace's configuration: whoever wrote the workspace wrote it. Of a workspace that the person does
 * not trust, it may choose among the models that the person set up, and ask for less than the person allows:
 * nothing that sends anything to another place, costs more, or reads a file of the host.
 */
#include <errno.h>
#include <string.h>

#include "settings_private.h"
#include "banned.h"

#define FILE_NAME "the workspace's " CONFIG_WORKSPACE_FILE

static bool may_choose(const struct settings *s, const char *model)
{
    const char *slash = strchr(model, '/');
    return slash && slash[1] && settings_knows_provider(s, model, (size_t)(slash - model));
}

static void take_model(struct settings *s, const json_t *config, json_t *counts)
{
    json_t *model = json_object_get(config, "model");
    if (!model)
        return;
    if (may_choose(s, json_string_value(model)))
        json_object_set(counts, "model", model);
    else
        settings_note(s, FILE_NAME ": \"model\" names no provider of yours, and does not count");
}

static void take_limit(const struct settings *s, const json_t *config, const char *name, json_t *counts)
{
    json_t *limit = json_object_get(config, name);
    const json_t *own = json_object_get(s->config.own, name);
    if (limit && (!own || json_number_value(limit) < json_number_value(own)))
        json_object_set(counts, name, limit);
}

static void tell_left_out(struct settings *s, const json_t *config, bool fresh)
{
    static const char *const never[] = {"providers", "models", "embedder", "summary_prompt"};
    for (size_t i = 0; i < ARRAY_SIZE(never); i++)
        if (json_object_get(config, never[i]))
            settings_note(s, FILE_NAME ": \"%s\" does not count: %s", never[i],
                          fresh ? "the workspace is not \"trusted\" by your own configuration"
                                : "the box is not fresh, so anything in it may have written the file");
}

void settings_take_workspace(struct settings *s, json_t *config, bool fresh)
{
    json_decref(s->workspace);
    s->workspace = NULL;
    s->trusted = fresh && config_trusts(&s->config);
    if (s->trusted) {
        json_object_del(config, "trusted");
        json_object_del(config, "summary_prompt"); /* a path of the host, whoever names it */
        s->workspace = config;
        return;
    }
    json_t *counts = json_object();
    take_model(s, config, counts);
    take_limit(s, config, "max_cost", counts);
    take_limit(s, config, "max_turns", counts);
    take_limit(s, config, "max_tokens", counts);
    tell_left_out(s, config, fresh);
    s->workspace = counts;
    json_decref(config);
}

int settings_add_workspace(struct settings *s, struct tool_session *session, bool fresh, struct error *err)
{
    struct error why = {0};
    json_t *config = NULL;
    int r = config_read_workspace(session, &config, &why);
    if (r == -ENOMEM)
        return error_set(err, ENOMEM, "no memory");
    if (r < 0)
        settings_note(s, "%s", why.text);
    else if (config)
        settings_take_workspace(s, config, fresh);
    return 0;
}
