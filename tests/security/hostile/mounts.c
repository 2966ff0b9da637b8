/*
 * Changes what is mounted where: with the rights it has (plain), or after making a user namespace
 * in which it would have all rights (nested). A nested namespace that holds no power over mounts is
 * no breach, but says NOTE.
 *
 *     mounts plain|nested
 */
#include <linux/mount.h>

#include "hostile.h"

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

static bool nest(void)
{
    char map[64];
    unsigned uid = geteuid(), gid = getegid();

    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) {
        denied("unshare user+mount");
        if (unshare(CLONE_NEWUSER) < 0) {
            denied("unshare user");
            return false;
        }
    }
    printf("NOTE in a nested user namespace\n");
    write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof(map), "0 %u 1", uid);
    write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof(map), "0 %u 1", gid);
    write_file("/proc/self/gid_map", map);
    unshare(CLONE_NEWNS);
    return true;
}

/* Undoing what hides or protects. MS_REMOUNT|MS_BIND keeps the change to this mount. */
static void uncover(void)
{
    static const char *const covered[] = {"/proc",       "/proc/sys",  "/proc/keys",
                                          "/proc/kcore", "/dev",       "/usr",
                                          "/etc",        "/workspace", "/"};

    for (size_t i = 0; i < sizeof(covered) / sizeof(*covered); i++) {
        attempt(mount(NULL, covered[i], NULL, MS_REMOUNT | MS_BIND, NULL), "remount %s writable",
                covered[i]);
        attempt(mount(NULL, covered[i], NULL, MS_REMOUNT, NULL), "remount the filesystem of %s",
                covered[i]);
        attempt(mount(NULL, covered[i], NULL, MS_REC | MS_SHARED, NULL), "make %s shared",
                covered[i]);
        attempt(umount2(covered[i], MNT_DETACH), "umount %s", covered[i]);
    }
}

static void cover(void)
{
    attempt(mount("tmpfs", "/tmp", "tmpfs", 0, NULL), "mount tmpfs");
    attempt(mount("proc", "/tmp", "proc", 0, NULL), "mount proc");
    attempt(mount("sysfs", "/tmp", "sysfs", 0, NULL), "mount sysfs");
    attempt(mount("/", "/tmp", NULL, MS_BIND | MS_REC, NULL), "bind /");
    attempt(mount("cgroup2", "/tmp", "cgroup2", 0, NULL), "mount cgroup2");
    attempt(mount("/", "/tmp", "overlay", 0, "lowerdir=/:/usr"), "mount overlay");
}

static void new_api(void)
{
    struct mount_attr attr = {.attr_clr = MOUNT_ATTR_RDONLY};
    int fs = syscall(SYS_fsopen, "tmpfs", 0);
    int tree = syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* OPEN_TREE_CLONE */);

    attempt(fs, "fsopen tmpfs");
    attempt(tree, "open_tree clone of /");
    attempt(
        syscall(SYS_mount_setattr, AT_FDCWD, "/", 0x8000 /* AT_RECURSIVE */, &attr, sizeof(attr)),
        "mount_setattr / writable");
    if (tree >= 0)
        attempt(syscall(SYS_move_mount, tree, "", AT_FDCWD, "/tmp", 4 /* F_EMPTY_PATH */),
                "move_mount");
}

static void pivot(void)
{
    mkdir("/tmp/pivot", 0755);
    mkdir("/tmp/pivot/old", 0755);
    attempt(syscall(SYS_pivot_root, "/tmp/pivot", "/tmp/pivot/old"), "pivot_root");
    attempt(syscall(SYS_pivot_root, ".", "."), "pivot_root . .");
    attempt(chroot("/tmp/pivot"), "chroot");
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "nested") && !nest())
        return verdict();
    cover();
    new_api();
    pivot();
    uncover();
    return verdict();
}
