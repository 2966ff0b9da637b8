/* Reads pairs of lines, a schema and a value; answers each with `yes` or `no: why`. For
 * tests/tool/test_schema.py. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "schema.h"
#include "banned.h"

static json_t *next(void)
{
    static char *line;
    static size_t size;
    ssize_t n = getline(&line, &size, stdin);
    return n < 0 ? NULL : json_loadb(line, (size_t)n, JSON_DECODE_ANY, NULL);
}

int main(void)
{
    json_t *schema, *value;
    while ((schema = next()) && (value = next())) {
        struct error err = {0};
        if (schema_check(schema, value, "input", &err) == 0)
            puts("yes");
        else
            printf("no: %s\n", err.text);
        json_decref(schema);
        json_decref(value);
    }
    return 0;
}
