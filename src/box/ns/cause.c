#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "buf.h"
#include "cause.h"
#include "io.h"
#include "outer_proc.h"
#include "banned.h"

static long sysctl_number(const char *path, long fallback)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    if (io_read_file(AT_FDCWD, path, &b) < 0 || !buf_cstr(&b))
        return fallback;
    return strtol((char *)b.data, NULL, 10);
}

bool cause_is_filtered(void)
{
    _cleanup_buf_ struct buf b = BUF_INIT(16384);
    if (io_read_file(AT_FDCWD, "/proc/self/status", &b) < 0 || !buf_cstr(&b))
        return false;
    const char *line = strstr((char *)b.data, "\nSeccomp:");
    return line && strtol(line + strlen("\nSeccomp:"), NULL, 10) == 2;
}

/* The name of the AppArmor profile that confines us, or "". */
static void confining_profile(char *name, size_t size)
{
    _cleanup_buf_ struct buf b = BUF_INIT(4096);
    *name = 0;
    if (io_read_file(AT_FDCWD, "/proc/self/attr/apparmor/current", &b) < 0 || !buf_cstr(&b) ||
        strncmp((char *)b.data, "unconfined", 10) == 0)
        return;
    snprintf(name, size, "%.*s", (int)strcspn((char *)b.data, " \n"), (char *)b.data);
}

static const char *namespace_cause(int code)
{
    if (sysctl_number("/proc/sys/user/max_user_namespaces", 1) == 0)
        return "user namespaces are switched off: sysctl -w user.max_user_namespaces=10000";
    if (geteuid() != 0 &&
        sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        return "AppArmor restricts user namespaces: sysctl -w "
               "kernel.apparmor_restrict_unprivileged_userns=0, "
               "or give hutch a profile that allows 'userns'";
    if (geteuid() != 0 && sysctl_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
        return "user namespaces are switched off for ordinary users: sysctl -w "
               "kernel.unprivileged_userns_clone=1 (in /etc/sysctl.d to keep it)";
    if ((code == EPERM || code == ENOSYS) && cause_is_filtered())
        return "the system call filter (seccomp) of this container forbids user namespaces: start "
               "it with "
               "--security-opt seccomp=unconfined (Docker, podman) or seccompProfile: {type: "
               "Unconfined} "
               "(Kubernetes)";
    if (code == EINVAL)
        return "this kernel has no user namespaces (CONFIG_USER_NS)";
    return NULL;
}

static const char *proc_cause(int code)
{
    if ((code != EPERM && code != EACCES) || !outer_proc_is_masked())
        return NULL;
    return "parts of /proc are masked here, as in a container: start it with --security-opt "
           "unmask=ALL "
           "(podman), --security-opt systempaths=unconfined (Docker) or procMount: Unmasked "
           "(Kubernetes)";
}

bool cause_find(enum cause_step step, int code, char *text, size_t size)
{
    char profile[128];
    const char *known = step == CAUSE_USER_NAMESPACE ? namespace_cause(code)
                        : step == CAUSE_PROC         ? proc_cause(code)
                                                     : NULL;
    if (!known && (code == EPERM || code == ENOSYS) && cause_is_filtered())
        known = "the system call filter (seccomp) of this container forbids it: start it with "
                "--security-opt "
                "seccomp=unconfined (Docker, podman) or seccompProfile: {type: Unconfined} "
                "(Kubernetes)";
    if (known) {
        snprintf(text, size, "%s", known);
        return true;
    }
    confining_profile(profile, sizeof profile);
    if (code != EACCES || !*profile)
        return false;
    snprintf(text, size,
             "the AppArmor profile %s forbids it: start the container with --security-opt "
             "apparmor=unconfined "
             "(Docker, podman) or appArmorProfile: {type: Unconfined} (Kubernetes)",
             profile);
    return true;
}
