/* Decodes the hexadecimal bytes of each argument: prints the characters, and "bad" where there is none. */
#include <stdio.h>
#include <string.h>

#include "utf8.h"

static void decode(const unsigned char *text, size_t size)
{
    while (size > 0) {
        uint32_t c = 0;
        size_t n = utf8_decode(text, size, &c);
        if (n == 0 || n > size) {
            printf("bad ");
            break;
        }
        printf("U+%04X ", (unsigned)c);
        text += n;
        size -= n;
    }
    printf("\n");
}

int main(int count, char **arguments)
{
    for (int i = 1; i < count; i++) {
        unsigned char bytes[64];
        size_t size = strlen(arguments[i]) / 2;
        for (size_t at = 0; at < size && at < sizeof bytes; at++) {
            unsigned value = 0;
            sscanf(arguments[i] + 2 * at, "%2x", &value);
            bytes[at] = (unsigned char)value;
        }
        decode(bytes, size);
    }
    return 0;
}
