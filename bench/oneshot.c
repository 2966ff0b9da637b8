/* Programs from start to end: oneshot time|drain ROUNDS :: NAME PROGRAM ARG… :: …
 * `time` measures how long they take, `drain` how fast their output arrives through a pipe. */
#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "contest.h"
#include "banned.h"

int main(int argc, char **argv)
{
    struct command commands[CONTEST_MAX];
    struct contestant list[CONTEST_MAX];
    size_t n = 0;
    if (argc < 4 || (strcmp(argv[1], "time") != 0 && strcmp(argv[1], "drain") != 0))
        errx(2, "usage: oneshot time|drain ROUNDS :: NAME [FD<PATH] PROGRAM ARG… :: …");
    command_parse(argv + 3, commands, list, &n);
    for (size_t i = 0; i < n && strcmp(argv[1], "drain") == 0; i++)
        command_set_piped(&list[i]);
    return contest_print(list, n, (unsigned)atoi(argv[2])) < 0;
}
