#include "box.h"
#include "banned.h"

const char *box_limit_name(enum wire_limit limit)
{
    static const char *const names[] = {
        [WIRE_LIMIT_TIMEOUT] = "timeout", [WIRE_LIMIT_CPU] = "cpu-time",
        [WIRE_LIMIT_MEMORY] = "memory",   [WIRE_LIMIT_PIDS] = "pids",
        [WIRE_LIMIT_DISK] = "disk",       [WIRE_LIMIT_OUTPUT] = "output",
    };
    return (size_t)limit < ARRAY_SIZE(names) ? names[limit] : NULL;
}
