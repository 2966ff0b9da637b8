/*
 * What the hostile programs share. Each attempt ends in one line:
 *
 *     DENIED what (ERRNO)     it failed, as it should
 *     BREACH what             it worked
 *
 * and the program exits with 1 if anything worked. The tests look at the host as well: they do not
 * take these words for it where something can be checked outside.
 *
 * The programs are static, so that they run in any root filesystem, and harmless even where they
 * succeed: they touch only what a test made for them, and bombs stop by themselves at a ceiling
 * that is above the limit under test.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

static int breaches;

static void say(const char *verdict, const char *format, va_list ap, const char *why)
{
    char what[1024];

    vsnprintf(what, sizeof(what), format, ap);
    printf("%s %s%s%s%s\n", verdict, what, why ? " (" : "", why ? why : "", why ? ")" : "");
    fflush(stdout);
}

static void breach(const char *format, ...)
{
    va_list ap;

    breaches++;
    va_start(ap, format);
    say("BREACH", format, ap, NULL);
    va_end(ap);
}

static void denied(const char *format, ...)
{
    const char *why = strerrorname_np(errno);
    va_list ap;

    va_start(ap, format);
    say("DENIED", format, ap, why);
    va_end(ap);
}

/* One attempt by its result: a negative one is a denial. */
#define attempt(result, ...)                                                                       \
    do {                                                                                           \
        if ((long)(result) >= 0)                                                                   \
            breach(__VA_ARGS__);                                                                   \
        else                                                                                       \
            denied(__VA_ARGS__);                                                                   \
    } while (0)

/* Prints what a descriptor holds, as the loot of a breach; the tests look for their secrets in
 * it. */
static void loot(int fd)
{
    char data[4096];
    ssize_t n = read(fd, data, sizeof(data) - 1);

    if (n > 0)
        printf("LOOT %.*s\n", (int)n, data);
    fflush(stdout);
}

static int verdict(void)
{
    fflush(stdout);
    return breaches ? 1 : 0;
}
