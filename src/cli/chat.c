/* `hutch chat`, and what `chat` and `ask` have in common before an agent is opened. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent_setup.h"
#include "commands.h"
#include "git_repo.h"
#include "output.h"
#include "run_options.h"
#include "trust_ask.h"
#include "tui.h"
#include "banned.h"

int agent_setup_check(const struct run_options *o, struct error *err)
{
    if (o->apply && o->no_apply)
        return error_set(err, EINVAL, "--apply and --no-apply contradict each other");
    if (o->apply && o->spec.box.mode != BOX_COW)
        return error_set(err, EINVAL,
                         "--apply needs --mode cow: other modes keep no changes apart");
    if (o->attempts > 1 && !o->test)
        return error_set(err, EINVAL, "--attempts needs --test CMD, which scores each attempt");
    if (o->attempts > AGENT_ATTEMPTS_MAX)
        return error_set(err, EINVAL, "--attempts: at most %d", AGENT_ATTEMPTS_MAX);
    if (o->attempts > 1 && o->spec.box.mode != BOX_COW)
        return error_set(err, EINVAL,
                         "--attempts needs --mode cow: each attempt has its own files");
    if (o->attempts > 1 && o->record)
        return error_set(err, EINVAL,
                         "--record records one conversation: it cannot be used with --attempts");
    return 0;
}

/* The settings, and the workspace: -w, else SAFEDIR, else where the person is. */
static int agent_setup_read_settings(struct run_options *o, struct settings **ret,
                                     struct error *err)
{
    const char *named = o->spec.box.workspace;
    int r = named ? box_spec_resolve(&o->spec, err) : 0;
    if (r == 0)
        r = settings_read(".", named ? o->spec.box.workspace : NULL, o->trust, ret, err);
    if (r < 0)
        return r;
    if (named) {
        named = o->spec.box.workspace;
        _cleanup_free_ char *top = named ? git_repo_top(named) : NULL;
        if (top && strcmp(top, named) != 0)
            say("the workspace is only a part of a git repository, so git does not work in the "
                "box; to change that, use -w %s",
                top);
        return 0;
    }
    o->spec.box.workspace = settings_get(*ret, "SAFEDIR");
    if (!o->spec.box.workspace) {
        /* The agent gets the whole repository that the person is in, since git and most builds need
         * its top, and starts in the folder that they are in. */
        _cleanup_free_ char *here = realpath(".", NULL);
        char *top = here ? git_repo_top(here) : NULL;
        size_t n = top ? strlen(top) : 0;
        if (top && strlen(here) > n)
            snprintf(o->start, sizeof o->start, "%s", here + n + 1);
        if (top && !(o->spec.box.workspace = box_spec_keep(&o->spec, top)))
            r = error_set(err, ENOMEM, "no memory");
    }
    if (r == 0)
        r = box_spec_resolve(&o->spec, err);
    if (r < 0)
        *ret = settings_free(*ret);
    return r;
}

int agent_setup_ask_trust(const struct run_options *o, struct error *err)
{
    struct settings *s = NULL;
    const struct trust *folders[2];
    int r = 0;
    if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
        return 0;
    if (settings_read(".", o->spec.box.workspace, o->trust, &s, NULL) < 0)
        return 0; /* agent_setup() fails for the same reason and says it */
    size_t n = settings_untrusted(s, folders);
    for (size_t i = 0; i < n && r >= 0; i++) {
        json_t *items = settings_ignored(s, folders[i]);
        if (folders[i]->state != TRUST_NO)
            r = trust_ask(folders[i], items, err);
        json_decref(items);
    }
    settings_free(s);
    return r < 0 ? r : 0;
}

int agent_setup(struct run_options *o, struct settings **ret, struct error *err)
{
    size_t i;
    json_t *note;
    int r = agent_setup_read_settings(o, ret, err);
    if (r < 0)
        return r;
    if (!o->max_tokens)
        o->max_tokens = settings_max_tokens(*ret);
    if (!o->no_toolchains && !o->spec.image && box_spec_add_toolchains(&o->spec, err) < 0) {
        *ret = settings_free(*ret);
        return -ENOMEM;
    }
    json_array_foreach((json_t *)settings_notes(*ret), i, note) say("%s", json_string_value(note));
    run_options_say_notes(o);
    return 0;
}

struct agent_options agent_setup_options(const struct run_options *o, struct settings *settings)
{
    return (struct agent_options){.host = run_options_host(o),
                                  .box = &o->spec.box,
                                  .settings = settings,
                                  .model = o->model,
                                  .resume = o->resume,
                                  .system_file = o->system,
                                  .record = o->record,
                                  .box_options_given = o->spec.fields & ~(unsigned)BOX_SET_FOLDER,
                                  .max_tokens = o->max_tokens,
                                  .max_turns = (unsigned)o->max_turns,
                                  .max_cost = o->max_cost,
                                  .start = o->start[0] ? o->start : NULL};
}

#define WORDS_MAX (1u << 20)

int command_chat(const struct command *self, int argc, char **argv)
{
    _cleanup_run_options_ struct run_options o;
    _cleanup_buf_ struct buf first = BUF_INIT(WORDS_MAX);
    struct settings *settings = NULL;
    struct model_spec spec;
    struct error err = {0};
    int n = 0, status = 0;
    run_options_init_agent(&o);
    if (!command_words(self, argc, argv, &o, 0, -1, &n, &status))
        return status;
    if (agent_setup_check(&o, &err) < 0)
        return say_usage(&err);
    for (int i = 0; i < n; i++)
        buf_printf(&first, "%s%s", i ? " " : "", argv[i]);
    int r = n && !buf_cstr(&first) ? error_set(&err, E2BIG, "the first message is too long") : 0;
    if (r == 0)
        r = agent_setup_ask_trust(&o, &err);
    if (r == 0)
        r = agent_setup(&o, &settings, &err);
    /* A missing key is an error before the full-screen interface starts, which would hide it. */
    if (r == 0)
        r = settings_model(settings, o.model, &spec, &err);
    if (r == 0) {
        const struct agent_options how = agent_setup_options(&o, settings);
        const struct tui_options options = {.agent = &how,
                                            .apply = o.apply,
                                            .no_apply = o.no_apply,
                                            .allow_git_dirs = o.allow_git_dirs,
                                            .plain = o.plain,
                                            .first = n ? (const char *)first.data : NULL,
                                            .attempts = (unsigned)o.attempts,
                                            .test = o.test};
        r = tui_run(&options, &err);
    }
    settings_free(settings);
    if (r < 0)
        say_lines(err.text);
    return r < 0 ? EXIT_HUTCH : 0;
}
