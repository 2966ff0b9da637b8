/* The state of a session: its bytes, its file, and the shell commands that restore and save it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cleanup.h"
#include "io.h"
#include "shell.h"
#include "sys.h"
#include "banned.h"

#define END    "end"
#define FOLDER "/tmp/.hutch"
#define SHELLS FOLDER "/shell"

bool state_parse(const void *data, size_t n, struct state *ret)
{
    if (n == 0 || n > STATE_MAX)
        return false;
    const char *at[4], *from = data, *end = from + n;
    for (size_t i = 0; i < ARRAY_SIZE(at); i++) {
        const char *nul = from < end ? memchr(from, 0, (size_t)(end - from)) : NULL;
        if (!nul)
            return false;
        at[i] = from;
        from = nul + 1;
    }
    size_t folder = strlen(at[0]);
    if (from != end || strcmp(at[3], END) != 0)
        return false;
    if (folder < 2 || folder > PATH_MAX || at[0][0] != '/' || at[0][folder - 1] != '\n')
        return false;
    *ret =
        (struct state){.cwd = at[0], .cwd_len = folder - 1, .exports = at[1], .functions = at[2]};
    return true;
}

int state_put(struct buf *b, const char *cwd, size_t cwd_len, const char *exports, const char *more,
              const char *functions)
{
    buf_append(b, cwd, cwd_len);
    buf_append(b, "\n", 2);
    buf_append_str(b, exports);
    buf_append(b, more, strlen(more) + 1);
    buf_append(b, functions, strlen(functions) + 1);
    return buf_append(b, END, sizeof END);
}

void state_parse_report(const void *data, size_t n, struct state_report *ret)
{
    static const char taken[] = "taken", gone[] = "gone";
    const char *at = data, *end = at + n;
    *ret = (struct state_report){0};
    if (n < sizeof taken + 1 || memcmp(at, taken, sizeof taken) != 0)
        return;
    at += sizeof taken;
    ret->taken = true;
    ret->gone = (size_t)(end - at) >= sizeof gone && memcmp(at, gone, sizeof gone) == 0;
    at += ret->gone ? sizeof gone : *at == 0;
    ret->rest = at;
    ret->rest_len = (size_t)(end - at);
}

/* Never waits: a FIFO opened like this does not, and only a regular file is read. */
bool state_load(const char *name, struct buf *raw, bool *ret_exists)
{
    char path[sizeof SHELLS + 1 + SESSION_NAME_MAX];
    struct stat st;
    struct state state;
    snprintf(path, sizeof path, SHELLS "/%s", name);
    _cleanup_fd_ int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    *ret_exists = fd >= 0;
    void *at = fd < 0 ? NULL : buf_reserve(raw, STATE_MAX);
    if (!at || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > STATE_MAX)
        return false;
    ssize_t n = io_read_at(fd, at, STATE_MAX, 0);
    if (n < 0 || !state_parse(at, (size_t)n, &state))
        return false;
    raw->len = (size_t)n;
    return true;
}

bool state_store(const char *name, const struct buf *raw)
{
    char path[sizeof SHELLS + 1 + SESSION_NAME_MAX], fresh[sizeof SHELLS + 8 + SESSION_NAME_MAX];
    snprintf(path, sizeof path, SHELLS "/%s", name);
    snprintf(fresh, sizeof fresh, SHELLS "/.%s.new", name);
    mkdir(FOLDER, 0700);
    mkdir(SHELLS, 0700);
    unlink(fresh);
    _cleanup_fd_ int fd = open(fresh, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && io_write_all(fd, raw->data, raw->len) == 0 &&
        sys_renameat2(AT_FDCWD, fresh, AT_FDCWD, path, 0) == 0)
        return true;
    unlink(fresh);
    return false;
}

static bool is_identifier(const char *entry, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(entry[i] >= 'a' && entry[i] <= 'z') && !(entry[i] >= 'A' && entry[i] <= 'Z') &&
            entry[i] != '_' && (i == 0 || entry[i] < '0' || entry[i] > '9'))
            return false;
    return n > 0;
}

bool state_is_variable(const char *entry)
{
    /* What a shell sets by itself, or refuses to have set. */
    static const char *const own[] = {"PWD",      "OLDPWD",        "SHLVL", "_",    "SHELLOPTS",
                                      "BASHOPTS", "BASH_VERSINFO", "UID",   "EUID", "PPID",
                                      "IFS"};
    size_t n = strcspn(entry, "=");
    for (size_t i = 0; i < ARRAY_SIZE(own); i++)
        if (strlen(own[i]) == n && memcmp(own[i], entry, n) == 0)
            return false;
    return entry[n] && is_identifier(entry, n);
}

bool state_is_foreign(const char *entry)
{
    size_t n = strcspn(entry, "=");
    return entry[n] && n > 0 && !is_identifier(entry, n);
}

int state_put_export(struct buf *b, const char *entry, bool plain)
{
    size_t n = strcspn(entry, "=");
    buf_append_str(b, plain ? "export " : "declare -x ");
    buf_append(b, entry, n);
    buf_append_str(b, "='");
    for (const char *at = entry + n + 1; *at;) {
        size_t run = strcspn(at, "'");
        buf_append(b, at, run);
        at += run;
        if (*at) {
            buf_append_str(b, "'\\''");
            at++;
        }
    }
    return buf_append_str(b, "'\n");
}

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
int prelude_put_bash(struct buf *b, int anchor)
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
const char PRELUDE_SH[] =
    "unset PATH; eval \"$1\" >/dev/null 2>&1; trap '[ \"$__hutch\" = done ] || " SAVE_SH "' 0;"
    " if cd -- \"$2\" 2>/dev/null; then printf 'taken\\0\\0' >&6;"
    " else cd /workspace 2>/dev/null || cd /; printf 'taken\\0gone\\0' >&6; fi;"
    " if [ \"$3\" ] && ! cd -- \"$3\" 2>&6 >/dev/null; then __hutch=done; exit 126; fi;"
    " if [ \"$4\" ]; then exec <&5; fi; exec 3<&- 4<&- 5<&-; __hutch=$5; shift 5;"
    " { eval \"$__hutch\"; } 6>&-; { __hutch=$?; } 2>/dev/null; " SAVE_SH
    "; eval \"__hutch=done; exit $__hutch\"";
