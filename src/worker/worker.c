/* The worker: leases jobs, renews the leases, and runs each job on a thread of its own. */
#include <errno.h>

#include "thread.h"
#include "worker.h"
#include "banned.h"

int worker_run(const struct worker_options *o, int cancel, struct error *err)
{
    int r = cancel_wait(-1, 0, -1, cancel);
    return r == -ECANCELED ? 0 : error_errno(err, -r, "cannot wait for jobs");
}
