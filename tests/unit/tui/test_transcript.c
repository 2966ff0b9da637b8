/* The transcript without a terminal: what events become, what is folded, and that only what is
 * shown costs. */
#include <locale.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "thread.h"
#include "plain_lines.h"
#include "transcript.h"

static struct layout look(int width)
{
    return (struct layout){.width = width, .now = 1000 * NS_PER_S, .key = "key"};
}

static void tell(struct transcript *t, struct agent_event e)
{
    e.n = e.text && !e.n ? strlen(e.text) : e.n;
    transcript_event(t, &e, 1000 * NS_PER_S);
}

static void person(struct transcript *t, const char *words)
{
    struct item *it = transcript_add(t, ITEM_USER);
    item_append(it, words, strlen(words), false);
}

/* What is in `height` rows, one line each. */
static void show(struct transcript *t, int width, int height, struct buf *out)
{
    struct row rows[256];
    struct layout l = look(width);
    out->len = 0;
    transcript_rows(t, &l, height, rows);
    for (int i = 0; i < height; i++) {
        if (rows[i].lines)
            lines_plain(rows[i].lines, rows[i].line, out);
        if (rows[i].selected && rows[i].line == 0)
            buf_append_str(out, " <");
        buf_append_str(out, "\n");
    }
}

static void expect(struct transcript *t, int width, int height, const char *want)
{
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    show(t, width, height, &b);
    assert_string_equal(buf_cstr(&b), want);
}

static void call(struct transcript *t, const char *id, const char *name, const char *input)
{
    json_t *o = json_loads(input, 0, NULL);
    assert_non_null(o);
    tell(t, (struct agent_event){.kind = AGENT_CALL, .id = id, .name = name, .input = o});
    json_decref(o);
}

static void result(struct transcript *t, const char *id, const char *name, const char *text,
                   const char *data, bool failed)
{
    _cleanup_result_ struct tool_result r = TOOL_RESULT_INIT;
    r.failed = failed;
    r.data = data ? json_loads(data, 0, NULL) : NULL;
    buf_append_str(&r.text, text);
    tell(t, (struct agent_event){
                .kind = AGENT_RESULT, .id = id, .name = name, .result = &r, .seconds = 1.2});
}

static void test_turn_becomes_items(void **state)
{
    struct transcript t;
    transcript_open(&t);
    person(&t, "do it");
    tell(&t, (struct agent_event){.kind = AGENT_THINKING, .text = "hm\nso\n"});
    tell(&t, (struct agent_event){.kind = AGENT_TEXT, .text = "**Yes.**"});
    tell(&t, (struct agent_event){.kind = AGENT_SAID});
    call(&t, "1", "bash", "{\"command\": \"make test\"}");
    result(&t, "1", "bash", "",
           "{\"exit_code\": 0, \"output\": \"1\\n2\\n3\\n4\\n5\\n6\\n7\\n8\\n9\\n\"}", false);
    call(&t, "2", "read_file", "{\"path\": \"a.c\"}");
    result(&t, "2", "read_file", "x", NULL, false);
    call(&t, "3", "list_files", "{}");
    expect(&t, 60, 20,
           "› do it\n\n∴ hm …\n\n  Yes.\n\n▸ bash  make test   1.2s ✓\n  │ 1\n  │ 2\n  │ … 3 more "
           "lines "
           "(key)\n  │ 6\n  │ 7\n"
           "  │ 8\n  │ 9\n\n▸ read_file  a.c   1.2s ✓\n⠋ list_files  .\n\n\n\n");
    transcript_clear(&t);
}

static void test_failed_calls_show_their_output(void **state)
{
    struct transcript t;
    transcript_open(&t);
    call(&t, "1", "bash", "{\"command\": \"false\"}");
    result(&t, "1", "bash", "", "{\"exit_code\": 1, \"output\": \"\"}", false);
    call(&t, "2", "write_file", "{\"path\": \"p\", \"content\": \"secret\"}");
    result(&t, "2", "write_file", "p: read-only", NULL, true);
    call(&t, "3", "own_tool", "{}");
    tell(&t, (struct agent_event){.kind = AGENT_DONE, .why = "Stopped."});
    expect(&t, 60, 7,
           "▸ bash  false   exit 1  1.2s ✗\n▸ write_file  p   1.2s ✗\n  │ p: read-only\n\n▸ "
           "own_tool   "
           "stopped\n\n· Stopped.\n");
    transcript_clear(&t);
}

static void test_diff_names_files(void **state)
{
    struct transcript t;
    static const char diff[] =
        "diff --git a/x.lua b/x.lua\nindex 1..2 100644\n--- a/x.lua\n+++ b/x.lua\n@@ -1,2 +1,2 "
        "@@\n--- "
        "old\n+-- new\n end\n"
        "diff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+z\n";
    transcript_open(&t);
    item_append(transcript_add(&t, ITEM_DIFF), diff, strlen(diff), false);
    expect(&t, 60, 10,
           "  x.lua\n  @@ -1,2 +1,2 @@\n  --- old\n  +-- new\n   end\n  \n  y\n  new file mode "
           "100644\n  @@ "
           "-0,0 +1 @@\n  +z\n");
    struct layout l = look(60);
    const struct lines *lines = item_lines(t.items[0], &l);
    assert_int_equal(lines->runs[lines->all[2].first + 1].style,
                     ROLE_DELETED); /* though it looks like a header */
    transcript_clear(&t);
}

/* Where folding cuts a line, the line can be opened; then it goes on behind the column of the
 * marks. */
static void test_cut_lines_unfold(void **state)
{
    struct transcript t;
    struct layout l = look(20);
    transcript_open(&t);
    call(&t, "1", "edit_file", "{\"path\": \"a\"}");
    result(&t, "1", "edit_file", "", "{\"diff\": \"@@ -1 +1 @@\\n-a\\n+0123456789abcdefghij\\n\"}",
           false);
    expect(&t, 20, 4,
           "▸ edit_file   +1 -1  1.2s ✓\n  │ @@ -1 +1 @@\n  │ -a\n  │ +0123456789abcd…\n");
    assert_true(transcript_toggle(&t, &l));
    expect(&t, 20, 5,
           "▸ edit_file   +1 -1  1.2s ✓\n  │ @@ -1 +1 @@\n  │ -a\n  │ +0123456789abc\n  │   "
           "defghij\n");
    call(&t, "2", "bash", "{\"command\": \"x\"}");
    result(&t, "2", "bash", "0123456789abcdefghij", NULL, false);
    expect(&t, 20, 2, "▸ bash   1.2s ✓\n  │ 0123456789abcde…\n");
    assert_true(transcript_toggle(&t, &l));
    expect(&t, 20, 3, "▸ bash   1.2s ✓\n  │ 0123456789abcdef\n  │ ghij\n");
    transcript_clear(&t);
}

static void test_back_truncates_the_stream(void **state)
{
    struct transcript t;
    transcript_open(&t);
    person(&t, "q");
    tell(&t, (struct agent_event){.kind = AGENT_THINKING, .text = "abc"});
    tell(&t, (struct agent_event){.kind = AGENT_TEXT, .text = "one \033 two"});
    tell(&t, (struct agent_event){.kind = AGENT_THINKING, .text = "def"});
    tell(&t, (struct agent_event){.kind = AGENT_TEXT, .text = "three"});
    expect(&t, 40, 9, "› q\n\n∴ abc\n\n  one ␛ two\n\n∴ def\n\n  three\n");
    tell(&t, (struct agent_event){.kind = AGENT_BACK, .keep = 6, .keep_thinking = 4});
    expect(&t, 40, 9, "› q\n\n∴ abc\n\n  one ␛\n\n∴ d\n\n\n");
    tell(&t, (struct agent_event){.kind = AGENT_BACK, .keep = 0, .keep_thinking = 0});
    tell(&t, (struct agent_event){.kind = AGENT_TEXT, .text = "new"});
    expect(&t, 40, 4, "› q\n\n  new\n\n");
    transcript_clear(&t);
}

static void test_wait_ends_with_the_next_event(void **state)
{
    struct transcript t;
    transcript_open(&t);
    tell(&t, (struct agent_event){
                 .kind = AGENT_WAIT, .text = "overloaded", .wait_ms = 2500, .attempt = 1});
    expect(&t, 60, 1, "⠋ overloaded; retrying in 3 s (attempt 2)\n");
    assert_true(transcript_moves(&t));
    tell(&t, (struct agent_event){.kind = AGENT_WRITING, .text = "bash"});
    expect(&t, 60, 1, "⠋ bash …\n");
    tell(&t, (struct agent_event){.kind = AGENT_TEXT, .text = "a"});
    expect(&t, 60, 1, "  a\n");
    assert_false(transcript_moves(&t));
    transcript_clear(&t);
}

static void fill(struct transcript *t, int n)
{
    for (int i = 0; i < n; i++) {
        char words[32];
        snprintf(words, sizeof words, "line %d", i);
        person(t, words);
    }
}

static void test_scrolling_keeps_its_position(void **state)
{
    struct transcript t;
    struct layout l = look(40);
    transcript_open(&t);
    fill(&t, 10);
    expect(&t, 40, 3, "› line 8\n\n› line 9\n");
    transcript_scroll(&t, &l, -2);
    expect(&t, 40, 3, "› line 7\n\n› line 8\n");
    assert_true(transcript_below(&t, 40) > 0);
    person(&t, "new"); /* what comes does not move what is read */
    expect(&t, 40, 3, "› line 7\n\n› line 8\n");
    transcript_scroll(&t, &l, LONG_MIN);
    expect(&t, 40, 3, "› line 0\n\n› line 1\n");
    transcript_scroll(&t, &l, -5);
    transcript_scroll(&t, &l, 1);
    expect(&t, 40, 3, "\n› line 1\n\n");
    transcript_scroll(&t, &l, 1000);
    expect(&t, 40, 3, "› line 9\n\n› new\n");
    assert_int_equal(transcript_below(&t, 40), 0);
    transcript_clear(&t);
}

static void test_selected_item_unfolds(void **state)
{
    struct transcript t;
    struct layout l = look(40);
    transcript_open(&t);
    assert_false(transcript_toggle(&t, &l));
    for (int i = 0; i < 2; i++) {
        call(&t, "1", "search_files", "{\"pattern\": \"x\"}");
        result(&t, "1", "search_files", i ? "b1\nb2" : "a1\na2", NULL, false);
    }
    expect(&t, 40, 3, "▸ search_files  /x/   1.2s ✓\n▸ search_files  /x/   1.2s ✓\n\n");
    assert_true(transcript_toggle(&t, &l));
    expect(&t, 40, 4,
           "▸ search_files  /x/   1.2s ✓\n▸ search_files  /x/   1.2s ✓\n  │ b1\n  │ b2\n");
    transcript_select(&t, &l, -1);
    transcript_select(&t, &l, -1);
    transcript_toggle(&t, &l);
    expect(&t, 40, 7,
           "▸ search_files  /x/   1.2s ✓ <\n  │ a1\n  │ a2\n\n▸ search_files  /x/   1.2s ✓\n  │ "
           "b1\n  │ b2\n");
    transcript_toggle_all(&t);
    transcript_toggle_all(&t);
    t.selected = TRANSCRIPT_NONE;
    expect(&t, 40, 3, "▸ search_files  /x/   1.2s ✓\n▸ search_files  /x/   1.2s ✓\n\n");
    transcript_clear(&t);
}

static void test_long_messages_are_folded(void **state)
{
    struct transcript t;
    _cleanup_buf_ struct buf words = BUF_INIT(1 << 20), b = BUF_INIT(1 << 20);
    transcript_open(&t);
    for (int i = 0; i < 10000; i++)
        buf_printf(&words, "%d\n", i);
    person(&t, buf_cstr(&words));
    show(&t, 40, 20, &b);
    assert_non_null(strstr(buf_cstr(&b), "  11\n  … 9988 more lines (key)\n"));
    transcript_clear(&t);
}

/* A hundred thousand lines: what is laid out is what is shown; on a resize, too. */
static void test_only_what_is_shown_is_laid_out(void **state)
{
    struct transcript t;
    struct layout l = look(80);
    size_t laid_out = 0;
    transcript_open(&t);
    for (int i = 0; i < 10000; i++) {
        call(&t, "1", "bash", "{\"command\": \"make\"}");
        result(&t, "1", "bash", "1\n2\n3\n4\n5\n6\n7\n8\n", NULL, false);
    }
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    show(&t, 80, 50, &b);
    show(&t, 60, 50, &b);
    transcript_scroll(&t, &l, -500);
    show(&t, 60, 50, &b);
    for (size_t i = 0; i < t.count; i++)
        laid_out += t.items[i]->width != 0;
    assert_in_range(laid_out, 1, 200);
    transcript_clear(&t);
}

static void test_hidden_layouts_are_dropped(void **state)
{
    struct transcript t;
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 20);
    size_t kept = 0;
    transcript_open(&t);
    fill(&t, TRANSCRIPT_LINES * 2);
    for (size_t i = 0; i < t.count; i++) {
        struct layout l = look(40);
        item_lines(t.items[i], &l);
    }
    show(&t, 40, 10, &b);
    for (size_t i = 0; i < t.count; i++)
        kept += t.items[i]->width != 0;
    assert_in_range(kept, 1, 20);
    transcript_clear(&t);
}

static void test_oldest_items_are_dropped(void **state)
{
    struct transcript t;
    transcript_open(&t);
    fill(&t, TRANSCRIPT_ITEMS + 1);
    assert_true(t.count <= TRANSCRIPT_ITEMS);
    expect(&t, 40, 1, "› line 50000\n");
    transcript_clear(&t);
}

/* A session may run for days: outputs are kept by head and tail, and all of them together are
 * bounded. */
static void test_text_is_bounded(void **state)
{
    struct transcript t;
    size_t bytes = 0, n = 900000;
    char *output = malloc(n + 1);
    assert_non_null(output);
    for (size_t i = 0; i < n; i++)
        output[i] = i % 60 == 59 ? '\n' : 'x';
    output[n] = 0;
    transcript_open(&t);
    for (int i = 0; i < 1000; i++) {
        call(&t, "1", "bash", "{\"command\": \"make\"}");
        result(&t, "1", "bash", output, NULL, false);
        assert_in_range(t.items[t.count - 1]->text.len, 250000, 270000);
    }
    for (size_t i = 0; i < t.count; i++)
        bytes += t.items[i]->text.cap;
    assert_in_range(bytes, 1, 2 * TRANSCRIPT_BYTES);
    t.items[t.count - 1]->open = true;
    _cleanup_buf_ struct buf b = BUF_INIT(8u << 20);
    struct layout l = look(80);
    const struct lines *lines = item_lines(t.items[t.count - 1], &l);
    for (size_t i = 0; i < lines->count; i++)
        lines_plain(lines, i, &b);
    assert_non_null(strstr(buf_cstr(&b), "bytes omitted …"));
    transcript_clear(&t);
    free(output);
}

static void test_changes_list_files(void **state)
{
    struct transcript t;
    struct agent_change items[14] = {{(char *)"src/a.c", "modified", 3, 1, false},
                                     {(char *)"b\033.png", "added", 0, 0, true}};
    for (size_t i = 2; i < 14; i++)
        items[i] = (struct agent_change){(char *)"x", "deleted", 0, 2, false};
    struct agent_changes c = {.items = items, .count = 14, .added = 3, .deleted = 25};
    transcript_open(&t);
    tell(&t, (struct agent_event){.kind = AGENT_CHANGES, .changes = &c});
    _cleanup_buf_ struct buf b = BUF_INIT(1 << 16);
    show(&t, 60, 14, &b);
    assert_non_null(
        strstr(buf_cstr(&b),
               "± 14 files changed, +3 −25\n  M src/a.c    +3 −1\n  A b\\x1b.png  binary\n"));
    assert_non_null(strstr(buf_cstr(&b), "\n  … 2 more\n"));
    transcript_clear(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turn_becomes_items),
        cmocka_unit_test(test_failed_calls_show_their_output),
        cmocka_unit_test(test_diff_names_files),
        cmocka_unit_test(test_cut_lines_unfold),
        cmocka_unit_test(test_back_truncates_the_stream),
        cmocka_unit_test(test_wait_ends_with_the_next_event),
        cmocka_unit_test(test_scrolling_keeps_its_position),
        cmocka_unit_test(test_selected_item_unfolds),
        cmocka_unit_test(test_long_messages_are_folded),
        cmocka_unit_test(test_only_what_is_shown_is_laid_out),
        cmocka_unit_test(test_hidden_layouts_are_dropped),
        cmocka_unit_test(test_oldest_items_are_dropped),
        cmocka_unit_test(test_text_is_bounded),
        cmocka_unit_test(test_changes_list_files),
    };
    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
