/*
 * An agent's beginning and end, and what a door may ask of it between turns.
 *
 * The order of the beginning is that of what takes longest: the box is begun first, in a process of
 * its own (before libcurl is loaded with all it needs, so that the box's keeper stays small), and
 * waited for when the first turn needs it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent_private.h"
#include "folder_watch.h"
#include "guestfile.h"
#include "memory.h"
#include "sources.h"
#include "system.h"
#include "banned.h"

#define ASIDE_MAX (64u << 10)

struct agent *agent_free(struct agent *a)
{
    if (!a)
        return NULL;
    context_free(a->context);
    tool_session_free(a->tools);
    model_close(a->model);
    model_close(a->embedder);
    workbox_free(a->box, false);
    history_close(a->history);
    agent_forget_background(a);
    tool_schemas_free(a->schemas);
    buf_free(&a->aside);
    folder_watch_free(a->watch);
    free(a->system);
    free(a->summary_prompt);
    cleanup_close(&a->cancel);
    free(a);
    return NULL;
}

int agent_new(const struct agent_options *o, const struct agent_sink *sink, struct agent **ret,
              struct error *err)
{
    struct agent *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(err, ENOMEM, "no memory");
    a->options = *o;
    a->box_options = *o->box;
    a->sink = sink ? *sink : (struct agent_sink){0};
    a->aside = BUF_INIT(ASIDE_MAX);
    a->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->cancel < 0) {
        agent_free(a);
        return error_errno(err, errno, "cannot start an agent");
    }
    *ret = a;
    return 0;
}

static void take_spec(struct agent *a, const struct model_spec *spec)
{
    a->spec = *spec;
    a->spec.record = a->options.record;
    settings_facts(a->options.settings, spec, &a->facts);
    snprintf(a->model_name, sizeof a->model_name, "%s/%s", spec->provider, spec->name);
}

int agent_use_model(struct agent *a, const struct model_spec *spec, struct error *err)
{
    struct model *m = NULL;
    struct model_spec with = *spec;
    with.record = a->options.record;
    int r = model_open(&with, &m, err);
    if (r < 0)
        return r;
    model_close(a->model);
    a->model = m;
    take_spec(a, spec);
    return 0;
}

static int begin_session(struct agent *a, struct error *err)
{
    if (a->options.resume)
        return agent_resume(a, err);
    agent_remember_folder(a);
    int r = workbox_new(&a->box_options, &a->box, err);
    return r < 0 ? r : history_new(a->box_options.workspace, NULL, 0, &a->history, err);
}

/* A model over HTTP is opened when the box is up: until then a thread loads libcurl. */
static int begin_model(struct agent *a, const struct model_spec *spec, struct error *err)
{
    if (spec->api == MODEL_REPLAY)
        return agent_use_model(a, spec, err);
    model_prepare();
    take_spec(a, spec);
    return 0;
}

int agent_open(const struct agent_options *o, const struct agent_sink *sink, struct agent **ret,
               struct error *err)
{
    struct agent *a = NULL;
    struct model_spec spec;
    int r = settings_model(o->settings, o->model, &spec, err);
    if (r == 0)
        r = agent_new(o, sink, &a, err);
    if (r == 0)
        r = begin_session(a, err);
    if (r == 0)
        r = begin_model(a, &spec, err);
    if (r == 0)
        history_defer(a->history);
    if (r == 0 && a->folder_known && !a->folder_replaced)
        a->watch = folder_watch_new(a->box_options.workspace);
    if (r < 0) {
        if (a)
            workbox_free(TAKE_PTR(a->box), !o->resume);
        agent_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

static void tell_trouble(void *data, const char *text)
{
    agent_note(data, "%s", text);
}

/* Vectors are asked for only where the person's configuration names a model for them. */
static const char *open_embedder(struct agent *a)
{
    struct error err = {0};
    struct model_spec spec = {0};
    const char *given = json_string_value(settings_member(a->options.settings, "embedder"));
    if (!given)
        return NULL;
    if (settings_model(a->options.settings, given, &spec, &err) < 0 ||
        model_open(&spec, &a->embedder, &err) < 0)
        agent_note(a, "the memory goes by words only: %s", err.text);
    return a->embedder ? model_spec_of(a->embedder)->name : NULL;
}

static int add_memory(struct agent *a, struct error *err)
{
    struct memory_options o = {.embedder = a->embedder ? model_spec_of(a->embedder)->name
                                                       : open_embedder(a),
                               .model = a->embedder};
    o.model = a->embedder;
    struct tool_source *memory = memory_tools(a->history, &o);
    if (!memory || tool_session_add(a->tools, memory) < 0)
        return error_set(err, ENOMEM, "no memory");
    return 0;
}

int agent_set_host(struct agent *a, struct error *err)
{
    struct tool_host host = a->options.host;
    host.clone_max = a->box_options.limits.disk;
    return tool_session_set_host(a->tools, &host, err);
}

static int add_tools(struct agent *a, struct error *err)
{
    struct config config = {0};
    int r = tool_session_new(workbox_tools(a->box), "main", &a->tools, err);
    if (r == 0)
        r = agent_set_host(a, err);
    if (r == 0)
        r = settings_config(a->options.settings, &config, err);
    if (r == 0)
        r = tool_sources_add(a->tools, &config, err);
    if (r == 0)
        r = add_memory(a, err);
    return r == 0 ? tool_schemas_new(a->tools, tell_trouble, a, &a->schemas, err) : r;
}

/* A session that is resumed may work on another folder than the settings were read for: then the
 * model is what the settings say there. */
static int set_workspace(struct agent *a, struct error *err)
{
    struct settings *s = a->options.settings;
    struct model_spec spec;
    size_t told = json_array_size(settings_notes(s));
    int r = a->box_options.workspace ? settings_set_workspace(s, a->box_options.workspace, err) : 0;
    if (r <= 0)
        return r;
    for (size_t i = told; i < json_array_size(settings_notes(s)); i++)
        agent_note(a, "%s", json_string_value(json_array_get(settings_notes(s), i)));
    r = settings_model(s, a->options.model, &spec, err);
    if (r < 0)
        return r;
    a->model = model_close(a->model);
    take_spec(a, &spec);
    return 0;
}

int agent_renew_context(struct agent *a, struct error *err)
{
    struct context *c = NULL;
    struct context_options o = {.window = a->facts.window,
                                .reserve = a->facts.max_output,
                                .system = a->system,
                                .tools = tool_schemas_list(a->schemas),
                                .summary_prompt = a->summary_prompt};
    int r = context_new(a->history, &o, &c, err);
    if (r < 0)
        return r;
    context_free(a->context);
    a->context = c;
    return 0;
}

static const char *network_of(const struct box_options *o, struct buf *text)
{
    if (o->net != BOX_NET_ALLOW)
        return o->net == BOX_NET_HOST ? "host" : "off";
    for (size_t i = 0; i < o->n_allow; i++)
        buf_printf(text, "%s%s", i ? ", " : "", o->allow[i]);
    return buf_cstr(text) ? (const char *)text->data : "off";
}

static int make_system(struct agent *a, struct error *err)
{
    static const char *const modes[] = {
        [BOX_COW] = "cow", [BOX_DIRECT] = "direct", [BOX_RO] = "ro"};
    _cleanup_buf_ struct buf network = BUF_INIT(ASIDE_MAX);
    _cleanup_free_ char *note = NULL;
    struct system_options o = {.file = a->options.system_file,
                               .session = history_id(a->history),
                               .network = network_of(&a->box_options, &network),
                               .mode = modes[a->box_options.mode],
                               .start = a->options.resume ? NULL : a->options.start,
                               .unattended = a->options.unattended};
    int r = system_prompt(a->tools, &o, &a->system, &note, err);
    if (r == 0 && note)
        agent_note(a, "%s", note);
    return r;
}

static void restore_plan(struct agent *a)
{
    json_t *last = history_last(a->history, "plan");
    const json_t *items = json_object_get(last, "items");
    tool_session_set_plan(a->tools, json_is_array(items) ? json_deep_copy(items) : json_array());
    json_decref(last);
}

/* The shell begins where the person is: its folder stays from call to call. */
static int enter_start(struct agent *a, struct error *err)
{
    struct box_result result = {0};
    if (!a->options.start || a->options.resume || history_turns(a->history) > 0)
        return 0;
    _cleanup_free_ char *folder = NULL;
    if (asprintf(&folder, "HUTCH_START=/workspace/%s", a->options.start) < 0) {
        folder = NULL;
        return error_set(err, ENOMEM, "no memory");
    }
    const char *const env[] = {folder, NULL};
    const struct box_command c = {.shell = "main",
                                  .script = "cd -- \"$HUTCH_START\"; unset HUTCH_START",
                                  .env = (char *const *)env,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .cancel = -1};
    int r = tool_box_exec(workbox_tools(a->box), &c, &result, err);
    box_result_free(&result);
    return r;
}

int agent_ready(struct agent *a, struct error *err)
{
    if (a->context)
        return 0;
    int r = workbox_ready(a->box, err);
    if (r == 0 && !a->system)
        r = set_workspace(a, err);
    if (r == 0 && !a->tools) {
        r = add_tools(a, err);
        if (r == 0)
            r = enter_start(a, err);
    }
    if (r == 0 && !a->summary_prompt)
        r = settings_summary_prompt(a->options.settings, &a->summary_prompt, err);
    if (r == 0 && !a->system)
        r = make_system(a, err);
    if (r == 0 && !a->model)
        r = agent_use_model(a, &a->spec, err);
    if (r == 0)
        r = agent_renew_context(a, err);
    if (r == 0)
        restore_plan(a);
    return r;
}
