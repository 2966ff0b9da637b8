/* What a shell reports, and the state that a session is made of: bytes that hostile code in a box
 * wrote. What is taken for a state is put together again to the same bytes. */
#include <string.h>

#include "compose.h"
#include "shell/shell.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void check_state(const void *data, size_t n)
{
    _cleanup_buf_ struct buf again = BUF_INIT(STATE_MAX);
    struct state s;
    if (!state_parse(data, n, &s))
        return;
    require(s.cwd[0] == '/' && s.cwd_len > 0 && !memchr(s.cwd, 0, s.cwd_len));
    require(state_put(&again, s.cwd, s.cwd_len, s.exports, "", s.functions) == 0);
    require(again.len == n && memcmp(again.data, data, n) == 0);
}

/* Quoted text has as many quotes as make it whole: none opens what follows. */
static void check_export(const char *entry)
{
    _cleanup_buf_ struct buf b = BUF_INIT(STATE_MAX);
    size_t quotes = 0;
    if (!state_is_variable(entry) || state_put_export(&b, entry, entry[0] & 1) < 0)
        return;
    require(!state_is_foreign(entry));
    for (size_t i = 0; i < b.len; i++)
        quotes += b.data[i] == '\'' && (i == 0 || b.data[i - 1] != '\\' || b.data[i + 1] != '\'');
    require(quotes % 2 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char entry[256] = "";
    struct state_report report;
    check_state(data, n);
    state_parse_report(data, n, &report);
    if (report.taken) {
        require(report.rest_len <= n);
        check_state(report.rest, report.rest_len);
    }
    memcpy(entry, data, n < sizeof entry ? n : sizeof entry - 1);
    check_export(entry);
    return 0;
}
