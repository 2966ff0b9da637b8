/*
 * Shared memory, semaphores, message queues: leaves a secret in each of them (put, then waits for
 * its input to end), or looks for one (get).
 *
 *     ipc put|get KEY NAME SECRET
 */
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/shm.h>

#include "hostile.h"

struct letter {
    long type;
    char text[128];
};

static void put(key_t key, const char *name, const char *secret)
{
    struct letter l = {.type = 1};
    int shm = shmget(key, 4096, IPC_CREAT | 0666), msg = msgget(key, IPC_CREAT | 0666);
    int fd = shm_open(name, O_CREAT | O_RDWR, 0666);
    struct mq_attr attr = {.mq_maxmsg = 4, .mq_msgsize = 128};
    mqd_t mq = mq_open(name, O_CREAT | O_RDWR, 0666, &attr);

    snprintf(l.text, sizeof(l.text), "%s", secret);
    if (shm >= 0)
        strcpy(shmat(shm, NULL, 0), secret);
    if (msg >= 0)
        msgsnd(msg, &l, sizeof(l.text), 0);
    semget(key, 1, IPC_CREAT | 0666);
    if (fd >= 0)
        fchmod(fd, 0666), write(fd, secret, strlen(secret));
    if (mq != (mqd_t)-1)
        mq_send(mq, secret, strlen(secret), 0);
    printf("READY shm %d msg %d posix %d mq %d\n", shm >= 0, msg >= 0, fd >= 0, mq != (mqd_t)-1);
    fflush(stdout);
    while (read(0, &l, 1) > 0)
        ;
    shmctl(shm, IPC_RMID, NULL);
    msgctl(msg, IPC_RMID, NULL);
    semctl(semget(key, 1, 0), 0, IPC_RMID);
    shm_unlink(name);
    mq_unlink(name);
}

static void get(key_t key, const char *name)
{
    struct letter l = {0};
    int shm = shmget(key, 0, 0), msg = msgget(key, 0), fd = shm_open(name, O_RDONLY, 0);
    mqd_t mq = mq_open(name, O_RDONLY | O_NONBLOCK);

    attempt(shm, "shared memory of another");
    if (shm >= 0)
        printf("LOOT %s\n", (char *)shmat(shm, NULL, SHM_RDONLY));
    attempt(msg, "message queue of another");
    if (msg >= 0 && msgrcv(msg, &l, sizeof(l.text), 0, IPC_NOWAIT) >= 0)
        printf("LOOT %s\n", l.text);
    attempt(semget(key, 0, 0), "semaphores of another");
    attempt(fd, "POSIX shared memory of another");
    if (fd >= 0)
        loot(fd);
    attempt(mq, "POSIX message queue of another");
}

int main(int argc, char **argv)
{
    key_t key = strtol(argv[2], NULL, 0);

    if (!strcmp(argv[1], "put"))
        put(key, argv[3], argv[4]);
    else
        get(key, argv[3]);
    return verdict();
}
