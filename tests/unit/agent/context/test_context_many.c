/* Random histories (turns, calls, interrupts, undone turns, giants, odd blocks) under small
 * windows: whatever happened, the view is a conversation that providers take, and it fits; and a
 * context that comes later sees the same. */
#include "context_fixture.h"

static unsigned seed;

static unsigned pick(unsigned n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static int any_model(struct model *m, const struct model_request *q, const struct model_sink *sink,
                     struct model_reply *ret, struct error *err)
{
    static const int errors[] = {EMSGSIZE, EIO, EPROTO, ETIMEDOUT};
    if (pick(3) == 0)
        return error_set(err, errors[pick(4)], "no");
    char *words = lines(pick(3) == 0 ? 40000 : pick(3000), 7);
    *ret = (struct model_reply){.content =
                                    pick(8) == 0 ? json_array() : json_pack("[o]", text(words))};
    free(words);
    return 0;
}

static char *some(void)
{
    size_t n = pick(12) == 0  ? 20000 + pick(60000)
               : pick(4) == 0 ? 1000 + pick(4000)
                              : 1 + pick(200);
    char *s = lines(n, pick(1000));
    if (pick(10) == 0)
        for (size_t i = 0; i + 3 < n; i += 3)
            memcpy(s + i, "\xe4\xbd\xa0", 3); /* cut anywhere, it must stay UTF-8 */
    s[n - n % 3] = 0;
    return s;
}

static void step_calls(struct history *h, unsigned number)
{
    char id[2][24], *out = some();
    unsigned n = 1 + pick(2);
    json_t *content = json_array();
    if (pick(2))
        json_array_append_new(content, json_pack("{s:s, s:s, s:s, s:s}", "type", "thinking", "from",
                                                 "a/b", "text", "t", "raw", "r"));
    for (unsigned i = 0; i < n; i++) {
        snprintf(id[i], sizeof id[i], pick(5) ? "c%u_%u" : "same%.0u%.0u", number, i);
        json_array_append_new(content,
                              json_pack("{s:s, s:s, s:s, s:{s:s}}", "type", "tool_use", "id", id[i],
                                        "name", "bash", "input", "command", out));
    }
    append(h, json_pack("{s:s, s:o}", "role", "assistant", "content", content));
    for (unsigned i = 0; i < n && pick(6); i++) /* or it was interrupted */
        gives(h, id[i], out);
    free(out);
}

static void step(struct history *h, unsigned number)
{
    char *words = some();
    switch (pick(10)) {
    case 0:
    case 1:
        person(h, words);
        break;
    case 2:
        answers(h, words);
        break;
    case 3:
        if (history_turns(h) > 1 && pick(3) == 0)
            append(h, json_pack("{s:s, s:s, s:i}", "role", "hutch", "kind", "undo", "to",
                                (int)(history_turns(h) - 1 - pick(history_turns(h) - 1))));
        break;
    case 4:
        append(h,
               json_pack("{s:s, s:s, s:s}", "role", "hutch", "kind", "note", "text", "beside it"));
        break;
    default:
        step_calls(h, number);
    }
    free(words);
}

static void check(struct context *c, struct history *h, uint64_t window, struct model *m,
                  const char *now)
{
    json_t *messages = NULL;
    struct error err = {0};
    int r = context_build(c, m, now, -1, NULL, &messages, &err);
    if (r < 0)
        fail_msg("%s", err.text);
    if (json_array_size(messages) > 0 && conversation_check(messages, &err) < 0)
        fail_msg("%s", err.text);
    if (context_tokens(c) > window * 9 / 10 + 1)
        fail_msg("%llu tokens of %llu", (unsigned long long)context_tokens(c),
                 (unsigned long long)window);
    if (!now && pick(8) == 0 && c->squeeze == 0 && c->window == window) {
        struct context *again = new_context(h, window);
        json_t *same = NULL;
        size_t before = history_count(h);
        assert_int_equal(context_build(again, NULL, NULL, -1, NULL, &same, &err), 0);
        if (history_count(h) == before && c->n_status == 0 && !json_equal(messages, same))
            fail_msg("a later context sees another view:\n%.3000s\n%.3000s", dumped(messages),
                     dumped(same));
        json_decref(same);
        context_free(again);
    }
    json_decref(messages);
}

static void test_many(void **state)
{
    for (unsigned round = 0; round < 60; round++) {
        seed = round * 7919 + 1;
        uint64_t window = 4000 + pick(40000);
        struct history *h = new_history();
        struct context *c = new_context(h, window);
        struct model *m = pick(2) ? (struct model *)&seed : NULL;
        c->ask = any_model;
        person(h, "The goal.");
        for (unsigned i = 0; i < 80; i++) {
            step(h, i);
            if (pick(3))
                check(c, h, window, m, round % 2 && pick(2) ? "Plan: [ ] something" : NULL);
            if (pick(40) == 0)
                context_shrink(c);
        }
        check(c, h, window, m, NULL);
        context_free(c);
        history_close(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
