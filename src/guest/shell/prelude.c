/*
 * The text is one line, so that the line numbers of a script's messages are the script's own. It
 * keeps to what no function of the session can stand in front of (`builtin`, `command`, keywords),
 * and forks nothing.
 *
 * The report (6) must be there at the end, but no command may see it. A compound command with
 * `6>&59` does that: bash keeps a copy of 6 for the time after, close-on-exec, at the first free
 * descriptor above 59, and puts it back before the EXIT trap runs. (`6>&-` alone would keep it at
 * 10, where scripts have files of their own.) Inside, 6 and 59 are closed at once. Where `exit` is
 * called in a function the trap runs before bash has put 6 back; then the copy is there to be
 * written to.
 */
#include <errno.h>

#include "prelude.h"
#include "banned.h"

/* The state, on the way out. Whatever the script set must not be seen or felt here. */
#define SAVE(to)                                                                                   \
    "{ builtin pwd; builtin printf \"\\0\"; builtin export -p; builtin printf \"\\0\"; builtin "   \
    "declare -f;"                                                                                  \
    " builtin declare -Fx; builtin printf \"\\0end\\0\"; } >&" to
#define QUIET "builtin set +euvx +o posix"

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

const char *const PRELUDE_SH =
    "unset PATH; eval \"$1\" >/dev/null 2>&1; trap '[ \"$__hutch\" = done ] || " SAVE_SH "' 0;"
    " if cd -- \"$2\" 2>/dev/null; then printf 'taken\\0\\0' >&6;"
    " else cd /workspace 2>/dev/null || cd /; printf 'taken\\0gone\\0' >&6; fi;"
    " if [ \"$3\" ] && ! cd -- \"$3\" 2>&6 >/dev/null; then __hutch=done; exit 126; fi;"
    " if [ \"$4\" ]; then exec <&5; fi; exec 3<&- 4<&- 5<&-; __hutch=$5; shift 5;"
    " { eval \"$__hutch\"; } 6>&-; { __hutch=$?; } 2>/dev/null; " SAVE_SH
    "; eval \"__hutch=done; exit $__hutch\"";
