/*
 * What somebody wishes of a box, as options in words: "memory" is "2G", "net" is "allow:pypi.org".
 * The command line and the library take the same options, with the same defaults and the same
 * complaints.
 *
 * Two steps. Setting is pure: it keeps pointers to the values and refuses what is wrong whatever
 * the host looks like. Resolving looks at the host: folders must exist and become absolute, an
 * image must be there.
 */
#pragma once

#include "box.h"

struct box_wish {
    struct box_options box; /* workspace, image, allow and shares are complete only once resolved */
    const char
        *dashes; /* "--" on the command line, "" elsewhere: how options are called in complaints */
    bool vm;     /* the backend vm was asked for */
    bool empty;  /* an empty workspace, not the current folder */
    bool memory_given, disk_given;           /* the options, and not the defaults */
    const char *image;                       /* its name */
    const char *share_texts[BOX_SHARES_MAX]; /* PATH[:AT] of each of box.shares */
    char *allow_text;                        /* what box.allow points into */
    struct package_hosts *packages; /* what box.hosts and box.net_env point into; NULL: no group */
    unsigned fields;                /* enum box_field: which of those options were set */
    char *paths[16 + 2 * BOX_SHARES_MAX]; /* what resolving made, to be freed */
    size_t n_paths;
};

void box_wish_init(struct box_wish *w, const char *dashes);
void box_wish_free(struct box_wish *w);
#define _cleanup_wish_ _cleanup_(box_wish_free)

/* One option, by the name that it is shown by, without dashes; `ro`, `rw` and `env` may be set
 * several times. The value is borrowed. -EINVAL, or -ENOENT if there is no option of that name. */
int box_wish_set(struct box_wish *w, const char *name, const char *value, struct error *err);

/* What an option is called in complaints: "--cpu-time" or "cpu_time". Returns `text`. */
const char *box_wish_shown(const struct box_wish *w, const char *name, char *text, size_t size);

/* Looks the @GROUPs of box.allow up, which box_wish_resolve does too. With a group that needs
 * credentials, `note` says that the box does not get them; else it is empty. */
int box_wish_resolve_groups(struct box_wish *w, struct error *err);
#define BOX_WISH_NOTE 256
void box_wish_note(const struct box_wish *w, char note[BOX_WISH_NOTE]);

/* Shows the toolchains of the person's PATH, see toolchains.c. After box_wish_resolve. */
int box_wish_add_toolchains(struct box_wish *w, struct error *err);

/* Hands a string over to the wish, which frees it. NULL, and freed at once, if it has no room. */
const char *box_wish_keep(struct box_wish *w, char *text);

/* The second step: w->box is then ready for box_open. */
int box_wish_resolve(struct box_wish *w, struct error *err);

/* Where the root filesystem of an image lies: $XDG_DATA_HOME/hutch/images/NAME/rootfs. Looks at
 * nothing. */
int box_wish_image_path(const char *name, char *path, size_t size, struct error *err);

/* May a share be shown at this place of the box? NULL, or why not. Pure. */
const char *box_wish_refuse_at(const char *at);
