/*
 * The map of ids of a box that root starts. Agent is an id of its own, and the owner of a folder
 * appears as agent. All other owners of files in it have ids as well: a file whose owner or group
 * is not mapped cannot be copied up into the box's layer (EOVERFLOW), so it could be neither
 * changed nor renamed. Nobody in a box ever runs as one of them, so all boxes share their range:
 * OTHERS_FIRST + the id on disk.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define OTHERS_FIRST 0x72000000u /* behind those of the agents */
#define OTHERS_COUNT 0x01000000u
#define OWNER_MAP    160 /* bytes of a map's text */

/* For the family's user namespace: inside, agent is AGENT_ID and every other id itself. */
void owner_map_family(uint32_t agent, char ret[OWNER_MAP]);

/* For an id-mapped mount of a folder that belongs to `owner`. */
void owner_map_folder(uint32_t owner, uint32_t agent, char ret[OWNER_MAP]);
