#include <stdio.h>

#include "layout.h"
#include "owner_map.h"
#include "banned.h"

static void add_range(char text[OWNER_MAP], size_t *n, uint32_t from, uint32_t to, uint32_t count)
{
    if (count)
        *n += (size_t)snprintf(text + *n, OWNER_MAP - *n, "%u %u %u\n", from, to, count);
}

/* Every id of [from, end) as its own of the others. */
static void add_others(char text[OWNER_MAP], size_t *n, uint32_t from, uint32_t end)
{
    add_range(text, n, from, OTHERS_FIRST + from, end > from ? end - from : 0);
}

void owner_map_family(uint32_t agent, char ret[OWNER_MAP])
{
    size_t n = 0;
    add_others(ret, &n, 0, AGENT_ID);
    add_range(ret, &n, AGENT_ID, agent, 1);
    add_others(ret, &n, AGENT_ID + 1, OTHERS_COUNT);
}

/* Inside a box AGENT_ID is taken: who has it on the host gets the place that the owner leaves. */
void owner_map_folder(uint32_t owner, uint32_t agent, char ret[OWNER_MAP])
{
    size_t n = 0;
    const uint32_t low = owner < AGENT_ID ? owner : AGENT_ID,
                   high = owner < AGENT_ID ? AGENT_ID : owner;
    const uint32_t end = high < OTHERS_COUNT ? high : OTHERS_COUNT;
    add_range(ret, &n, owner, agent, 1);
    if (owner != AGENT_ID && owner < OTHERS_COUNT)
        add_range(ret, &n, AGENT_ID, OTHERS_FIRST + owner, 1);
    add_others(ret, &n, 0, low);
    add_others(ret, &n, low + 1, end);
    add_others(ret, &n, high + 1, OTHERS_COUNT);
}
