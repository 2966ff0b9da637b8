/* Who the person is, as git on the host knows it for a folder: user.name and user.email, nothing
 * else. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GIT_IDENTITY_SIZE 160

/* From the person's and the folder's repository's configuration, with includeIf. Printable text;
 * empty where nothing is set, or there is no git. */
void git_identity(const char *folder, char name[GIT_IDENTITY_SIZE], char email[GIT_IDENTITY_SIZE]);
