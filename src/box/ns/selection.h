/* The part of the host's filesystem that a box sees by default, and what is made up instead of the
 * rest. */
#pragma once

#include "etc_view.h"
#include "layout.h"

/* Looks at the host, for a fresh box. */
void selection_scan(struct selection *s);

/* What of the root filesystem is each box's own and not in the skeleton: made right in the upper
 * folder of its overlay. */
void selection_own(struct plan *p, const struct layout *l);

/* The files of /etc that are made for a family of boxes. */
void selection_own_etc(struct plan *p, const struct layout *l);

/* /usr and a few folders more, read-only, onto the new root. A fork takes them from its source's
 * root. */
void selection_show(struct plan *p, const struct selection *s);

/* /etc entry by entry, where it cannot be a layer of an overlay. */
void selection_show_etc_parts(struct plan *p, const struct etc_view *view);

/* Hides what of /proc tells about the host; makes read-only what of it sets something for the host.
 */
void selection_mask_proc(struct plan *p, const struct selection *s);
void selection_protect_proc(struct plan *p, const struct selection *s);
