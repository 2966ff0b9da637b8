/* Stand-ins for those parts of the guest that start, stop or kill processes: a fuzz target runs on
 * the host. */
#pragma once

/* The processes that seem to run let go of their input. */
void guest_fakes_end(void);
