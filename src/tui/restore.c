/*
 * A signal's handler can ask nobody: what it writes is made beforehand and kept in this file's only
 * variable, which is also the only thing here that is not a screen's own. A program has one
 * terminal.
 */
#include <curses.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <term.h>
#include <termios.h>
#include <unistd.h>

#include "cleanup.h"
#include "restore.h"
#include "banned.h"

static const int SIGNALS[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT, SIGTERM, SIGHUP};

static struct {
    struct termios modes;
    char farewell[512];
    size_t n;
    bool has_modes;
    struct sigaction before[ARRAY_SIZE(SIGNALS)];
    bool taken[ARRAY_SIZE(SIGNALS)];
} state;

static void give_back(int signal)
{
    if (write(STDOUT_FILENO, state.farewell, state.n) < 0)
        state.n = 0;
    if (state.has_modes)
        tcsetattr(STDIN_FILENO, TCSANOW, &state.modes);
    raise(signal); /* its usual effect: the handler was for once */
}

void restore_arm(void)
{
    struct sigaction act = {.sa_handler = give_back, .sa_flags = SA_RESETHAND | SA_NODEFER};
    state.has_modes = tcgetattr(STDIN_FILENO, &state.modes) == 0;
    state.n = 0;
    for (size_t i = 0; i < ARRAY_SIZE(SIGNALS); i++) {
        sigaction(SIGNALS[i], NULL, &state.before[i]);
        state.taken[i] = state.before[i].sa_handler == SIG_DFL;
        if (state.taken[i])
            sigaction(SIGNALS[i], &act, NULL);
    }
}

static void add(const char *s)
{
    size_t n = strlen(s);
    if (n > sizeof state.farewell - state.n)
        return;
    memcpy(state.farewell + state.n, s, n);
    state.n += n;
}

/* What strings of terminfo say about waiting is left out: it was for terminals that print on paper.
 */
static void add_capability(const char *name)
{
    const char *s = tigetstr(name);
    char plain[128];
    size_t n = 0;
    if (!s || (intptr_t)s == -1) /* it is not there, or no string */
        return;
    while (*s && n + 1 < sizeof plain) {
        const char *end = s[0] == '$' && s[1] == '<' ? strchr(s, '>') : NULL;
        if (end)
            s = end + 1;
        else
            plain[n++] = *s++;
    }
    plain[n] = 0;
    add(plain);
}

void restore_learn(void)
{
    state.n = 0;
    add("\033[?2004l"); /* pastes in brackets, and other reports of keys, which chat switches on */
    if (!strstr(termname(), "linux") && !strstr(termname(), "vt100"))
        add("\033[>4;0m\033[<u");
    add_capability("sgr0");
    add_capability("cnorm");
    add_capability("rmkx");
    add_capability("rmcup");
}

void restore_disarm(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(SIGNALS); i++)
        if (state.taken[i])
            sigaction(SIGNALS[i], &state.before[i], NULL);
    memset(state.taken, 0, sizeof state.taken);
}
