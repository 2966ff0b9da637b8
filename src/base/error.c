#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "error.h"
#include "banned.h"

/* The functions themselves, without the analyzer's assumptions. */
#undef error_set
#undef error_errno
#undef error_wrap

static void error_format(struct error *err, int code, const char *reason, const char *fmt,
                         va_list args)
{
    err->code = code;
    vsnprintf(err->text, sizeof err->text, fmt, args);
    size_t used = strlen(err->text);
    if (reason)
        snprintf(err->text + used, sizeof err->text - used, ": %s", reason);
}

int error_set(struct error *err, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (err)
        error_format(err, code, NULL, fmt, args);
    va_end(args);
    return -code;
}

int error_errno(struct error *err, int code, const char *fmt, ...)
{
    char reason[512];
    const char *remedy = "";
    if (code == EMFILE)
        remedy = "; raise the limit of open files (ulimit -n)";
    else if (code == EOVERFLOW) /* an overlay copies up nothing whose owner is not mapped */
        remedy =
            "; its owner or group does not exist in the box: change it on the host (chgrp), or "
            "start hutch with that group (sg GROUP -c hutch)";
    snprintf(reason, sizeof reason, "%s%s", strerror(code), remedy);
    va_list args;
    va_start(args, fmt);
    if (err)
        error_format(err, code, reason, fmt, args);
    va_end(args);
    return -code;
}

int error_wrap(struct error *err, const char *fmt, ...)
{
    char inner[ERROR_TEXT_MAX];
    va_list args;
    if (!err)
        return -EIO;
    memcpy(inner, err->text, sizeof inner);
    va_start(args, fmt);
    error_format(err, err->code, inner, fmt, args);
    va_end(args);
    return -err->code;
}
