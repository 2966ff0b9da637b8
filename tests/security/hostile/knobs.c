/*
 * Opens the kernel's knobs for writing: it never writes, being able to is breach enough. /proc/sys
 * must also lie on a read-only mount, whatever the permissions of the single files are; and what is
 * masked must hold nothing.
 *
 *     knobs
 */
#include <ftw.h>
#include <sys/statvfs.h>

#include "hostile.h"

static void writable(const char *path)
{
    int fd = open(path, O_WRONLY | O_NONBLOCK);

    if (fd >= 0)
        close(fd);
    attempt(fd, "open %s for writing", path);
}

static void read_only_mount(const char *path)
{
    struct statvfs v;

    if (statvfs(path, &v) < 0)
        denied("%s is not there", path);
    else if (!(v.f_flag & ST_RDONLY))
        breach("%s is on a writable mount", path);
}

static void masked(const char *path)
{
    char data[64];
    int fd = open(path, O_RDONLY | O_NONBLOCK);
    ssize_t n = fd < 0 ? 0 : read(fd, data, sizeof(data));

    if (n > 0)
        breach("%s can be read", path);
    if (fd >= 0)
        close(fd);
}

static int visit(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    if (kind == FTW_F && S_ISREG(st->st_mode)) {
        int fd = open(path, O_WRONLY | O_NONBLOCK);

        if (fd >= 0) {
            breach("open %s for writing", path);
            close(fd);
        }
    }
    return 0;
}

int main(void)
{
    static const char *const knobs[] = {"/proc/sys/kernel/core_pattern",
                                        "/proc/sys/kernel/modprobe",
                                        "/proc/sys/kernel/sysrq",
                                        "/proc/sys/kernel/hostname",
                                        "/proc/sys/kernel/ns_last_pid",
                                        "/proc/sys/kernel/random/boot_id",
                                        "/proc/sys/vm/overcommit_memory",
                                        "/proc/sys/vm/drop_caches",
                                        "/proc/sys/fs/file-max",
                                        "/proc/sys/fs/binfmt_misc/register",
                                        "/proc/sys/net/ipv4/ip_forward",
                                        "/proc/sys/user/max_user_namespaces",
                                        "/proc/sysrq-trigger",
                                        "/proc/irq/default_smp_affinity",
                                        "/proc/mtrr",
                                        "/proc/acpi/wakeup",
                                        "/proc/1/oom_score_adj",
                                        "/proc/1/mem",
                                        "/proc/1/attr/current",
                                        "/proc/1/coredump_filter",
                                        "/sys/kernel/uevent_helper",
                                        "/sys/kernel/mm/transparent_hugepage/enabled",
                                        "/sys/power/state",
                                        "/sys/fs/cgroup/cgroup.procs",
                                        "/sys/fs/cgroup/release_agent"};
    static const char *const masks[] = {"/proc/kcore",
                                        "/proc/keys",
                                        "/proc/key-users",
                                        "/proc/kallsyms",
                                        "/proc/timer_list",
                                        "/proc/sched_debug",
                                        "/proc/latency_stats",
                                        "/proc/kmsg",
                                        "/proc/kpageflags",
                                        "/proc/vmallocinfo",
                                        "/sys/firmware/dmi/tables/DMI"};

    for (size_t i = 0; i < sizeof(knobs) / sizeof(*knobs); i++)
        writable(knobs[i]);
    for (size_t i = 0; i < sizeof(masks) / sizeof(*masks); i++)
        masked(masks[i]);
    read_only_mount("/proc/sys");
    read_only_mount("/proc/irq");
    read_only_mount("/proc/bus");
    read_only_mount("/sys/devices/system/cpu");
    read_only_mount("/sys/devices/system/node");
    read_only_mount("/sys/fs/cgroup");
    nftw("/proc/sys", visit, 32, FTW_PHYS);
    nftw("/sys", visit, 32, FTW_PHYS);
    return verdict();
}
