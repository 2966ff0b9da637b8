/* `hutch history export`. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "commands.h"
#include "command_options.h"
#include "history_export.h"
#include "say.h"
#include "banned.h"

static bool ends_in(const char *name, const char *end)
{
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* What is exported may hold secrets of the session: a new file is the person's alone. */
static FILE *open_output(const char *path, struct error *err)
{
    if (!path || strcmp(path, "-") == 0)
        return stdout;
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0600);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!out)
        error_errno(err, errno, "cannot write %s", path);
    return out;
}

static int export(struct history *h, bool html, const char *path, struct error *err)
{
    FILE *out = open_output(path, err);
    if (!out)
        return -err->code;
    int r = history_export(h, html, out, err);
    if (out == stdout)
        return ferror(out) ? 0 : r; /* main tells why */
    bool failed = fflush(out) != 0 || ferror(out);
    int code = errno;
    failed |= fclose(out) != 0;
    return r == 0 && failed ? error_errno(err, code, "cannot write %s", path) : r;
}

int command_history_export(const struct command *self, int argc, char **argv)
{
    struct history_export_options o = {0};
    struct error err = {0};
    struct history *h = NULL;
    int n, status;
    if (!command_words(self, argc, argv, &o, 1, 1, &n, &status))
        return status;
    if (o.format && strcmp(o.format, "md") != 0 && strcmp(o.format, "html") != 0) {
        say("--format '%s': md or html", o.format);
        return EXIT_USAGE;
    }
    bool html = o.format ? strcmp(o.format, "html") == 0
                         : o.output && (ends_in(o.output, ".html") || ends_in(o.output, ".htm"));
    int r = history_open(argv[0], true, &h, NULL, &err);
    if (r == 0 && history_trouble(h))
        say("%s", history_trouble(h));
    if (r == 0)
        r = export(h, html, o.output, &err);
    history_close(h);
    return r < 0 ? say_failure(&err) : 0;
}
