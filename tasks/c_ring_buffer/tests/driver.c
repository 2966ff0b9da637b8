/* Does to a ring what its arguments say: +TEXT writes, -N reads and prints, ? prints how many bytes are in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ring.h"

int main(int count, char **arguments)
{
    struct ring r;
    ring_init(&r);
    for (int i = 1; i < count; i++) {
        const char *argument = arguments[i];
        char text[64] = "";
        if (argument[0] == '+')
            printf("%zu\n", ring_write(&r, argument + 1, strlen(argument + 1)));
        else if (argument[0] == '?')
            printf("%zu\n", ring_used(&r));
        else
            printf("%zu:%.64s\n", ring_read(&r, text, (size_t)atoi(argument + 1)), text);
    }
    return 0;
}
