/*
 * Makes device nodes and opens them; and opens devices that a box has no business with. A whiteout
 * (0, 0) leads nowhere and is none.
 *
 *     devices MAJOR:MINOR…     the host's disks
 */
#include <sys/sysmacros.h>

#include "hostile.h"

static void make(const char *folder, mode_t kind, unsigned major, unsigned minor)
{
    char path[256];
    int fd;

    snprintf(path, sizeof(path), "%s/node-%c-%u-%u", folder, kind == S_IFBLK ? 'b' : 'c', major,
             minor);
    if (mknod(path, kind | 0666, makedev(major, minor)) < 0) {
        denied("mknod %s", path);
        return;
    }
    breach("mknod %s", path);
    fd = open(path, O_RDONLY | O_NONBLOCK);
    if (fd >= 0)
        breach("open %s", path);
}

int main(int argc, char **argv)
{
    static const char *const folders[] = {"/workspace", "/tmp", "/dev", "/dev/shm", "/home/agent"};
    static const char *const host[] = {
        "/dev/mem",     "/dev/kmem",   "/dev/port",   "/dev/kmsg",        "/dev/sda",
        "/dev/vda",     "/dev/kvm",    "/dev/fuse",   "/dev/loop0",       "/dev/loop-control",
        "/dev/tty0",    "/dev/vcs",    "/dev/snd",    "/dev/userfaultfd", "/dev/vsock",
        "/dev/net/tun", "/dev/uinput", "/dev/console"};

    for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++) {
        make(folders[i], S_IFCHR, 1, 1);  /* mem */
        make(folders[i], S_IFCHR, 1, 3);  /* null */
        make(folders[i], S_IFCHR, 1, 11); /* kmsg */
        for (int n = 1; n < argc; n++) {
            unsigned major = 0, minor = 0;

            sscanf(argv[n], "%u:%u", &major, &minor);
            make(folders[i], S_IFBLK, major, minor);
        }
    }
    for (size_t i = 0; i < sizeof(host) / sizeof(*host); i++)
        attempt(open(host[i], O_RDONLY | O_NONBLOCK), "open %s", host[i]);
    return verdict();
}
