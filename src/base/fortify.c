/*
 * Debian's static libraries call glibc's fortified functions (__memcpy_chk, …), which musl lacks.
 * Here they are, with their check: writing past the end of an object aborts. Only built with musl
 * (see meson.build).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int __vsnprintf_chk(char *to, size_t size, int flag, size_t object, const char *fmt, va_list args);
int __snprintf_chk(char *to, size_t size, int flag, size_t object, const char *fmt, ...);
int __fprintf_chk(FILE *to, int flag, const char *fmt, ...);
char *__strncpy_chk(char *to, const char *from, size_t n, size_t object);
void *__memcpy_chk(void *to, const void *from, size_t n, size_t object);
void arc4random_buf(void *to, size_t n);

int __vsnprintf_chk(char *to, size_t size, int flag, size_t object, const char *fmt, va_list args)
{
    if (size > object)
        abort();
    return vsnprintf(to, size, fmt, args);
}

int __snprintf_chk(char *to, size_t size, int flag, size_t object, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = __vsnprintf_chk(to, size, flag, object, fmt, args);
    va_end(args);
    return n;
}

char *__strncpy_chk(char *to, const char *from, size_t n, size_t object)
{
    if (n > object)
        abort();
    return strncpy(to, from, n);
}

int __fprintf_chk(FILE *to, int flag, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    int n = vfprintf(to, fmt, args);
    va_end(args);
    return n;
}

void *__memcpy_chk(void *to, const void *from, size_t n, size_t object)
{
    if (n > object)
        abort();
    return memcpy(to, from, n);
}

/* expat salts its hash tables with it. */
void arc4random_buf(void *to, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom((char *)to + done, n - done, 0);
        if (got > 0)
            done += (size_t)got;
    }
}
