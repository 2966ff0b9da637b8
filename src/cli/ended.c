#include <errno.h>
#include <limits.h>
#include <string.h>

#include "ended.h"
#include "missing.h"
#include "output.h"
#include "say.h"
#include "banned.h"

/* The first three and the last end a command; of the other two it gets errors, and may end by
 * itself. */
static void explain_limit(enum wire_limit limit)
{
    static const char *const limits[] = {
        [WIRE_LIMIT_TIMEOUT] =
            "the command ran longer than its time limit and was ended; see --timeout",
        [WIRE_LIMIT_CPU] =
            "the command used more CPU time than its limit and was ended; see --cpu-time",
        [WIRE_LIMIT_MEMORY] =
            "the command needed more memory than the box has and was ended; see --memory",
        [WIRE_LIMIT_PIDS] = "the command needed more processes than the box may have; see --pids",
        [WIRE_LIMIT_DISK] = "the command wrote until the box was full; see --disk",
        [WIRE_LIMIT_OUTPUT] =
            "the command printed more than it may and was ended; see --output-total",
    };
    if ((size_t)limit < ARRAY_SIZE(limits) && limits[limit])
        say("%s", limits[limit]);
}

/* Is a program at this path of the host in the box, too? If so it was found, and the status is its
 * own. */
static bool is_shown(const char *path, const struct box_options *o)
{
    static const char *const selection[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};
    for (size_t i = 0; !(o && o->image) && i < ARRAY_SIZE(selection); i++)
        if (missing_is_below(path, selection[i]))
            return true;
    for (size_t i = 0; o && i < o->n_shares; i++)
        if (missing_is_below(path, o->shares[i].source) || missing_is_below(path, o->shares[i].at))
            return true;
    return false;
}

/* A program that is on the host and not in the box: true if that was it, and was said. */
static bool explain_missing(const char *name, const struct box_options *o)
{
    char path[PATH_MAX], folder[PATH_MAX];
    if (strchr(name, '/') || !missing_on_host(name, path, sizeof path) || is_shown(path, o))
        return false;
    if (o && o->image && missing_is_below(path, "/usr")) {
        say("'%s' is not in the image but is at %s on the host", name, path);
        return true;
    }
    missing_folder(path, folder, sizeof folder);
    say("'%s' is not in the box but is at %s on the host; show it with --ro %s and call it by"
        " that path",
        name, path, folder);
    return true;
}

/* What the box tried to reach and was refused. */
static void explain_refusals(const struct box_result *r, bool kept)
{
    for (size_t i = 0; i < r->n_refused; i++) {
        const char *target = r->refused[i].target;
        if (r->refused[i].is_private)
            say("the box tried to reach %s: not allowed, its address is private or local; name the "
                "address"
                " itself with --net allow:ADDRESS:PORT",
                target);
        else
            say("the box tried to reach %s: not allowed; %s allow:%s", target,
                kept ? "hutch box set ID --net" : "--net", target);
    }
}

void ended_explain(const struct box_result *r, const struct box_options *options, const char *name)
{
    /* A reader that went away is the command's own matter: it got the signal. */
    if (r->out_error && r->out_error != EPIPE)
        output_failed(r->out_error);
    explain_limit(r->limit);
    explain_refusals(r, !options);
    if (r->failure[0] && !(r->exit_code == 127 && explain_missing(name, options)))
        say("cannot run %s", r->failure);
}
