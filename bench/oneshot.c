/* How long programs take from start to end: oneshot ROUNDS :: NAME PROGRAM ARG… :: … */
#include <err.h>
#include <stdlib.h>

#include "command.h"
#include "banned.h"

int main(int argc, char **argv)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    size_t n = 0;
    if (argc < 3)
        errx(2, "usage: oneshot ROUNDS :: NAME [FD<PATH] PROGRAM ARG… :: …");
    command_parse(argv + 2, commands, list, &n);
    return contest_print(list, n, (unsigned)atoi(argv[1])) < 0;
}
