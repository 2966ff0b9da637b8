/* Installing the filter: last of all steps, since it refuses what the earlier ones use. */
#include <errno.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filter.h"
#include "banned.h"

int seccomp_install(bool scribe)
{
    /* The kernel only reads the program; its struct lacks the const. */
    struct sock_fprog program = {.len = seccomp_filter_len, .filter = (struct sock_filter *)seccomp_filter};
    if (scribe)
        program = (struct sock_fprog){.len = seccomp_scribe_filter_len,
                                      .filter = (struct sock_filter *)seccomp_scribe_filter};

    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) < 0)
        return -errno;
    return 0;
}
