/*
 * Debian compiles its static libraries against glibc with fortified calls, which are calls by other names.
 * musl does not have those names; here they are, with the check that they stand for: to write past the end of
 * an object is the end. Only in the build with musl (see meson.build).
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int __vsnprintf_chk(char *to, size_t size, int flag, size_t object, const char *fmt, va_list args);
int __snprintf_chk(char *to, size_t size, int flag, size_t object, const char *fmt, ...);
char *__strncpy_chk(char *to, const char *from, size_t n, size_t object);

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
