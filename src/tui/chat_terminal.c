/* The chat: the terminal's input side, and giving it back for a while. The view has the other side.
 */
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "chat.h"
#include "io.h"
#include "banned.h"

/* Every key comes as it is; what is left of the line discipline is that of the output. The view
 * sets the terminal's modes, too, when it takes it; here it is made sure of what the keys need. */
void chat_raw(struct chat *c, bool on)
{
    struct termios t;
    if (on == c->raw)
        return;
    c->raw = on;
    if (on && tcgetattr(STDIN_FILENO, &t) == 0) {
        t.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR | IGNCR | ISTRIP);
        t.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
        t.c_cc[VMIN] = 1;
        t.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &t);
    }
    if (on)
        io_write_all(STDOUT_FILENO, KEYS_ON, strlen(KEYS_ON));
    else
        io_write_all(STDOUT_FILENO, KEYS_OFF, strlen(KEYS_OFF));
}

void chat_suspend(struct chat *c)
{
    struct sigaction usual = {.sa_handler = SIG_DFL}, before;
    sigset_t stop, old;
    chat_raw(c, false);
    view_suspend(c->view);
    sigaction(SIGTSTP, &usual, &before);
    sigemptyset(&stop);
    sigaddset(&stop, SIGTSTP);
    pthread_sigmask(SIG_UNBLOCK, &stop, &old);
    kill(0, SIGTSTP); /* the whole group, as the terminal would */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    sigaction(SIGTSTP, &before, NULL);
    view_resume(c->view);
    chat_raw(c, true);
    c->changed = true;
}
