/*
 * Opening and closing an agent, and what a frontend asks of it between turns.
 *
 * What takes longest starts first: the box, in a process of its own. The first turn waits for it. A
 * resumed session has its box, with all that runs in it, if that still exists; else a new one with
 * the changes that were saved beside the history. The person and the model learn what is gone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent_session.h"
#include "json.h"
#include "thread.h"
#include "box_host.h"
#include "memory.h"
#include "net_policy.h"
#include "prompt.h"
#include "session.h"
#include "banned.h"

#define PROMPT_NOTES_MAX (64u << 10)

void agent_emit(struct agent *a, const struct agent_event *e)
{
    if (a->sink.event)
        a->sink.event(a->sink.data, e);
}

void agent_note(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    agent_emit(a, &(struct agent_event){.kind = AGENT_NOTE, .text = text, .n = strlen(text)});
}

void prompt_note_printf(struct agent *a, const char *fmt, ...)
{
    char text[2 * ERROR_TEXT_MAX];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_printf(&a->prompt_notes, "[%s]\n", text);
}

void prompt_note(struct agent *a, const char *text, size_t n)
{
    if (a->prompt_notes.len + n + 1 > a->prompt_notes.max) /* the model can look for itself */
        return;
    buf_append(&a->prompt_notes, text, n);
    buf_append(&a->prompt_notes, "\n", 1);
}

void agent_add_background(struct agent *a, uint64_t handle, const char *command)
{
    if (a->n_running == ARRAY_SIZE(a->running))
        return;
    struct running *r = &a->running[a->n_running++];
    r->handle = handle;
    if (snprintf(r->command, sizeof r->command, "%s", command) >= (int)sizeof r->command)
        r->command[sizeof r->command - 1 -
                   utf8_cut_end((const uint8_t *)r->command, sizeof r->command - 1)] = 0;
    for (char *at = r->command; *at; at++)
        if ((unsigned char)*at < ' ')
            *at = ' ';
}

void agent_forget_background(struct agent *a, size_t i)
{
    memmove(&a->running[i], &a->running[i + 1], (--a->n_running - i) * sizeof *a->running);
}

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
    tool_schemas_free(a->schemas);
    buf_free(&a->prompt_notes);
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
        return error_set(err, ENOMEM, "out of memory");
    a->options = *o;
    a->box_options = *o->box;
    a->sink = sink ? *sink : (struct agent_sink){0};
    a->prompt_notes = BUF_INIT(PROMPT_NOTES_MAX);
    a->cancel = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (a->cancel < 0) {
        agent_free(a);
        return error_errno(err, errno, "cannot start an agent");
    }
    *ret = a;
    return 0;
}

static void agent_set_spec(struct agent *a, const struct model_spec *spec)
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
    agent_set_spec(a, spec);
    return 0;
}

/* Undone turns count as well: they were paid for. */
void agent_restore_usage(struct agent *a)
{
    struct history_totals t;
    history_totals(a->history, &t);
    a->usage = (struct model_usage){.known = t.input || t.output,
                                    .input = t.input,
                                    .output = t.output,
                                    .cache_read = t.cache_read,
                                    .cache_write = t.cache_write};
    a->money = (struct agent_money){.known = t.cost >= 0, .cost = t.cost >= 0 ? t.cost : 0};
}

/* Those that the history has of this very box; whether they still run is checked when it
 * matters. */
static void agent_restore_background(struct agent *a)
{
    for (size_t i = 0; i < history_count(a->history); i++) {
        _cleanup_json_ json_t *m = NULL;
        const struct history_entry *e = history_entry(a->history, i);
        if (e->role != HISTORY_HUTCH || e->kind != HISTORY_OTHER ||
            history_read(a->history, i, &m, NULL) < 0)
            continue;
        const char *command = json_get_string(m, "command");
        if (command && strcmp(json_get_string_or(m, "kind", ""), "background") == 0 &&
            strcmp(json_get_string_or(m, "box", ""), workbox_id(a->box)) == 0)
            agent_add_background(a, (uint64_t)json_get_integer(m, "handle"), command);
    }
}

static int resume_remake_box(struct agent *a, bool had_one, struct error *err)
{
    struct error why = {0};
    struct box_options *o = &a->box_options;
    _cleanup_free_ char *path = NULL;
    int r = 0;
    if (o->workspace) { /* it may come from the history, which is untrusted input */
        r = host_folder_resolve(o->workspace, &path);
        if (r < 0)
            return error_errno(err, -r, "cannot open the folder of this session, '%s'",
                               o->workspace);
        const char *refusal = host_folder_refuse(path, o->mode == BOX_DIRECT);
        if (refusal)
            return error_set(err, EINVAL, "the workspace cannot be '%s': %s", path, refusal);
    }
    r = workbox_new(o, &a->box, err);
    if (r < 0 || !had_one)
        return r;
    r = workbox_ready(a->box, err);
    if (r < 0)
        return r;
    int missing = agent_load(a, &why);
    if (missing < 0)
        agent_note(a, "cannot restore the saved changes: %s", why.text);
    else if (missing > 0)
        agent_note(a, "%s", why.text);
    agent_note(a,
               "the box of this session no longer exists: created a new one and applied the saved "
               "changes of the workspace. Files elsewhere (/tmp, the home folder) and background "
               "processes are lost");
    prompt_note_printf(a,
                       "The sandbox was recreated: files of /workspace are as they were%s; other "
                       "files (/tmp, the home folder), shell variables and background processes "
                       "are gone.",
                       missing ? ", but some could not be restored" : "");
    return 0;
}

static int agent_resume(struct agent *a, struct error *err)
{
    struct stat written;
    bool repaired = false;
    int r =
        history_open(a->options.histories, a->options.resume, false, &a->history, &repaired, err);
    if (r < 0)
        return r;
    if (stat(history_path(a->history), &written) == 0)
        a->watch_since = (int64_t)written.st_mtim.tv_sec * NS_PER_S + written.st_mtim.tv_nsec;
    if (repaired)
        agent_note(a, "the last message was written only in part and is left out");
    const char *workspace = history_workspace(a->history), *given = a->box_options.workspace;
    if (workspace && (!given || strcmp(workspace, given) != 0)) {
        agent_note(a, "this session works on %s", workspace);
        a->box_options.workspace = workspace;
    }

    /* The box that the history names last, and the folder that it was made over. */
    _cleanup_json_ json_t *last = history_last(a->history, "box");
    const json_t *folder = json_object_get(last, "folder");
    const char *id = json_get_string(last, "box");
    a->box_recorded = id && workbox_find(id, &a->box, NULL) == 0;
    agent_remember_folder(a);
    if (json_array_size(folder) == 2) {
        a->folder.dev = (dev_t)json_integer_value(json_array_get(folder, 0));
        a->folder.ino = (ino_t)json_integer_value(json_array_get(folder, 1));
        a->folder_known = a->box_options.workspace != NULL;
    }
    /* A folder that the box itself writes is never walked by the host. */
    a->folder_known &= (a->box_recorded ? a->box->mode : a->box_options.mode) == BOX_COW;

    if (a->box_recorded && a->options.box_options_given)
        agent_note(a, "this session's box still exists; box options do not change it");
    if (!a->box_recorded)
        r = resume_remake_box(a, id != NULL, err);
    if (r < 0)
        return r;
    agent_restore_usage(a);
    if (a->box_recorded)
        agent_restore_background(a);
    agent_check_folder(a, !a->box_recorded);
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
    if (r == 0 && o->resume) {
        r = agent_resume(a, err);
    } else if (r == 0) {
        agent_remember_folder(a);
        r = workbox_new(&a->box_options, &a->box, err);
        if (r == 0)
            r = history_new(a->options.histories, a->box_options.workspace, NULL, 0, &a->history,
                            err);
    }
    if (r == 0)
        r = agent_use_model(a, &spec, err);
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

static void agent_note_trouble(void *data, const char *text)
{
    agent_note(data, "%s", text);
}

int agent_set_host(struct agent *a, struct error *err)
{
    struct tool_host host = a->options.host;
    if (a->options.foreign)
        return 0;
    host.clone_max = a->box_options.limits.disk;
    return tool_session_set_host(a->tools, &host, err);
}

static int agent_add_tools(struct agent *a, struct error *err)
{
    struct settings *settings = a->options.settings;
    struct config config = {0};
    struct model_spec spec = {0};
    struct error why = {0};
    int r = tool_session_new(a->box->box, &a->tools, err);
    if (r == 0)
        r = agent_set_host(a, err);
    if (r == 0)
        r = settings_config(settings, &config, err);
    if (r == 0)
        r = tool_sources_add(a->tools, &config, err);
    if (r < 0)
        return r;
    /* The memory uses vectors only where the person's configuration names a model for them. */
    const char *embedder = json_string_value(settings_member(settings, "embedder"));
    if (embedder && !a->embedder &&
        (settings_model(settings, embedder, &spec, &why) < 0 ||
         model_open(&spec, &a->embedder, &why) < 0))
        agent_note(a, "the memory searches words only: %s", why.text);
    struct memory_options o = {.folder = a->options.histories,
                               .embedder = a->embedder ? model_spec_of(a->embedder)->name : NULL,
                               .model = a->embedder};
    struct tool_source *memory = memory_tools(a->history, &o);
    if (!memory || tool_session_add(a->tools, memory) < 0)
        return error_set(err, ENOMEM, "out of memory");
    return tool_schemas_new(a->tools, agent_note_trouble, a, &a->schemas, err);
}

/* A resumed session may work on another folder than the settings were read for: then the settings
 * there choose the model. */
static int agent_set_workspace(struct agent *a, struct error *err)
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
    agent_set_spec(a, &spec);
    return 0;
}

static int agent_renew_context(struct agent *a, struct error *err)
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

/* The shell starts where the person is; it keeps its folder from call to call. */
static int agent_enter_start_folder(struct agent *a, struct error *err)
{
    struct box_result result = {0};
    if (!a->options.start || a->options.resume || history_turns(a->history) > 0)
        return 0;
    _cleanup_free_ char *folder = NULL;
    if (asprintf(&folder, "HUTCH_START=/workspace/%s", a->options.start) < 0) {
        folder = NULL;
        return error_set(err, ENOMEM, "out of memory");
    }
    const char *const env[] = {folder, NULL};
    const struct box_command c = {.shell = "main",
                                  .script = "cd -- \"$HUTCH_START\"; unset HUTCH_START",
                                  .env = (char *const *)env,
                                  .in = -1,
                                  .out = -1,
                                  .err = -1,
                                  .cancel = -1};
    int r = box_exec(a->box->box, &c, &result, err);
    box_result_free(&result);
    return r;
}

int agent_ready(struct agent *a, struct error *err)
{
    if (a->context)
        return 0;
    int r = workbox_ready(a->box, err);
    if (r == 0 && !a->system)
        r = agent_set_workspace(a, err);
    if (r == 0 && !a->tools) {
        r = agent_add_tools(a, err);
        if (r == 0)
            r = agent_enter_start_folder(a, err);
    }
    if (r == 0 && !a->summary_prompt)
        r = settings_summary_prompt(a->options.settings, &a->summary_prompt, err);
    if (r == 0 && !a->system) {
        static const char *const modes[] = {
            [BOX_COW] = "cow", [BOX_DIRECT] = "direct", [BOX_RO] = "ro"};
        const struct box_options *box = &a->box_options;
        _cleanup_buf_ struct buf network = BUF_INIT(PROMPT_NOTES_MAX);
        box->net->explain(box, &network);
        struct system_prompt_options o = {.file = a->options.system_file,
                                          .session = history_id(a->history),
                                          .network = buf_cstr(&network),
                                          .mode = modes[a->box_options.mode],
                                          .workspace = box->workspace,
                                          .start = a->options.resume ? NULL : a->options.start,
                                          .unattended = a->options.unattended,
                                          .pristine = a->box->pristine && a->box->plain,
                                          .trouble = agent_note_trouble,
                                          .data = a};
        r = system_prompt(a->tools, &o, &a->system, err);
    }
    if (r == 0 && !a->model)
        r = agent_use_model(a, &a->spec, err);
    if (r == 0)
        r = agent_renew_context(a, err);
    if (r == 0) {
        _cleanup_json_ json_t *last = history_last(a->history, "plan");
        const json_t *items = json_object_get(last, "items");
        tool_session_set_plan(a->tools,
                              json_is_array(items) ? json_deep_copy(items) : json_array());
    }
    return r;
}

void agent_interrupt(struct agent *a)
{
    const uint64_t one = 1;
    if (write(a->cancel, &one, sizeof one) < 0) {
        /* Only a full counter makes it fail, and then it is readable anyway. */
    }
}

void agent_forget_interrupt(struct agent *a)
{
    uint64_t count;
    if (read(a->cancel, &count, sizeof count) < 0) {
        /* There was none. */
    }
}

int agent_notice(struct agent *a, struct error *err)
{
    uint64_t calls = a->tools ? tool_session_changes(a->tools) : 0;
    if (calls == a->calls_seen)
        return 0;
    a->calls_seen = calls;
    a->pending_known = false;
    a->box->pristine = a->box->delivered = false;
    return agent_record_box(a, err);
}

int agent_set_model(struct agent *a, const char *given, struct error *err)
{
    struct model_spec spec;
    int r = settings_model(a->options.settings, given, &spec, err);
    if (r == 0)
        r = agent_use_model(a, &spec, err);
    return r == 0 && a->context ? agent_renew_context(a, err) : r;
}

int agent_compact(struct agent *a, struct error *err)
{
    int r = agent_ready(a, err);
    return r < 0 ? r : context_compact(a->context, a->model, a->cancel, &a->sink, err);
}

int agent_clear(struct agent *a, struct error *err)
{
    int r = agent_ready(a, err);
    if (r == 0)
        r = agent_append(a, message_of_hutch("cleared", "{}"), err);
    if (r < 0)
        return r;
    a->prompt_notes.len = 0;
    tool_session_set_plan(a->tools, json_array());
    return agent_renew_context(a, err);
}

void agent_state(struct agent *a, struct agent_state *ret)
{
    *ret = (struct agent_state){.session = history_id(a->history),
                                .model = a->model_name,
                                .workspace = a->box_options.workspace,
                                .turns = history_turns(a->history),
                                .context = a->context ? context_tokens(a->context) : 0,
                                .window = a->facts.window,
                                .usage = a->usage,
                                .money = a->money,
                                .running = a->n_running};
}

struct history *agent_history(struct agent *a)
{
    return a->history;
}

struct tool_session *agent_tools(struct agent *a)
{
    return agent_ready(a, NULL) < 0 ? NULL : a->tools;
}

const char *agent_box(struct agent *a)
{
    return workbox_ready(a->box, NULL) < 0 ? NULL : workbox_id(a->box);
}

struct agent *agent_close(struct agent *a, bool keep)
{
    struct agent_changes left = {0};
    if (!a)
        return NULL;
    agent_notice(a, NULL);
    if (keep && !a->pending_known && (a->box_recorded || a->turn.changed) &&
        agent_changes(a, &left, NULL) < 0)
        a->pending = 1; /* not known: keep the box */
    agent_changes_free(&left);
    workbox_free(TAKE_PTR(a->box), !(keep && a->pending > 0));
    return agent_free(a);
}

struct agent *agent_leave(struct agent *a)
{
    if (!a)
        return NULL;
    agent_notice(a, NULL);
    workbox_free(TAKE_PTR(a->box), !a->box_recorded);
    return agent_free(a);
}
