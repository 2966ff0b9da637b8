/* Inside of history/: the file of a session, its index, and the folder of all sessions. */
#pragma once

#include <pthread.h>

#include "history.h"
#include "text.h"

#define HISTORY_TURN_MAX  1000000000u
#define HISTORY_TAIL_MAX  1024
#define HISTORY_TITLE_MAX 120

/* The index: what is known of each message, and the sums. */
struct history_index {
    struct history_entry *entries;
    size_t count, cap;
    unsigned turn; /* under way */
    struct history_totals totals;
};

#define INDEX_INIT ((struct history_index){.totals.cost = -1})

/* A state of the index to go back to. */
struct index_mark {
    size_t count;
    unsigned turn;
    struct history_totals totals;
};
struct index_mark index_mark(const struct history_index *x);
void index_go_back(struct history_index *x, const struct index_mark *m);

/* Adds a message that stands at this place of the file. -EBADMSG: it has no known role; -ENOMEM. */
int index_add(struct history_index *x, const json_t *message, uint64_t offset, size_t length);

/* Decides again which messages count: after an undo, or after a whole file. */
void index_settle(struct history_index *x);

/* A file as it was found. */
struct loaded {
    json_t *head;
    struct history_index index;
    uint64_t end;            /* of the last message, or of the opening bracket */
    bool torn;               /* what follows `end` does not close the file as it should */
    bool members;            /* ... closes it, but has members that belong to the head */
    unsigned gaps;           /* places in the middle that could not be read */
    uint64_t gap, gap_bytes; /* where the first is, and how much they are in all */
    bool only_first;         /* asked for: stop behind the first message that begins a turn */
};

/* -EBADMSG: not a history. Reads with pread; never changes the file. */
int history_load(int fd, const char *name, struct loaded *l, struct error *err);
void loaded_free(struct loaded *l);
#define _cleanup_loaded_ _cleanup_(loaded_free)

struct history {
    pthread_mutex_t lock; /* guards the index against readers in other threads */
    int folder, fd;
    bool read_only;
    bool exists; /* the file has its name: there was a first message */
    char id[HISTORY_ID_MAX];
    char *path, *name; /* the file's, and without the folder */
    json_t *head;
    struct history_index index;
    size_t count;       /* of the index, what is in the file */
    uint64_t end, size; /* where the next message goes; of the file, as we left it */
    char *trouble;
    bool unsynced, folder_unsynced;
};

struct history *history_alloc(struct error *err);

/* What precedes the messages. */
int history_put_head(const json_t *head, struct buf *b);

/* Makes the file end behind its last message, as it should. */
int history_close_file(struct history *h);

/* After loading, for writing: cuts what is torn, rewrites what is damaged or laid out otherwise. */
int history_repair(struct history *h, const struct loaded *l, struct error *err);

/* folder.c */
bool history_is_id(const char *text, size_t n);
int history_reserve(const char *folder, struct history *h, struct error *err);
void history_unreserve(struct history *h);
int history_publish(struct history *h, struct error *err);
int history_find(const char *folder, const char *given, struct history *h,
                 struct error *err);                         /* sets folder, name, id, path */
int history_open_file(struct history *h, struct error *err); /* sets fd; locks it */
int history_folder_path(const char *folder, char **ret, struct error *err);

/* A copy of the entry, from any thread; false if there is none. */
bool history_peek(struct history *h, size_t i, struct history_entry *ret);

/* Calls `each` with the names of all sessions' files, and the length of the ID in them, until it
 * returns another value than 0. */
int history_each(int folder, int (*each)(void *data, const char *name, size_t n_id), void *data);

/* Appends text on one line, and an ellipsis where the buffer would exceed `max` bytes. */
void text_put_line(struct buf *b, const char *text, size_t n, size_t max);

/* The first words of a message, on one line; a new string, or NULL. */
char *history_title_of(const json_t *message);
