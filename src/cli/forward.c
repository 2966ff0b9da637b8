/*
 * The agent's commands, in hutch itself: hand over to hutch-agent, the same program with what
 * cannot be linked statically. It is executed in this process's place, with the same words.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "parts.h"
#include "say.h"
#include "banned.h"

static int forward(const struct command *self, int argc, char **argv)
{
    char path[PARTS_PATH_MAX];
    struct error err = {0};
    if (parts_find("hutch-agent", path, &err) < 0)
        return say_failure(&err);
    char **words = calloc((size_t)argc + 4, sizeof *words);
    char group[32];
    if (!words)
        return say_failure(&(struct error){.code = ENOMEM, .text = "no memory"});
    size_t n = 0;
    words[n++] = (char *)"hutch";
    snprintf(group, sizeof group, "%.*s", (int)strcspn(self->of, " "), self->of);
    if (group[0])
        words[n++] = group;
    words[n++] = (char *)self->name;
    for (int i = 0; i < argc; i++)
        words[n++] = argv[i];
    execv(path, words);
    error_errno(&err, errno, "cannot start %s", path);
    free(words);
    return say_failure(&err);
}

int command_chat(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_ask(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_history_ls(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_history_show(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_history_export(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_history_search(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_history_rm(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_gym_tasks(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_gym_episode(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_gym_train(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_gym_eval(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}

int command_gym_bench(const struct command *self, int argc, char **argv)
{
    return forward(self, argc, argv);
}
