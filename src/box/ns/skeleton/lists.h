/*
 * The folders of the host that a box sees by default, beside /etc. Read by selection.c, which shows
 * them, and by make.c, which makes the places for them when hutch is built. Each that is there
 * costs every box 15 µs.
 */
#pragma once

#include <stddef.h>

/* On a merged-/usr system all but the first are links into it, and the skeleton has them as
 * such. */
static const char *const LIST_TOP[] = {"/usr", "/bin", "/sbin", "/lib", "/lib64"};

/* What programs of the distribution read beside /usr and /etc: caches and tables that packages keep
 * when they are installed; and what tells how many processors there are. Nothing in them says who
 * works here. */
static const char *const LIST_MORE[] = {
    "/var/cache/fontconfig", "/var/lib/dpkg",           "/var/lib/ghostscript",
    "/var/lib/texmf",        "/sys/devices/system/cpu", "/sys/devices/system/node",
};

static const char *const LIST_DEVICES[] = {"null", "zero", "full", "random", "urandom", "tty"};

#define LIST_TOP_N     (sizeof LIST_TOP / sizeof *LIST_TOP)
#define LIST_MORE_N    (sizeof LIST_MORE / sizeof *LIST_MORE)
#define LIST_DEVICES_N (sizeof LIST_DEVICES / sizeof *LIST_DEVICES)
