/*
 * Box options as text: "memory" is "2G", "net" is "allow:pypi.org". The command line, the chat and
 * the library take the same options, with the same defaults and the same errors: BOX_OPTIONS.
 *
 * There are two steps. Parsing is pure: it keeps pointers to the values and refuses what is wrong
 * whatever the host looks like. Resolving looks at the host: folders must exist and become
 * absolute, an image must be there.
 */
#pragma once

#include "box.h"
#include "options.h"

/* Bits of option.where. */
#define BOX_OPTION_NEW   1u  /* makes a box */
#define BOX_OPTION_AGENT 2u  /* makes an agent's box, which has other defaults */
#define BOX_OPTION_EXEC  4u  /* of one command in a box */
#define BOX_OPTION_SET   8u  /* changes a running box */
#define BOX_OPTION_VALUE 16u /* the default is a value that box_options_default parses */

extern const struct option BOX_OPTIONS[]; /* their target is a struct box_spec */

struct box_spec {
    struct box_options box; /* workspace, image, allow and shares are complete only once resolved */
    const char *dashes;     /* "--" on the command line, "" elsewhere: for error texts */
    bool empty;             /* an empty workspace, not the current folder */
    unsigned fields;        /* enum box_field: the options that were given */
    const char *image;      /* its name */
    const char *share_texts[BOX_SHARES_MAX]; /* PATH[:AT] of each of box.shares */
    char *allow_text;                        /* what box.allow points into */
    struct package_hosts *packages; /* what box.hosts and box.net_env point into; NULL: no group */
    char *paths[16 + 2 * BOX_SHARES_MAX]; /* what resolving allocated */
    size_t n_paths;
};

void box_spec_init(struct box_spec *s, const char *dashes);
void box_spec_free(struct box_spec *s);
#define _cleanup_box_spec_ _cleanup_(box_spec_free)

/* Parses one option by its name, where `-` may be written `_`; `ro`, `rw` and `env` may be set
 * several times. The value is borrowed. -EINVAL, or -ENOENT if there is no option of that name. */
int box_spec_set(struct box_spec *s, const char *name, const char *value, struct error *err);

/* The second step: s->box is then ready for box_open. */
int box_spec_resolve(struct box_spec *s, struct error *err);

/* Looks the @GROUPs of box.allow up; box_spec_resolve does so, too. Where a group's configuration
 * has credentials, `note` says that the box does not get them; else it is empty. */
int box_spec_resolve_groups(struct box_spec *s, struct error *err);
#define BOX_SPEC_NOTE 256
void box_spec_note(const struct box_spec *s, char note[BOX_SPEC_NOTE]);

/* Shows the toolchains of the user's PATH, see toolchains.c. After box_spec_resolve. */
int box_spec_add_toolchains(struct box_spec *s, struct error *err);

/* Hands a string over to the spec, which frees it. NULL, and freed at once, if it has no room. */
const char *box_spec_keep(struct box_spec *s, char *text);

/* Where the root filesystem of an image is: $XDG_DATA_HOME/hutch/images/NAME/rootfs. Pure. */
int box_image_path(const char *name, char *path, size_t size, struct error *err);

/* Why a share must not be shown at this path of the box, or NULL if it may be. Pure. */
const char *box_share_refuse_at(const char *at);
