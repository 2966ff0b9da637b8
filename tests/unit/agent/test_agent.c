/* What is pure in an agent: which attempt is best, when a limit is reached, how results and open
 * calls are told to a model, what a mistyped tool was meant to be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "agent_session.h"

static struct attempt tested(uint64_t passed, uint64_t failed, int status, uint64_t lines)
{
    return (struct attempt){
        .tested = true, .passed = passed, .failed = failed, .test_status = status, .added = lines};
}

static void most_tests_passed_is_best(void **state)
{
    const struct attempt all[] = {tested(3, 2, 1, 1), tested(5, 0, 0, 900), tested(4, 1, 1, 2)};
    assert_int_equal(attempts_best(all, 3), 1);
}

static void then_the_smallest_diff(void **state)
{
    const struct attempt all[] = {tested(5, 0, 0, 30), tested(5, 0, 0, 4), tested(5, 0, 0, 4)};
    assert_int_equal(attempts_best(all, 3), 1);
}

static void exit_status_decides_where_no_test_was_counted(void **state)
{
    const struct attempt all[] = {tested(0, 0, 1, 1), tested(0, 0, 0, 50)};
    assert_int_equal(attempts_best(all, 2), 1);
}

static void what_was_not_tested_never_wins(void **state)
{
    struct attempt all[] = {{.tested = false}, tested(0, 9, 1, 999)};
    assert_int_equal(attempts_best(all, 2), 1);
    all[1].tested = false;
    assert_int_equal(attempts_best(all, 2), -1);
}

static void expect_undone(const struct agent_undone *u, const char *text)
{
    _cleanup_buf_ struct buf out = BUF_INIT(4096);
    assert_int_equal(agent_undone_text(u, &out), 0);
    assert_string_equal(buf_cstr(&out), text);
}

static void an_undo_says_exactly_what_it_did(void **state)
{
    expect_undone(
        &(struct agent_undone){
            .first = 1, .last = 1, .files = UNDO_RESTORED, .restored = 2, .applied = 2},
        "Undid turn 1: restored 2 files in the box and removed it from the conversation. 2 files "
        "of it "
        "were applied to your folder: the pending diff reverts them; /apply to do so.\n");
    expect_undone(
        &(struct agent_undone){
            .first = 2, .last = 3, .files = UNDO_RESTORED, .restored = 3, .applied = 1},
        "Undid turns 2 to 3: restored 3 files in the box and removed them from the conversation. 1 "
        "file "
        "of them was applied to your folder: the pending diff reverts it; /apply to do so.\n");
    expect_undone(&(struct agent_undone){.first = 4, .last = 4},
                  "Undid turn 4: it changed no files; removed it from the conversation.\n");
    expect_undone(&(struct agent_undone){.first = 1, .last = 2, .files = UNDO_STATE_GONE},
                  "Undid turns 1 to 2 in the conversation only: the box that had the earlier files "
                  "is gone, so the "
                  "files stay as they are.\n");
    expect_undone(
        &(struct agent_undone){.first = 1,
                               .last = 1,
                               .files = UNDO_RESTORED,
                               .failed = 1,
                               .failures = "big: its earlier content was too large to keep"},
        "Undid turn 1: restored 0 files in the box and removed it from the conversation.\nCould "
        "not "
        "restore 1 file that was applied: big: its earlier content was too large to keep\n");
}

static void limits_are_told_when_reached(void **state)
{
    char why[AGENT_WHY_MAX];
    const struct agent_options none = {0}, o = {.max_turns = 3, .max_tokens = 100, .max_cost = 0.5};
    assert_false(turn_over_limit(
        &none, &(struct turn){.answers = 9999, .tokens = 1u << 30, .cost = 1e6}, why, sizeof why));
    assert_false(turn_over_limit(&o, &(struct turn){.answers = 2, .tokens = 99, .cost = 0.49}, why,
                                 sizeof why));
    assert_true(turn_over_limit(&o, &(struct turn){.answers = 3}, why, sizeof why));
    assert_non_null(strstr(why, "--max-turns"));
    assert_true(turn_over_limit(&o, &(struct turn){.tokens = 100}, why, sizeof why));
    assert_non_null(strstr(why, "--max-tokens"));
    assert_true(turn_over_limit(&o, &(struct turn){.cost = 0.5}, why, sizeof why));
    assert_non_null(strstr(why, "--max-cost"));
}

static const char *text_at(const json_t *block, size_t i)
{
    return json_string_value(
        json_object_get(json_array_get(json_object_get(block, "content"), i), "text"));
}

static void long_results_keep_head_and_tail_whole(void **state)
{
    struct tool_result r = TOOL_RESULT_INIT;
    for (size_t i = 0; i < RESULT_BLOCK_TEXT; i++)
        buf_append_str(&r.text, "é"); /* two bytes each: some cut falls within one */
    buf_append_str(&r.text, "the end");
    json_t *block = result_block("id", &r);
    const char *text = text_at(block, 0);
    assert_non_null(text); /* jansson takes valid UTF-8 only */
    assert_true(strlen(text) < RESULT_BLOCK_TEXT + 256);
    assert_non_null(strstr(text, "bytes left out"));
    assert_string_equal(text + strlen(text) - 7, "the end");
    json_decref(block);
    tool_result_free(&r);
}

static void empty_and_failed_results_say_so(void **state)
{
    struct tool_result r = TOOL_RESULT_INIT;
    r.failed = true;
    json_t *block = result_block("id", &r);
    assert_string_equal(text_at(block, 0), "(no output)");
    assert_true(json_is_true(json_object_get(block, "is_error")));
    json_decref(block);
}

static void images_are_bounded(void **state)
{
    struct tool_result r = TOOL_RESULT_INIT;
    r.mime = "image/png";
    buf_append(&r.image, "\x89PNG", 4);
    json_t *block = result_block("id", &r);
    const json_t *image = json_array_get(json_object_get(block, "content"), 0);
    assert_string_equal(json_string_value(json_object_get(image, "type")), "image");
    assert_string_equal(json_string_value(json_object_get(image, "data")), "iVBORw==");
    json_decref(block);
    void *more = calloc(1, RESULT_BLOCK_IMAGE);
    buf_append(&r.image, more, RESULT_BLOCK_IMAGE);
    block = result_block("id", &r);
    assert_non_null(strstr(text_at(block, 0), "too large"));
    json_decref(block);
    free(more);
    tool_result_free(&r);
}

static void mistyped_tools_are_guessed(void **state)
{
    _cleanup_buf_ struct buf text = BUF_INIT(4096);
    json_t *tools = json_loads("[{\"name\": \"bash\"}, {\"name\": \"read_file\"}]", 0, NULL);
    explain_unknown_tool(tools, "read_fiel", &text);
    assert_string_equal(buf_cstr(&text),
                        "there is no tool 'read_fiel'; did you mean 'read_file'? The tools are: "
                        "bash, read_file");
    json_decref(tools);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_tests_passed_is_best),
        cmocka_unit_test(then_the_smallest_diff),
        cmocka_unit_test(exit_status_decides_where_no_test_was_counted),
        cmocka_unit_test(what_was_not_tested_never_wins),
        cmocka_unit_test(an_undo_says_exactly_what_it_did),
        cmocka_unit_test(limits_are_told_when_reached),
        cmocka_unit_test(long_results_keep_head_and_tail_whole),
        cmocka_unit_test(empty_and_failed_results_say_so),
        cmocka_unit_test(images_are_bounded),
        cmocka_unit_test(mistyped_tools_are_guessed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
