/* Writes the seccomp filter of a box to standard output, for `bwrap --seccomp`: both then run under
 * the same. */
#include <err.h>
#include <unistd.h>

#include "confine.h"
#include "io.h"
#include "banned.h"

int main(void)
{
    if (io_write_all(STDOUT_FILENO, seccomp_filter, seccomp_filter_len * sizeof *seccomp_filter) <
        0)
        errx(1, "cannot write the filter");
    return 0;
}
