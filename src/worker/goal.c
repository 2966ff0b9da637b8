/* Jobs of kind `goal`: an agent carries one out. */
#include <errno.h>

#include "job.h"
#include "banned.h"

void job_run_goal(struct job *j, struct job_outcome *ret)
{
    struct error err;
    error_set(&err, ENOSYS, "goals are not there yet");
    job_fail(ret, &err, false);
}
