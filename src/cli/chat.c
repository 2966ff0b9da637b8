/* `hutch chat`, and `hutch` alone: an agent to work with, on a screen or line by line. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "agent_setup.h"
#include "commands.h"
#include "run_options.h"
#include "say.h"
#include "tui.h"
#include "banned.h"

#define WORDS_MAX (1u << 20)

static int join_words(int n, char **words, struct buf *out, struct error *err)
{
    for (int i = 0; i < n; i++)
        buf_printf(out, "%s%s", i ? " " : "", words[i]);
    return n && !buf_cstr(out) ? error_set(err, E2BIG, "what is said is too long") : 0;
}

static int chat(struct run_options *o, struct settings *settings, const char *first,
                struct error *err)
{
    const struct agent_options how = agent_setup_options(o, settings);
    const struct tui_options options = {.agent = &how,
                                        .apply = o->apply,
                                        .no_apply = o->no_apply,
                                        .allow_git_dirs = o->allow_git_dirs,
                                        .plain = o->plain,
                                        .first = first,
                                        .attempts = (unsigned)o->attempts,
                                        .test = o->test};
    return tui_run(&options, err);
}

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
    int r = join_words(n, argv, &first, &err);
    if (r == 0)
        r = agent_setup_ask_trust(&o, &err);
    if (r == 0)
        r = agent_setup(&o, &settings, &err);
    /* Whoever has no key is told so at once, and not on a screen that goes away. */
    if (r == 0)
        r = settings_model(settings, o.model, &spec, &err);
    if (r == 0)
        r = chat(&o, settings, n ? (const char *)first.data : NULL, &err);
    settings_free(settings);
    if (r < 0)
        say_lines(err.text);
    return r < 0 ? EXIT_HUTCH : 0;
}
