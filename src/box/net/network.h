/* The network of a box of this process: its policy as it is now, its proxy, its variables. */
#pragma once

#include "net_policy.h"

/* Lists are NULL-terminated. */
struct box_network {
    const struct net_policy *policy;
    char **allow; /* as it was written, @GROUPs included */
    char **hosts; /* of the groups */
    char **env;   /* of the groups */
};

/* Fills b->network and b->env from the options, or from another box. */
int box_network_init(struct box *b, const struct box_options *o);
int box_network_copy(struct box *to, struct box *from);
void box_network_free(struct box_network *n);

/* Starts the proxy if the machine has a listener for one. */
int box_network_start(struct box *b, struct error *err);

/* Sets the network of the options, or with `add` adds their hosts to the present one. */
int box_network_set(struct box *b, const struct box_options *o, bool add, struct error *err);
/* Sets the network that another box has now; nothing if one of them cannot change. */
int box_network_inherit(struct box *b, struct box *from, struct error *err);
