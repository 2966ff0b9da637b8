/* What is not mounts: the network, the host name, and what process 1 hands to the host before it
 * becomes the guest. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "carry.h"
#include "cleanup.h"
#include "io.h"
#include "network.h"
#include "banned.h"

int carry_network(struct carry *c, const struct op *op)
{
    return network_enter(c->network);
}

/* The socket belongs to the box's network; whoever accepts on it may be anywhere. */
int carry_listen(struct carry *c, const struct op *op)
{
    _cleanup_fd_ int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0)
        return -errno;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)op->flags),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (bind(s, (struct sockaddr *)&at, sizeof at) < 0 || listen(s, 64) < 0)
        return -errno;
    c->fds[op->slot] = TAKE_FD(s);
    return 0;
}

/* The filters of many containers refuse it. The box then has the container's name: no secret, and
 * no way to change it. */
int carry_hostname(struct carry *c, const struct op *op)
{
    return sethostname(op->text, strlen(op->text)) < 0 && errno != EPERM ? -errno : 0;
}

int carry_sysctl(struct carry *c, const struct op *op)
{
    return io_write_file(c->fds[SLOT_PROC], op->path, op->text);
}

/* op->slot names a third descriptor to hand over, if it is set (the proxy's listening socket). */
int carry_handover(struct carry *c, const struct op *op)
{
    _cleanup_fd_ int mounts = openat(c->fds[SLOT_PROC], "self/ns/mnt", O_RDONLY | O_CLOEXEC);
    if (mounts < 0)
        return -errno;
    int fds[3] = {c->fds[SLOT_STORE], mounts, op->slot > 0 ? c->fds[op->slot] : -1};
    ssize_t n = io_send_fds(c->control, "H", 1, fds, fds[2] >= 0 ? 3 : 2);
    return n < 0 ? (int)n : 0;
}
