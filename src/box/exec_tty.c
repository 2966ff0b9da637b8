#include <errno.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "exec.h"
#include "banned.h"

/* Keys typed on the host's terminal, as they come. At their end the command sees the end of its
 * terminal's input. */
int call_tty_input(struct call *c)
{
    char data[4096];
    ssize_t n = read(c->command->in, data, sizeof data);
    if (n < 0)
        return errno == EINTR || errno == EAGAIN ? 0 : -errno;
    _cleanup_buf_ struct buf frame = BUF_INIT(2 * sizeof data);
    size_t begin = wire_begin(&frame, WIRE_STDIN);
    if (n > 0)
        wire_put(&frame, WIRE_K_DATA, data, (size_t)n);
    else
        wire_put_u64(&frame, WIRE_K_EOF, 1);
    wire_end(&frame, begin);
    int r = wire_send(c->wire.fd, &frame, NULL, 0);
    return n == 0 ? -EPIPE : r;
}

/* The size is looked at on every tick rather than on SIGWINCH: a library owns no signal handlers.
 */
void call_tty_resize(struct call *c)
{
    struct winsize size;
    int fd = c->command->in >= 0 ? c->command->in : c->command->out;
    if (fd < 0 || ioctl(fd, TIOCGWINSZ, &size) < 0 ||
        (size.ws_row == c->rows && size.ws_col == c->cols))
        return;
    if (!size.ws_row || !size.ws_col)
        return;
    c->rows = size.ws_row;
    c->cols = size.ws_col;
    if (c->wire.fd < 0) /* not asked for yet: the size goes along with the request */
        return;
    _cleanup_buf_ struct buf frame = BUF_INIT(256);
    size_t begin = wire_begin(&frame, WIRE_RESIZE);
    wire_put_u64(&frame, WIRE_K_ROWS, (uint64_t)c->rows);
    wire_put_u64(&frame, WIRE_K_COLS, (uint64_t)c->cols);
    wire_end(&frame, begin);
    wire_send(c->wire.fd, &frame, NULL, 0);
}
