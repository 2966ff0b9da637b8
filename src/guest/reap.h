/* Process 1 waits for everybody: its commands, its workers, and whoever was orphaned. */
#pragma once

struct guest;

void reap_children(struct guest *g);
