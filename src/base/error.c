#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "banned.h"

/* The functions themselves, not what the analyzer is told about them. */
#undef error_set
#undef error_errno
#undef error_wrap

static void set_text(struct error *err, int code, const char *fmt, va_list args)
{
    err->code = code;
    vsnprintf(err->text, sizeof err->text, fmt, args);
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        set_text(err, code, fmt, args);
        va_end(args);
    }
    return -code;
}

/* What to do about errors whose words say little. */
static const char *remedy_of(int code)
{
    switch (code) {
    case EMFILE:
        return "; raise the limit of open files (ulimit -n)";
    case EOVERFLOW: /* an overlay copies up nothing whose owner is not mapped */
        return "; it belongs to an owner or a group that the box does not have: on the host change "
               "that "
               "(chgrp), "
               "or start hutch with that group (sg GROUP -c hutch)";
    default:
        return "";
    }
}

int error_errno(struct error *err, int code, const char *fmt, ...)
{
    if (err) {
        va_list args;
        va_start(args, fmt);
        set_text(err, code, fmt, args);
        va_end(args);
        size_t used = strlen(err->text);
        snprintf(err->text + used, sizeof err->text - used, ": %s%s", strerror(code),
                 remedy_of(code));
    }
    return -code;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    if (!err)
        return -EIO;
    char inner[ERROR_TEXT_MAX];
    memcpy(inner, err->text, sizeof inner);
    va_list args;
    va_start(args, fmt);
    set_text(err, err->code, fmt, args);
    va_end(args);
    size_t used = strlen(err->text);
    snprintf(err->text + used, sizeof err->text - used, ": %s", inner);
    return -err->code;
}
