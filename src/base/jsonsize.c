#include <stdbool.h>

#include "jsonsize.h"
#include "banned.h"

size_t jsonsize_values(const char *text, size_t n, size_t max)
{
    bool in_string = false;
    size_t count = 1;
    for (size_t i = 0; i < n && count <= max; i++) {
        char c = text[i];
        if (in_string && c == '\\')
            i++;
        else if (c == '"')
            in_string = !in_string;
        else if (!in_string)
            count += c == '{' || c == '[' || c == ',';
    }
    return count;
}
