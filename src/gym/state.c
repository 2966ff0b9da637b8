#include "cache.h"
#include "state.h"
#include "banned.h"

/* The digest over name, tool and sorted input is the one by which results are kept (tool/cache.h).
 */
int state_after(const char *name, const char *tool, const json_t *input, char ret[STATE_NAME_SIZE])
{
    static const char DIGITS[] = "0123456789abcdef";
    uint8_t key[CACHE_KEY_SIZE];
    int r = tool_cache_key(name, tool, input, key);
    if (r < 0)
        return r;
    for (size_t i = 0; i < sizeof key; i++) {
        ret[2 * i] = DIGITS[key[i] >> 4];
        ret[2 * i + 1] = DIGITS[key[i] & 15];
    }
    ret[STATE_NAME_SIZE - 1] = 0;
    return 0;
}

int state_begin(const char *task_digest, char ret[STATE_NAME_SIZE])
{
    json_t *nothing = json_object();
    int r = nothing ? state_after(task_digest, "reset", nothing, ret) : -1;
    json_decref(nothing);
    return r;
}
