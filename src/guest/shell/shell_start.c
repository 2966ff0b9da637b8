/* Starting a shell: what it shares with the guest, its prelude and its process. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "error.h"
#include "io.h"
#include "shell/shell.h"
#include "thread.h"
#include "banned.h"

#define PRELUDE_MAX   8192
#define FILES_FEW     128 /* below this, descriptors are left to the script */
#define WARM_PATIENCE (2 * NS_PER_S)
#define COLD_PATIENCE (10 * NS_PER_S)
#define WORD_MAX      (128u << 10) /* the longest argument that the kernel passes to a program */

/* A descriptor above which bash keeps its report while the script runs: out of reach of every
 * command, and of the numbers that scripts choose. The low one is for shells that may have few. */
#define PRELUDE_HIGH 59
#define PRELUDE_LOW  7

/*
 * The prelude: the commands that restore a session, wait for a script, run it and save.
 *
 * The text is one line, so that the line numbers of a script's messages are the script's own. It
 * uses only what no function of the session can shadow (`builtin`, `command`, keywords), and forks
 * nothing.
 *
 * The report (6) must be there at the end, but no command may see it. A compound command with
 * `6>&59` does that: bash keeps a copy of 6 for the time after, close-on-exec, at the first free
 * descriptor above 59, and puts it back before the EXIT trap runs. (`6>&-` alone would keep it at
 * 10, where scripts have files of their own.) Inside, 6 and 59 are closed at once. Where `exit` is
 * called in a function the trap runs before bash has put 6 back; then the copy is there to be
 * written to.
 */

/* The state, on the way out. Whatever the script set must not be seen or felt here. */
#define SAVE(to)                                                                                   \
    "{ builtin pwd; builtin printf \"\\0\"; builtin export -p; builtin printf \"\\0\"; builtin "   \
    "declare -f;"                                                                                  \
    " builtin declare -Fx; builtin printf \"\\0end\\0\"; } >&" to
#define QUIET "builtin set +euvx +o posix"

/* For `bash --norc --noprofile -c TEXT bash`. */
static int prelude_put_bash(struct buf *b, int anchor)
{
    int high = anchor < 9 ? 10 : anchor + 1; /* where the copy is */
    buf_printf(b, "{ command exec 2>&1 6<&- %d<&-;", anchor);
    /* The session as it was. PATH came along to find bash by. */
    buf_append_str(b, " builtin mapfile -d '' -t -n 3 -u 4 __hutch;"
                      " { builtin unset -v PATH SHLVL; builtin eval \"${__hutch[1]}\";"
                      " builtin eval \"${__hutch[2]}\"; builtin declare -x PWD=\"${__hutch[0]}\"; }"
                      " >/dev/null 2>&1; builtin unset -v BASH_EXECUTION_STRING;");
    buf_printf(b,
               " builtin trap '[[ $__hutch == done ]] || { " QUIET
               "; " SAVE("%d") " || " SAVE("6") "; }"
                                                " 2>/dev/null' EXIT;",
               high);
    /* Here it waits. */
    buf_append_str(b,
                   " IFS= builtin read -r -u 3 '__hutch[3]' || { __hutch=done; builtin exit 125; };"
                   " builtin mapfile -d '' -t -n 3 -O 3 -u 4 __hutch; SECONDS=0;");
    /* The folders: the session's, which may be gone, and the call's. */
    buf_printf(b,
               " if [[ . -ef ${__hutch[0]} ]] || builtin cd -- \"${__hutch[0]}\" 2>/dev/null;"
               " then builtin printf 'taken\\0\\0' >&%d; else builtin cd /workspace 2>/dev/null || "
               "builtin cd /;"
               " builtin printf 'taken\\0gone\\0' >&%d; fi;"
               " if [[ ${__hutch[3]} ]]; then __hutch=$OLDPWD;"
               " if builtin cd -- \"${__hutch[3]}\" 2>&%d >/dev/null;"
               " then builtin declare -x OLDPWD=\"$__hutch\"; else __hutch=done; builtin exit 126; "
               "fi; fi;",
               high, high, high);
    /* The text is copied before the variable is given another value, so the script does not see
     * itself. */
    buf_append_str(
        b, " if [[ ${__hutch[4]} ]]; then command exec <&5; fi; command exec 3<&- 4<&- 5<&-;"
           " __hutch=(\"${__hutch[5]}\"); builtin eval \"$__hutch${_:$((__hutch=0)):0}\";");
    buf_printf(b,
               " } 6>&%d; { __hutch=$?; " QUIET
               "; " SAVE("6") "; __hutch=(done $__hutch); } 2>/dev/null;"
                              " builtin exit ${__hutch[1]}",
               anchor);
    return b->failed ? -ENOMEM : 0;
}

#define SAVE_SH                                                                                    \
    "{ set +eux; { pwd; printf \"\\\\0\"; export -p; printf \"\\\\0\\\\0end\\\\0\"; } >&6; } "     \
    "2>/dev/null"

/* For `sh -c TEXT sh EXPORTS FOLDER CWD HAS_INPUT SCRIPT`, which is not started before its call. */
static const char PRELUDE_SH[] =
    "unset PATH; eval \"$1\" >/dev/null 2>&1; trap '[ \"$__hutch\" = done ] || " SAVE_SH "' 0;"
    " if cd -- \"$2\" 2>/dev/null; then printf 'taken\\0\\0' >&6;"
    " else cd /workspace 2>/dev/null || cd /; printf 'taken\\0gone\\0' >&6; fi;"
    " if [ \"$3\" ] && ! cd -- \"$3\" 2>&6 >/dev/null; then __hutch=done; exit 126; fi;"
    " if [ \"$4\" ]; then exec <&5; fi; exec 3<&- 4<&- 5<&-; __hutch=$5; shift 5;"
    " { eval \"$__hutch\"; } 6>&-; { __hutch=$?; } 2>/dev/null; " SAVE_SH
    "; eval \"__hutch=done; exit $__hutch\"";

/* Everything that is needed until the process runs. */
struct shell_parts {
    struct spawn spawn;
    int wake; /* the shell's end */
    struct buf prelude;
    struct buf pwd; /* PWD=… */
    char *envp[1024];
    char *argv[16];
};

static void shell_parts_free(struct shell_parts *p)
{
    spawn_close(&p->spawn);
    cleanup_close(&p->wake);
    buf_free(&p->prelude);
    buf_free(&p->pwd);
}

/* What the shell and the guest share, with the session's state in it. Offsets are shared, too, so
 * the guest reads and writes at offsets that it names. */
static int shell_open_shared(struct shell *s, struct shell_parts *p, const struct state *st)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    p->wake = ends[0];
    s->wake = ends[1];
    s->payload = memfd_create("payload", MFD_CLOEXEC);
    s->input = memfd_create("input", MFD_CLOEXEC);
    s->report = memfd_create("report", MFD_CLOEXEC);
    if (s->payload < 0 || s->input < 0 || s->report < 0)
        return -errno;
    _cleanup_buf_ struct buf b = BUF_INIT(2 * STATE_MAX);
    buf_append(&b, st->cwd, st->cwd_len);
    buf_append(&b, "", 1);
    buf_append(&b, st->exports, strlen(st->exports) + 1);
    if (buf_append(&b, st->functions, strlen(st->functions) + 1) < 0)
        return -ENOMEM;
    s->payload_size = b.len;
    return io_write_at(s->payload, b.data, b.len, 0);
}

/*
 * Variables go into the payload, not into the environment: what bash obeys at its start (BASH_ENV,
 * SHELLOPTS) would act before the script does. Left are PATH, to find the shell by, the folder as
 * the session calls it, and names that no shell has variables for.
 */
static int shell_make_env(struct shell_parts *p, const struct session *s, const struct state *st)
{
    const char *path = "PATH=" SEARCH_PATH_DEFAULT;
    size_t n = 0;
    for (size_t i = 0; i < s->seed.count && n < ARRAY_SIZE(p->envp) - 3; i++) {
        if (strncmp(s->seed.list[i], "PATH=", 5) == 0)
            path = s->seed.list[i];
        else if (state_is_foreign(s->seed.list[i]))
            p->envp[n++] = s->seed.list[i];
    }
    p->envp[n++] = (char *)path;
    buf_printf(&p->pwd, "PWD=%.*s", (int)st->cwd_len, st->cwd);
    if (!(p->envp[n++] = buf_cstr(&p->pwd)))
        return -ENOMEM;
    p->envp[n] = NULL;
    return 0;
}

/* The POSIX shell gets everything as arguments: it has nothing to read a payload with. argv[0] is
 * spawn's free slot. */
static int shell_make_argv(struct shell_parts *p, const struct command *c, const struct state *st,
                           int anchor)
{
    if (c->shell->plain) {
        const char *cwd = (const char *)c->shell->call.payload.data;
        const char *input = cwd + strlen(cwd) + 1, *script = input + strlen(input) + 1;
        const char *words[] = {"sh",   "-c", PRELUDE_SH, "sh",  st->exports,
                               c->cwd, cwd,  input,      script};
        for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
            if (strlen(words[i]) >= WORD_MAX)
                return -E2BIG;
            p->argv[i + 1] = (char *)words[i];
        }
        return 0;
    }
    if (prelude_put_bash(&p->prelude, anchor) < 0 || !buf_cstr(&p->prelude))
        return -ENOMEM;
    const char *words[] = {"bash", "--norc", "--noprofile", "-c", (char *)p->prelude.data, "bash"};
    memcpy(p->argv + 1, words, sizeof words);
    return 0;
}

int shell_hand_over(struct command *c)
{
    struct shell *s = c->shell;
    const struct shell_call *call = &s->call;
    int r = s->plain
                ? 0
                : io_write_at(s->payload, call->payload.data, call->payload.len, s->payload_size);
    if (r >= 0)
        r = io_write_at(s->input, call->data.data, call->data.len, 0);
    if (r < 0)
        return r;
    if (!s->plain && write(s->wake, "\n", 1) < 0 &&
        errno != EPIPE) /* it died: replaced when it is reaped */
        return -errno;
    close(TAKE_FD(s->wake));
    s->warm = c->idle;
    c->idle = false;
    /* A process that is stopped or gone takes nothing; then another one is started. */
    if (!s->fresh)
        loop_timer_set(&c->guest->loop, &s->confirm,
                       clock_now() + (s->warm ? WARM_PATIENCE : COLD_PATIENCE));
    return 0;
}

static int shell_assemble(struct command *c, const struct shell_start *x, struct error *err)
{
    _cleanup_(shell_parts_free) struct shell_parts p = {.spawn.fds = {-1, -1, -1},
                                                        .wake = -1,
                                                        .prelude = BUF_INIT(PRELUDE_MAX),
                                                        .pwd = BUF_INIT(2 * PATH_MAX)};
    struct shell *s = c->shell;
    struct spawn *spawn = &p.spawn;
    struct state st;
    int anchor = c->limits.files && c->limits.files < FILES_FEW ? PRELUDE_LOW : PRELUDE_HIGH;
    int r = c->background ? background_open_output(c, &spawn->fds[1], &spawn->fds[2], err) : 0;
    if (r < 0)
        return r;
    r = relay_open_pipes(&c->relay, c->background ? RELAY_STDIN : RELAY_STDOUT, spawn->fds);
    if (r < 0)
        return error_errno(err, -r, "cannot connect the shell's input and output");
    r = session_begin(x->session, x->fresh, &st);
    s->revision = x->session->revision;
    if (r >= 0)
        r = shell_open_shared(s, &p, &st);
    c->cwd = r >= 0 ? strndup(st.cwd, st.cwd_len) : NULL;
    c->name = strdup(s->plain ? "sh" : "bash");
    if (r >= 0 && (!c->cwd || !c->name))
        r = -ENOMEM;
    if (r >= 0)
        r = shell_make_env(&p, x->session, &st);
    if (r >= 0)
        r = shell_make_argv(&p, c, &st, anchor);
    if (r == -E2BIG)
        return error_set(err, E2BIG,
                         "the script or the session's variables are too long: this box has no bash,"
                         " and sh can take at most 128K of each");
    if (r >= 0 && x->call)
        r = shell_hand_over(c);
    if (r < 0)
        return error_errno(err, -r, "cannot start a shell");

    const int more[] = {p.wake, s->payload, s->input, s->report};
    spawn->argv = p.argv + 1;
    spawn->envp = p.envp;
    spawn->cwd = c->cwd;
    spawn->or_cwd = SESSION_FOLDER;
    spawn->more = more;
    spawn->n_more = ARRAY_SIZE(more);
    spawn->apart = s->wake >= 0 && !s->plain;
    spawn->anchor = s->plain ? 0 : anchor;
    /* What bash prints while it starts (say, that its folder is being removed) is no output of the
     * script: its stderr is /dev/null until the prelude makes it what stdout is. */
    cleanup_close(&spawn->fds[2]);
    spawn->fds[2] = s->plain ? fcntl(spawn->fds[1], F_DUPFD_CLOEXEC, 3) : -1;
    if (s->plain && spawn->fds[2] < 0)
        return error_errno(err, errno, "cannot connect the shell's input and output");
    r = command_spawn(c, spawn);
    return r < 0 ? error_errno(err, -r, "cannot start a shell") : 0;
}

static void shell_confirm_fire(struct loop_timer *t)
{
    struct shell *s = CONTAINER_OF(t, struct shell, confirm);
    if (shell_has_taken(s->command))
        return;
    if (s->command->guest->freeze.state != FREEZE_OFF) /* it cannot, and neither could another */
        loop_timer_set(&s->command->guest->loop, t, clock_now() + WARM_PATIENCE);
    else
        command_kill(s->command, WIRE_LIMIT_NONE);
}

struct command *shell_start(struct guest *g, const struct shell_start *x, struct error *err)
{
    struct command *c = command_new(g);
    if (!c || !(c->shell = calloc(1, sizeof *c->shell))) {
        command_free(c);
        error_set(err, EAGAIN, "too many commands are running");
        return NULL;
    }
    c->hooks = &shell_hooks;
    *c->shell = (struct shell){.session = x->session,
                               .command = c,
                               .wake = -1,
                               .payload = -1,
                               .input = -1,
                               .report = -1,
                               .plain = x->session->plain,
                               .fresh = x->fresh,
                               .confirm.fire = shell_confirm_fire};
    if (x->call) {
        c->shell->call = *x->call;
        *x->call = (struct shell_call){0};
    }
    x->session->calls++;
    c->background = x->background;
    c->limits.files = x->session->files;
    if (shell_assemble(c, x, err) < 0)
        c = command_free(c);
    return c;
}
