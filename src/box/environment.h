/* The environment of a command: made up, with what was asked for; nothing of the host's. */
#pragma once

#include "box.h"

/* Puts ENV fields: the made-up ones, then the box's, then the command's; a later one replaces an
 * earlier one.
 */
void environment_put(struct buf *b, char *const *box_env, char *const *command_env, bool tty);

/* The same for a script in a session's shell: nobody is there to answer a prompt or to leave a
 * pager. */
void environment_put_shell(struct buf *b, char *const *box_env, char *const *command_env);
