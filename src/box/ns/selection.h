/* The part of the host's filesystem that a box sees by default, and what is made up instead of the rest. */
#pragma once

#include "layout.h"

/* Looks at the host, once for a fresh box; its forks have what it found. */
void selection_scan(struct selection *s);

/* What of the root filesystem is each box's own and not in the skeleton: made right in the upper folder of
 * its overlay. */
void selection_own(struct plan *p, const struct layout *l);

/* /usr and what programs need of /etc, read-only, onto the new root. The same for a fork, from its source's
 * root. */
void selection_show(struct plan *p, const struct selection *s);

/* Hides what of /proc tells about or reaches the host. */
void selection_mask_proc(struct plan *p, const struct selection *s);
