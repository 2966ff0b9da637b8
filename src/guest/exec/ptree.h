/*
 * Process trees of commands, distinguished by a tag that descendants inherit and cannot usefully
 * forge.
 *
 * The tag is the hard limit RLIMIT_RTTIME, set to a number of the command's own before it is
 * executed. It passes through fork, exec, setsid and the loss of all parents, processes may only
 * lower it, and it means nothing to processes without real-time scheduling, which is all of them.
 * Tags grow, so a process can only take on the tag of an older command, with which it then ends; a
 * tag that belongs to no command marks a stray, which is killed on sight.
 */
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "wire.h"

struct guest;
struct command;

void ptree_init(struct guest *g);

/* The tag of a process, or 0 if it is gone. */
rlim_t ptree_tag_of(pid_t pid);

/* The command with that tag, or NULL. */
struct command *ptree_command(struct guest *g, rlim_t tag);

/* Sends a signal to everything of the tree. Returns how many living processes got it. */
unsigned ptree_signal(struct guest *g, rlim_t tag, int sig);

/*
 * One pass of SIGKILL over the tree. Returns how many processes were still there: 0 means that it
 * is gone, all else that another pass is needed. Processes with a pending SIGKILL do not fork, so
 * passes converge.
 */
unsigned ptree_kill(struct guest *g, const struct command *c);

/* Looks at what the tree uses where no cgroup enforces its limits: the limit that it exceeds. */
enum wire_limit ptree_exceeds(struct guest *g, struct command *c);
