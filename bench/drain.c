/* How fast the output of programs arrives through a pipe: drain ROUNDS :: NAME PROGRAM ARG… :: … */
#include <err.h>
#include <stdlib.h>

#include "command.h"
#include "banned.h"

static const char *const PARTS[] = {"ns", "bytes", NULL};

int main(int argc, char **argv)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    size_t n = 0;
    if (argc < 3)
        errx(2, "usage: drain ROUNDS :: NAME [FD<PATH] PROGRAM ARG… :: …");
    command_parse(argv + 2, commands, list, &n);
    for (size_t i = 0; i < n; i++) {
        list[i].run = command_run_piped;
        list[i].parts = PARTS;
    }
    return contest_print(list, n, (unsigned)atoi(argv[1])) < 0;
}
