/* Files of a job: what it begins with, checkpoints between its steps, and what it leaves. */
#pragma once

#include "box.h"
#include "job.h"

/* --- checkpoints (checkpoint.c) --- */

/* Sends what the box changed. ret_upload: what /step names, a new string; NULL: nothing changed. */
int checkpoint_save(struct job *j, struct box *b, struct tool_session *tools, char **ret_upload,
                    struct error *err);

/* Certainly nothing changed: the workspace began empty, and is. Much cheaper than box_changes(). */
bool workspace_is_untouched(struct job *j, struct tool_session *tools);

/* Brings a fresh box into the state of the job's checkpoint. */
int checkpoint_restore(struct job *j, struct box *b, struct error *err);

/* --- the workspace that it begins with (workspace.c) --- */

/* Writes memory.json of `memory_from` into the box, as MEMORY_PATH. */
#define MEMORY_PATH "/tmp/memory.json"
int memory_install(struct job *j, struct box *b, struct error *err);

/* --- archives of users (archive.c) --- */

struct archive_limits {
    uint64_t members, bytes; /* of all files together */
    unsigned ratio;          /* bytes per byte of the archive, above ARCHIVE_RATIO_FROM */
};
#define ARCHIVE_RATIO_FROM (64u << 20)
extern const struct archive_limits ARCHIVE_LIMITS;

/* Unpacks a tar (perhaps with gzip) or a zip into a folder that no one else writes. -EBADMSG, -EFBIG
 * or -EINVAL if the archive is damaged, a bomb, or holds what it may not. */
int archive_unpack(int fd, bool zip, int folder, const struct archive_limits *limits, int cancel,
                   struct error *err);

/* --- what it leaves (artifacts.c) --- */

/* Sends the diff, the workspace and the artifacts. */
int job_send_files(struct job *j, struct box *b, struct tool_session *tools, struct error *err);
