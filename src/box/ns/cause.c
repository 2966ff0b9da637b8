#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cause.h"
#include "plan.h"
#include "io.h"
#include "text.h"
#include "banned.h"

static long sysctl_number(const char *path, long fallback)
{
    _cleanup_buf_ struct buf b = BUF_INIT(64);
    if (io_read_file(AT_FDCWD, path, &b) < 0 || !buf_cstr(&b))
        return fallback;
    return strtol((char *)b.data, NULL, 10);
}

/* Whether a system call filter is on us: that of a container. */
static bool is_filtered(void)
{
    _cleanup_buf_ struct buf b = BUF_INIT(16384);
    if (io_read_file(AT_FDCWD, "/proc/self/status", &b) < 0 || !buf_cstr(&b))
        return false;
    const char *line = strstr((char *)b.data, "\nSeccomp:");
    return line && strtol(line + strlen("\nSeccomp:"), NULL, 10) == 2;
}

static const char *user_namespace_cause(int code)
{
    if (sysctl_number("/proc/sys/user/max_user_namespaces", 1) == 0)
        return "user namespaces are switched off: sysctl -w user.max_user_namespaces=10000";
    if (geteuid() != 0 &&
        sysctl_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", 0) == 1)
        return "AppArmor restricts user namespaces: sysctl -w "
               "kernel.apparmor_restrict_unprivileged_userns=0, or give hutch a profile that "
               "allows 'userns'";
    if (geteuid() != 0 && sysctl_number("/proc/sys/kernel/unprivileged_userns_clone", 1) == 0)
        return "user namespaces are switched off for ordinary users: sysctl -w "
               "kernel.unprivileged_userns_clone=1 (in /etc/sysctl.d to keep it)";
    if ((code == EPERM || code == ENOSYS) && is_filtered())
        return "the system call filter (seccomp) of this container forbids user namespaces: start "
               "it with --security-opt seccomp=unconfined (Docker, podman) or seccompProfile: "
               "{type: Unconfined} (Kubernetes)";
    if (code == EINVAL)
        return "this kernel has no user namespaces (CONFIG_USER_NS)";
    return NULL;
}

bool cause_find(enum cause_step step, int code, char *text, size_t size)
{
    const char *known = NULL;
    if (step == CAUSE_USER_NAMESPACE)
        known = user_namespace_cause(code);
    if (step == CAUSE_PROC && (code == EPERM || code == EACCES) && outer_proc_is_masked())
        known = "parts of /proc are masked here, as in a container: start it with --security-opt "
                "unmask=ALL (podman), --security-opt systempaths=unconfined (Docker) or "
                "procMount: Unmasked (Kubernetes)";
    if (!known && (code == EPERM || code == ENOSYS) && is_filtered())
        known = "the system call filter (seccomp) of this container forbids it: start it with "
                "--security-opt seccomp=unconfined (Docker, podman) or seccompProfile: {type: "
                "Unconfined} (Kubernetes)";
    if (known) {
        snprintf(text, size, "%s", known);
        return true;
    }

    _cleanup_buf_ struct buf profile = BUF_INIT(4096);
    if (code != EACCES ||
        io_read_file(AT_FDCWD, "/proc/self/attr/apparmor/current", &profile) < 0 ||
        !buf_cstr(&profile) || strncmp((char *)profile.data, "unconfined", 10) == 0)
        return false;
    size_t n = strcspn((char *)profile.data, " \n");
    if (n == 0)
        return false;
    snprintf(text, size,
             "the AppArmor profile %.*s forbids it: start the container with --security-opt "
             "apparmor=unconfined (Docker, podman) or appArmorProfile: {type: Unconfined} "
             "(Kubernetes)",
             n < 128 ? (int)n : 128, (char *)profile.data);
    return true;
}

int start_error(struct error *err, enum cause_step step, int code, const char *what)
{
    char cause[CAUSE_TEXT_MAX];
    const char *remedy = "run 'hutch doctor' to see what is missing on this host";
    if (code == EMFILE)
        return error_errno(err, code, "the box did not start: cannot %s", what);
    if (cause_find(step, code, cause, sizeof cause))
        remedy = cause;
    else if (code == EAGAIN)
        remedy = "the limit on processes is reached; raise it (ulimit -u, or that of the control "
                 "group), or end some";
    else if (code == ENOSPC || code == EUSERS)
        remedy = "a limit of the user is reached (sysctl user, for one of namespaces); end some "
                 "boxes or raise it";
    else if (code == ENOMEM)
        remedy = "free some memory, or end some boxes";
    return error_set(err, code, "the box did not start: cannot %s: %s; %s", what, strerror(code),
                     remedy);
}
