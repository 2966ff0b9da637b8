/*
 * hutch: looks up the subcommand's row and runs it, here or in the program that the row names.
 * Nothing is read or set up here that a subcommand did not ask for, so that `hutch run` starts
 * fast.
 */
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <fcntl.h>

#include "commands.h"
#ifdef HUTCH_AGENT
#include "mcp_tools.h"
#endif
#include "output.h"
#include "libexec.h"
#include "banned.h"

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int command_dispatch(int argc, char **argv)
{
    if (argc >= 2 && is_help(argv[1]))
        return help_overview();
    /* Without a command it is the chat: `hutch`, `hutch --resume last`. */
    bool chat = argc < 2 || (argv[1][0] == '-' && strcmp(argv[1], "--version") != 0);
    const char *name = chat ? "chat" : argv[1][0] == '-' ? "version" : argv[1];
    int used = argc < 1 ? 0 : chat ? 1 : 2;
    const struct command *c = command_find(COMMANDS, name);
    if (!c)
        return command_unknown(COMMANDS, name);
    if (c->group) {
        if (used == argc) {
            say("'hutch %s' needs a command; see 'hutch %s --help'", c->name, c->name);
            return EXIT_USAGE;
        }
        name = argv[used++];
        if (is_help(name))
            return help_command(c);
        const struct command *group = c->group;
        c = command_find(group, name);
        if (!c)
            return command_unknown(group, name);
    }
    if (c->run)
        return c->run(c, argc - used, argv + used);

    /* Another program implements it, which parses the same argv with the same table. */
    char path[LIBEXEC_PATH_MAX];
    struct error err = {0};
    if (libexec_find(c->program, path, &err) == 0) {
        execv(path, argv);
        error_errno(&err, errno, "cannot start %s", path);
    }
    return say_failure(&err);
}

int main(int argc, char **argv)
{
    /* A caller may have closed stdin, stdout or stderr: what is opened next must not become one of
     * them by accident. */
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);

    /* The kernel counts the descriptors that a user has under way in sockets against the sender's
     * limit on open files. A box runs as the same user with a lower limit: with a higher one here,
     * it cannot keep hutch from talking to other boxes. */
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    output_begin();
#ifdef HUTCH_AGENT
    mcp_tools_register();
#endif
    return output_finish(command_dispatch(argc, argv));
}
