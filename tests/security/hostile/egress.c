/*
 * Leaves the box by network, towards servers that the test runs on this machine, or addresses that
 * lead nowhere.
 *
 *     egress tcp|udp ADDRESS PORT WORD     connects and sends WORD
 *     egress nowhere ADDRESS               a connection must fail at once, with no route
 *     egress unix PATH WORD                a socket file of the host; @NAME is an abstract one
 *     egress raw ADDRESS                   ICMP, raw and packet sockets, netlink, vsock
 *     egress sockets                       every socket file that can be seen
 */
#include <arpa/inet.h>
#include <ftw.h>
#include <linux/if_packet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <stddef.h>
#include <sys/un.h>
#include <time.h>

#include "hostile.h"

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static socklen_t address_of(const char *text, int port, union address *a)
{
    memset(a, 0, sizeof(*a));
    if (inet_pton(AF_INET, text, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons(port);
        return sizeof(a->v4);
    }
    inet_pton(AF_INET6, text, &a->v6.sin6_addr);
    a->v6.sin6_family = AF_INET6;
    a->v6.sin6_port = htons(port);
    return sizeof(a->v6);
}

static void send_word(int type, const char *where, int port, const char *word)
{
    union address a;
    socklen_t n = address_of(where, port, &a);
    int fd = socket(a.any.sa_family, type, 0);
    struct timeval patience = {2, 0};

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    if (fd < 0 || connect(fd, &a.any, n) < 0) {
        denied("connect to %s port %d", where, port);
        return;
    }
    if (type == SOCK_DGRAM)
        printf("NOTE connected a datagram socket to %s port %d\n", where, port);
    else
        breach("connect to %s port %d", where, port);
    send(fd, word, strlen(word), MSG_NOSIGNAL);
}

static void nowhere(const char *where)
{
    union address a;
    socklen_t n = address_of(where, 9, &a);
    int fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

    if (fd < 0 || (connect(fd, &a.any, n) < 0 && errno != EINPROGRESS))
        denied("connect to %s", where);
    else
        breach("there is a route to %s", where);
}

static bool connect_unix(const char *path, const char *word)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    static const int types[] = {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET};

    if (n >= sizeof(a.sun_path))
        n = sizeof(a.sun_path) - 1;
    memcpy(a.sun_path, path, n);
    if (*path == '@')
        a.sun_path[0] = 0;
    for (size_t i = 0; i < 3; i++) {
        int fd = socket(AF_UNIX, types[i], 0);

        if (fd >= 0 && connect(fd, (void *)&a, offsetof(struct sockaddr_un, sun_path) + n) == 0) {
            breach("connect to the socket %s", path);
            send(fd, word, strlen(word), MSG_NOSIGNAL);
            close(fd);
            return true;
        }
        denied("connect to %s as %d", path, types[i]);
        close(fd);
    }
    return false;
}

static int visit(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    if (S_ISSOCK(st->st_mode))
        connect_unix(path, "");
    return 0;
}

/* The box's own loopback may be pinged; an address of the host may not. */
static void ping(int type, const char *where)
{
    struct icmphdr echo = {.type = ICMP_ECHO};
    union address a;
    socklen_t n = address_of(where, 0, &a);
    int fd = socket(AF_INET, type, IPPROTO_ICMP);

    if (fd < 0) {
        denied("ICMP socket of type %d", type);
        return;
    }
    if (type == SOCK_RAW)
        breach("raw ICMP socket");
    attempt(sendto(fd, &echo, sizeof(echo), 0, &a.any, n), "ping %s", where);
}

/* Reads the list of interfaces: anything beside lo is one of the host's, or a way out. */
static void interfaces(void)
{
    struct if_nameindex *list = if_nameindex();

    for (struct if_nameindex *i = list; i && i->if_index; i++)
        if (strcmp(i->if_name, "lo") != 0)
            breach("sees the interface %s", i->if_name);
    if (!list)
        denied("list interfaces");
}

/* Asks for lo to be up, as it is: harmless, but it needs rights over the network namespace. */
static void reconfigure(void)
{
    struct {
        struct nlmsghdr h;
        struct ifinfomsg i;
    } request = {
        {.nlmsg_len = sizeof(request),
         .nlmsg_type = RTM_NEWLINK,
         .nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK},
        {.ifi_family = AF_UNSPEC, .ifi_index = 1, .ifi_flags = IFF_UP, .ifi_change = IFF_UP}};
    struct {
        struct nlmsghdr h;
        struct nlmsgerr e;
        char rest[256];
    } answer = {0};
    int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);

    if (fd < 0 || send(fd, &request, sizeof(request), 0) < 0 ||
        recv(fd, &answer, sizeof(answer), 0) < 0) {
        denied("netlink request");
        return;
    }
    errno = -answer.e.error;
    attempt(answer.e.error, "configure an interface");
}

static void raw(const char *where)
{
    static const int netlinks[] = {4 /* SOCK_DIAG */, 6 /* XFRM */, 9 /* AUDIT */,
                                   12 /* NETFILTER */, 15 /* UEVENT */};

    ping(SOCK_DGRAM, where);
    ping(SOCK_RAW, where);
    attempt(socket(AF_INET, SOCK_RAW, IPPROTO_RAW), "raw socket");
    attempt(socket(AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), "raw IPv6 socket");
    attempt(socket(AF_PACKET, SOCK_RAW, htons(3)), "packet socket");
    attempt(socket(AF_PACKET, SOCK_DGRAM, htons(3)), "packet datagram socket");
    /* No namespace confines vsock: to have a socket is to reach the hypervisor. It is never
     * connected here. */
    attempt(socket(AF_VSOCK, SOCK_STREAM, 0), "vsock socket");
    attempt(socket(AF_VSOCK, SOCK_DGRAM, 0), "vsock datagram socket");
    for (size_t i = 0; i < sizeof(netlinks) / sizeof(*netlinks); i++)
        attempt(socket(AF_NETLINK, SOCK_RAW, netlinks[i]), "netlink socket %d", netlinks[i]);
    interfaces();
    reconfigure();
}

int main(int argc, char **argv)
{
    if (!strcmp(argv[1], "tcp") || !strcmp(argv[1], "udp"))
        send_word(*argv[1] == 't' ? SOCK_STREAM : SOCK_DGRAM, argv[2], atoi(argv[3]), argv[4]);
    else if (!strcmp(argv[1], "nowhere"))
        nowhere(argv[2]);
    else if (!strcmp(argv[1], "unix"))
        connect_unix(argv[2], argv[3]);
    else if (!strcmp(argv[1], "raw"))
        raw(argv[2]);
    else
        nftw("/", visit, 32, FTW_PHYS);
    return verdict();
}
