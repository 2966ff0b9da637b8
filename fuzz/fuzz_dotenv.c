/* .env files: whatever they hold, names and values are within their bounds, lines are counted
 * upwards, and a value that is written in single quotes is read again as it was. */
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "dotenv.h"
#include "text.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct seen {
    unsigned line;
    const char *name, *value; /* that must come next; or NULL */
    unsigned count;
};

static void take(void *data, const char *name, const char *value)
{
    struct seen *s = data;
    require(name[0] && strlen(name) < DOTENV_NAME_MAX && strlen(value) <= DOTENV_VALUE_MAX);
    require(!s->name || (strcmp(s->name, name) == 0 && strcmp(s->value, value) == 0));
    s->count++;
}

static void take_broken(void *data, unsigned line, const char *why)
{
    struct seen *s = data;
    require(line > s->line && why[0] && !s->name);
    s->line = line;
}

static void again(void *data, const char *name, const char *value)
{
    struct seen one = {.name = name, .value = value};
    struct dotenv_sink sink = {take, take_broken, &one};
    _cleanup_buf_ struct buf b = BUF_INIT(DOTENV_MAX);
    take(data, name, value);
    if (strchr(value, '\''))
        return;
    buf_printf(&b, "export %s='%s' # said", name, value);
    require(!b.failed && dotenv_parse((const char *)b.data, b.len, &sink) == 0 && one.count == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct seen seen = {0};
    struct dotenv_sink sink = {again, take_broken, &seen};
    char *copy = malloc(n + 1); /* so that reading past the end is found */
    require(copy != NULL);
    if (n)
        memcpy(copy, data, n);
    require(dotenv_parse(copy, n, &sink) == 0);
    free(copy);
    return 0;
}
