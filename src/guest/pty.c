#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>

#include "cleanup.h"
#include "pty.h"
#include "banned.h"

int pty_resize(int master, uint64_t rows, uint64_t cols)
{
    struct winsize size = {.ws_row = rows && rows <= UINT16_MAX ? (unsigned short)rows : 24,
                           .ws_col = cols && cols <= UINT16_MAX ? (unsigned short)cols : 80};
    return ioctl(master, TIOCSWINSZ, &size) < 0 ? -errno : 0;
}

int pty_open(uint64_t rows, uint64_t cols, int *ret_master, int *ret_slave)
{
    _cleanup_fd_ int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
    int locked = 0;
    if (master < 0 || ioctl(master, TIOCSPTLCK, &locked) < 0)
        return -errno;
    int r = pty_resize(master, rows, cols);
    if (r < 0)
        return r;
    /* Asked of the master itself: no name is looked up that somebody could have replaced. */
    int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (slave < 0)
        return -errno;
    *ret_master = TAKE_FD(master);
    *ret_slave = slave;
    return 0;
}
