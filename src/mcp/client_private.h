/* What the files of a client's connection share. */
#pragma once

#include <pthread.h>

#include "client.h"
#include "rpc.h"

#define CLIENT_SAID_MAX 4096

/* Somebody who waits for an answer. */
struct waiter {
    json_int_t id;
    int event; /* readable when something below has changed */
    bool done;
    json_t *result;
    struct error failure;
    bool progressed;
    char *message;         /* what was last said about the progress; or NULL */
    int64_t next_progress; /* the caller's: when it is told of progress again */
    struct waiter *next;
};

struct client {
    char *name;
    const struct client_options *options; /* while it is being opened */
    pthread_t thread;
    struct child child; /* the thread's */
    struct rpc_reader reader;
    uint64_t unanswered; /* bytes since the last answer */
    int wake;            /* tells the thread to look at what follows */
    bool has_tools;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t started;
    bool ready, dead, stop;
    struct error why; /* it is dead, or did not start */
    struct buf out;   /* what the server is to read */
    size_t sent;      /* of it */
    unsigned noise;   /* lines that were no JSON */
    struct waiter *waiters;
    json_int_t last_id;
    bool tools_changed;
    char said[CLIENT_SAID_MAX]; /* the end of what it wrote to stderr */
    size_t n_said;
};

/* The thread. */
void *client_thread(void *client);

/* One line of the server's. -EPROTO, with the text set, if there is no talking to it. The lock is
 * not held.
 */
int client_take_line(struct client *c, const char *line, size_t n, struct error *err);

/* Queues a message and takes it over; the lock is held. */
int client_put(struct client *c, json_t *message);

/* Wakes a waiter with a failure; the lock is held. */
void client_fail(struct waiter *w, const struct error *why);

/* The last line of stderr, cleaned, in `text`: "; it said: …", or nothing. The lock is held. */
void client_last_words(struct client *c, char *text, size_t size);
