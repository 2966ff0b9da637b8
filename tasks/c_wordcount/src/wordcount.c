/* wordcount [FILE…]: lines, words and bytes of each file, or of the input; with several files also of all. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "count.h"

#define BLOCK 16

static void print(const struct count *c, const char *name)
{
    printf("%lu %lu %lu%s%s\n", c->lines, c->words, c->bytes, name[0] ? " " : "", name);
}

static void count_stream(FILE *stream, struct count *c)
{
    char block[BLOCK];
    size_t n;
    while ((n = fread(block, 1, sizeof block, stream)) == sizeof block)
        count_block(c, block, n);
}

static int count_file(const char *name, struct count *total)
{
    struct count c = {0};
    FILE *stream = fopen(name, "rb");
    if (!stream) {
        fprintf(stderr, "wordcount: %s: %s\n", name, strerror(errno));
        return 1;
    }
    count_stream(stream, &c);
    fclose(stream);
    print(&c, name);
    total->lines += c.lines;
    total->words += c.words;
    total->bytes += c.bytes;
    return 0;
}

int main(int count, char **arguments)
{
    struct count total = {0};
    int status = 0;
    if (count < 2) {
        count_stream(stdin, &total);
        print(&total, "");
    }
    for (int i = 1; i < count; i++)
        status = count_file(arguments[i], &total);
    if (count > 2)
        print(&total, "total");
    return status;
}
