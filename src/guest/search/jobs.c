#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"
#include "banned.h"

#define ROOM_FIRST 256

int jobs_init(struct jobs *j)
{
    *j = (struct jobs){.stack = calloc(ROOM_FIRST, sizeof *j->stack), .room = ROOM_FIRST};
    if (!j->stack)
        return -ENOMEM;
    pthread_mutex_init(&j->lock, NULL);
    pthread_cond_init(&j->more, NULL);
    return 0;
}

static int make_room(struct jobs *j, size_t n)
{
    size_t room = j->room;
    while (room - j->count < n)
        room *= 2;
    if (room == j->room)
        return 0;
    struct job *more = reallocarray(j->stack, room, sizeof *more);
    if (!more)
        return -ENOMEM;
    j->stack = more;
    j->room = room;
    return 0;
}

int jobs_push(struct jobs *j, const struct job *list, size_t n)
{
    if (n == 0)
        return 0;
    pthread_mutex_lock(&j->lock);
    int r = make_room(j, n);
    if (r >= 0) {
        memcpy(j->stack + j->count, list, n * sizeof *list);
        j->count += n;
        if (n == 1)
            pthread_cond_signal(&j->more);
        else
            pthread_cond_broadcast(&j->more);
    }
    pthread_mutex_unlock(&j->lock);
    return r;
}

bool jobs_take(struct jobs *j, bool again, struct job *ret)
{
    pthread_mutex_lock(&j->lock);
    if (again)
        j->busy--;
    while (j->count == 0 && j->busy > 0 && !j->ended)
        pthread_cond_wait(&j->more, &j->lock);
    bool got = j->count > 0 && !j->ended;
    if (got) {
        *ret = j->stack[--j->count];
        j->busy++;
    } else {
        j->ended = true;
        pthread_cond_broadcast(&j->more);
    }
    pthread_mutex_unlock(&j->lock);
    return got;
}

void jobs_end(struct jobs *j)
{
    pthread_mutex_lock(&j->lock);
    j->ended = true;
    pthread_cond_broadcast(&j->more);
    pthread_mutex_unlock(&j->lock);
}
