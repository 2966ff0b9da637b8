/*
 * Calls of tools in a live box, at the level of the library, and programs to compare them with:
 *
 *     tool_bench ROUNDS WORKSPACE [LABEL TOOL JSON]… :: NAME PROGRAM…
 *
 * A call is timed from the request to the whole result. Prints JSON, for bench.py.
 */
#include <err.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "contest.h"
#include "session.h"
#include "subject.h"
#include "thread.h"
#include "banned.h"

struct caller {
    struct tool_session *session;
    struct tool_request request;
};

static int call(void *data, int64_t *ret_ns)
{
    struct caller *c = data;
    struct tool_result result;
    int64_t begin = clock_now();
    int r = tool_call(c->session, &c->request, &result);
    *ret_ns = clock_now() - begin;
    if (r < 0 || result.failed) {
        warnx("%s: %s", c->request.name, buf_cstr(&result.text));
        r = -EIO;
    }
    tool_result_free(&result);
    return r;
}

/* The calls on the command line, up to the `::`. Returns how many words they were. */
static size_t parse_calls(char **args, struct tool_session *s, struct caller *callers,
                          struct contestant *list, size_t *n)
{
    size_t at = 0;
    for (; args[at] && strcmp(args[at], "::") != 0; at += 3) {
        if (!args[at + 1] || !args[at + 2] || *n == CONTEST_MAX)
            errx(2, "a call is LABEL TOOL JSON, and there are at most %d", CONTEST_MAX);
        json_t *input = json_loads(args[at + 2], 0, NULL);
        if (!input)
            errx(2, "not JSON: %s", args[at + 2]);
        callers[*n] = (struct caller){s, {.name = args[at + 1], .input = input, .cancel = -1}};
        list[*n] = (struct contestant){.name = args[at], .run = call, .data = &callers[*n]};
        ++*n;
    }
    return at;
}

int main(int argc, char **argv)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    struct caller callers[CONTEST_MAX];
    struct tool_session *session = NULL;
    struct error error = {0};
    struct subject s;
    size_t n = 0;
    if (argc < 4 || atoi(argv[1]) <= 0)
        errx(2, "usage: tool_bench ROUNDS WORKSPACE [LABEL TOOL JSON]... :: NAME PROGRAM...");
    subject_init(&s, argv[2]);
    subject_open_live(&s);
    if (tool_session_new(s.live, &session, &error) < 0)
        errx(1, "%s", error.text);
    size_t used = parse_calls(argv + 3, session, callers, list, &n);
    size_t calls = n;
    command_parse(argv + 3 + used, commands, list, &n);
    int r = contest_print(list, n, (unsigned)atoi(argv[1]));
    for (size_t i = 0; i < calls; i++)
        json_decref(callers[i].request.input);
    tool_session_free(session);
    subject_free(&s);
    return r < 0;
}
