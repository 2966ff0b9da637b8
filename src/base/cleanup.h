/*
 * Clean-up attributes and explicit transfer of ownership:
 *
 *     _cleanup_fd_ int fd = open(…);
 *     …
 *     *ret_fd = TAKE_FD(fd);
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_close(int *fd)
{
    if (*fd >= 0)
        close(*fd);
}

static inline void cleanup_free(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_fclose(FILE **f)
{
    if (*f)
        fclose(*f);
}

#define _cleanup_(f)     __attribute__((cleanup(f)))
#define _cleanup_fd_     _cleanup_(cleanup_close)
#define _cleanup_free_   _cleanup_(cleanup_free)
#define _cleanup_fclose_ _cleanup_(cleanup_fclose)

#define TAKE_FD(fd)                                                                                \
    ({                                                                                             \
        int taken_ = (fd);                                                                         \
        (fd) = -1;                                                                                 \
        taken_;                                                                                    \
    })

#define TAKE_PTR(p)                                                                                \
    ({                                                                                             \
        __typeof__(p) taken_ = (p);                                                                \
        (p) = NULL;                                                                                \
        taken_;                                                                                    \
    })

/* Makes room for one more item behind `count` in an array of `room` items; false: no memory. */
#define ARRAY_GROW(items, count, room)                                                             \
    ({                                                                                             \
        size_t more_ = (count) < (room) ? 0 : (room) ? 2 * (room) : 16;                            \
        void *grown_ = more_ ? reallocarray((items), more_, sizeof *(items)) : (items);            \
        if (more_ && grown_) {                                                                     \
            (items) = grown_;                                                                      \
            (room) = more_;                                                                        \
        }                                                                                          \
        grown_ != NULL;                                                                            \
    })

#define ARRAY_SIZE(a)     (sizeof(a) / sizeof((a)[0]))
#define PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
