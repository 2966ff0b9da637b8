/*
 * The box's processes as /proc shows them. Their owner is hostile: names hold any bytes. A process
 * may end between any two calls, which is -ENOENT or -ESRCH here and no error to callers.
 */
#pragma once

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct proc {
    DIR *dir; /* /proc, opened when first needed and kept */
};

struct proc_stat {
    char state; /* R S D T t Z X … */
    pid_t parent;
    uint64_t cpu_us; /* its own and that of the children it waited for */
    uint64_t threads;
};

/* Walks all processes but process 1: proc_rewind, then proc_next until it returns 0. */
int proc_rewind(struct proc *p);
pid_t proc_next(struct proc *p);

int proc_read_stat(struct proc *p, pid_t pid, struct proc_stat *ret);

/* Resident memory that is the process's own: neither of files nor shared. 0 if it is gone. */
uint64_t proc_own_memory(struct proc *p, pid_t pid);

/* Whether it can write to a file through its memory: a shared, writable mapping. True if that is
 * unknown. */
bool proc_maps_files(struct proc *p, pid_t pid);

/* No thread of it will run again. A dead leader may leave living threads behind. */
bool proc_stat_is_dead(const struct proc_stat *s);

/* Every thread of it has stopped or died. */
bool proc_is_stopped(struct proc *p, pid_t pid, const struct proc_stat *s);

/* The text of a stat file; -EINVAL if it has another form. */
int proc_parse_stat(const char *text, size_t n, uint64_t ticks_per_second, struct proc_stat *ret);
