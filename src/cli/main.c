/*
 * hutch: finds the subcommand and runs it. Nothing is read or set up here that a subcommand did not
 * ask for, so that `hutch run` starts fast.
 */
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <fcntl.h>

#include "commands.h"
#include "output.h"
#include "banned.h"

/* A caller may have closed one of the three: what is opened next must not become stdin or stdout by
 * accident.
 */
static void hold_stdio(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/*
 * The kernel counts the descriptors that a user has under way in sockets against the sender's limit
 * on open files. A box is its user, too, with a lower limit: with a higher one here, it cannot keep
 * hutch from talking to other boxes.
 */
static void raise_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static int run_command(int argc, char **argv)
{
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0))
        return help_overview();
    /* Without a command it is the chat: `hutch`, `hutch --resume last`. */
    bool chat = argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--version") != 0);
    const char *name = chat ? "chat" : argv[1][0] == '-' ? "version" : argv[1];
    const struct command *c = command_find(COMMANDS, name);
    if (chat)
        return c->run(c, argc > 0 ? argc - 1 : 0, argv + (argc > 0));
    if (!c)
        return command_unknown(COMMANDS, name);
    return c->run(c, argc - 2, argv + 2);
}

int main(int argc, char **argv)
{
    hold_stdio();
    raise_files();
    output_begin();
    return output_finish(run_command(argc, argv));
}
