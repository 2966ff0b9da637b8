/*
 * Fuzz target of the test-report parsers. The first byte picks the format, or 0 to have it
 * recognised. Whatever the bytes are: what comes out is valid UTF-8 within its limits, and as many
 * tests are told as are counted.
 */
#include <stdlib.h>
#include <string.h>

#include "compose.h"
#include "report/report.h"
#include "text.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_text(const char *s, size_t max)
{
    size_t n = strlen(s);
    require(n <= max && utf8_valid((const uint8_t *)s, n));
}

static int check_test(void *data, const struct report_test *t)
{
    uint64_t *told = data;
    check_text(t->name, REPORT_NAME_MAX);
    check_text(t->message, 3 * REPORT_TEXT_MAX);
    check_text(t->file, REPORT_PATH_MAX);
    require(t->name[0] != 0 && !strchr(t->name, '\n') && t->duration_ns >= 0);
    require(t->outcome >= WIRE_OUTCOME_PASSED && t->outcome <= WIRE_OUTCOME_SKIPPED);
    (*told)++;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    uint64_t told = 0;
    if (n == 0)
        return 0;
    _cleanup_free_ char *text = malloc(n);
    require(text != NULL);
    memcpy(text, data + 1, n - 1);
    text[n - 1] = 0;
    struct report r = {.emit = check_test, .data = &told};
    struct error err = {0};
    enum wire_report_format format =
        data[0] % 8 ? (enum wire_report_format)(data[0] % 8) : report_sniff(text, n - 1);
    const struct report_format *row = report_format_of(format);
    if (row)
        row->parse(&r, text, n - 1, &err);
    require(told == r.total);
    return 0;
}
