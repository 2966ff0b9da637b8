/*
 * One file on its way in: its content is compared with what is there as it comes, and only from the
 * first difference on (or if something else than this file is there) it is written anew.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct pour {
    int dir; /* borrowed */
    const char *name;
    mode_t mode; /* permissions */
    uint64_t size, at;
    int old;      /* what is there, as long as it is the same */
    int fresh;    /* the new file */
    bool existed; /* something had the name */
    bool linked;  /* what is there has other names, too, by which it could be written */
    bool differs;
};
#define POUR_INIT ((struct pour){.old = -1, .fresh = -1})

int pour_begin(struct pour *p);
int pour_bytes(struct pour *p, const void *bytes, size_t n);
int pour_end(struct pour *p);
void pour_close(struct pour *p);

/* A symbolic link of that target. */
int pour_link(struct pour *p, const char *target);
