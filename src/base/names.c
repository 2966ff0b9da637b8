#include <ctype.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "names.h"
#include "banned.h"

#define NAME_MAX_SIZE 96

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;
    return m < c ? m : c;
}

/* Levenshtein's distance, but for case, with one row of the matrix kept. Both are at most
 * NAME_MAX_SIZE long. */
static size_t name_distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t row[NAME_MAX_SIZE + 1];
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t above = row[j];
            bool differ = tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]);
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + differ);
            diagonal = above;
        }
    }
    return row[m];
}

struct nearest nearest_to(const char *wanted, size_t size)
{
    /* More than a third wrong is another word, not a slip. */
    return (struct nearest){.wanted = wanted, .size = size, .distance = size / 3 + 2};
}

void nearest_offer(struct nearest *n, const char *name)
{
    size_t size = strlen(name);
    if (n->size == 0 || n->size > NAME_MAX_SIZE || size > NAME_MAX_SIZE)
        return;
    size_t d = name_distance(n->wanted, n->size, name, size);
    if (d >= n->distance || d >= size)
        return;
    n->distance = d;
    n->best = name;
}

#define NAME(s) [s] = #s

static const char *const SIGNALS[] = {
    NAME(SIGHUP),    NAME(SIGINT),  NAME(SIGQUIT),  NAME(SIGILL),  NAME(SIGTRAP), NAME(SIGABRT),
    NAME(SIGBUS),    NAME(SIGFPE),  NAME(SIGKILL),  NAME(SIGUSR1), NAME(SIGSEGV), NAME(SIGUSR2),
    NAME(SIGPIPE),   NAME(SIGALRM), NAME(SIGTERM),  NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP),
    NAME(SIGTSTP),   NAME(SIGTTIN), NAME(SIGTTOU),  NAME(SIGURG),  NAME(SIGXCPU), NAME(SIGXFSZ),
    NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH), NAME(SIGIO),   NAME(SIGPWR),  NAME(SIGSYS),
};

void signame_format(int number, char *name, size_t size)
{
    if (number > 0 && number < (int)ARRAY_SIZE(SIGNALS) && SIGNALS[number])
        snprintf(name, size, "%s", SIGNALS[number]);
    else if (number >= SIGRTMIN && number <= SIGRTMAX)
        snprintf(name, size, "SIGRTMIN+%d", number - SIGRTMIN);
    else
        snprintf(name, size, "%d", number);
}
