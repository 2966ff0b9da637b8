/* One request of a client, served in a thread of its own. */
#pragma once

#include "keeper_held.h"

/* Serves the connection and closes it. */
void keeper_serve(struct request *q);
