#pragma once

/* Serves the control socket, and the filter's listener if there is one (else -1). Returns only if
 * it could not start: a negative errno and the call that failed. */
int guest_serve(int control, int listener, const char **ret_call);
