/*
 * The cost of saving one more message of a session.
 *
 *     history_bench SESSION N
 *
 * Opens the session and appends N short answers, each synced. Prints {"open": [ns], "append": [ns,
 * …]}.
 */
#include <stdio.h>
#include <stdlib.h>

#include "history.h"
#include "thread.h"
#include "banned.h"

static int fail(const struct error *err)
{
    fprintf(stderr, "history_bench: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct error err = {0};
    struct history *h = NULL;
    bool repaired = false;
    if (argc != 3) {
        fputs("usage: history_bench SESSION N\n", stderr);
        return 2;
    }
    int64_t before = clock_now();
    if (history_open(NULL, argv[1], false, &h, &repaired, &err) < 0)
        return fail(&err);
    printf("{\"open\": [%lld], \"append\": [", (long long)(clock_now() - before));
    long n = strtol(argv[2], NULL, 10);
    for (long i = 0; i < n; i++) {
        json_t *message = json_pack(
            "{s:s, s:[{s:s, s:s}], s:I}", "role", "assistant", "content", "type", "text", "text",
            "An answer of a few words, as a model gives it between two calls of tools.", "number",
            (json_int_t)i);
        before = clock_now();
        int r = history_append(h, message, &err);
        if (r == 0)
            r = history_sync(h, &err);
        int64_t took = clock_now() - before;
        json_decref(message);
        if (r < 0)
            return fail(&err);
        printf("%s%lld", i ? ", " : "", (long long)took);
    }
    puts("]}");
    h = history_close(h);
    return 0;
}
