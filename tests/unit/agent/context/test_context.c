/* The view: what providers take, what stays the same, what is pruned, and what is never lost. */
#include "context_fixture.h"

/* Is every message of `a` in `b`, in its place? */
static bool is_prefix(const json_t *a, const json_t *b)
{
    size_t i;
    json_t *one;
    json_array_foreach(a, i, one)
    {
        if (!json_equal(one, json_array_get(b, i)))
            return false;
    }
    return json_array_size(a) <= json_array_size(b);
}

static void test_grows_at_its_end(void **state)
{
    struct history *h = new_history();
    struct context *c = new_context(h, 100000);
    json_t *before = json_array();
    char id[16];
    person(h, "Make it work.");
    for (int i = 0; i < 30; i++) {
        snprintf(id, sizeof id, "call_%d", i);
        json_t *now = build(c);
        assert_true(is_prefix(before, now));
        assert_int_equal(json_array_size(now), 1 + 2 * (size_t)i);
        json_decref(before);
        before = now;
        calls(h, id, i % 3 ? NULL : "hm");
        append(h, json_pack("{s:s, s:s}", "role", "hutch", "kind", "snapshot"));
        gives(h, id, "fine");
    }
    struct context *again = new_context(h, 100000);
    json_t *x = build(c), *y = build(again);
    assert_true(json_equal(x, y));
    json_decref(x);
    json_decref(y);
    json_decref(before);
    context_free(again);
    context_free(c);
    history_close(h);
}

static void test_interrupted(void **state)
{
    struct history *h = new_history();
    person(h, "one");
    append(h, json_pack("{s:s, s:[{s:s, s:s, s:s, s:{}}, {s:s, s:s, s:s, s:{}}]}", "role",
                        "assistant", "content", "type", "tool_use", "id", "a", "name", "bash",
                        "input", "type", "tool_use", "id", "b", "name", "bash", "input"));
    gives(h, "b", "b's output");
    person(h, "two"); /* merged with the results */
    calls(h, "c", "thought");
    person(h, "three"); /* c was never answered */
    answers(h, "  \n"); /* says nothing */
    gives(h, "zzz", "of nobody");
    append(h, json_pack("{s:s, s:[{s:s, s:s, s:s, s:s}]}", "role", "assistant", "content", "type",
                        "thinking", "from", "a/b", "text", "cut off", "raw", "x"));
    person(h, "four");
    calls(h, "d", NULL);
    struct context *c = new_context(h, 100000);
    json_t *m = build(c);
    assert_int_equal(json_array_size(m), 9);
    json_t *second = json_object_get(json_array_get(m, 2), "content");
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(second, 0), "tool_use_id")), "a");
    assert_true(shows(json_array_get(second, 0), "interrupted: hutch stopped"));
    assert_true(json_is_true(json_object_get(json_array_get(second, 0), "is_error")));
    assert_true(shows(json_array_get(second, 1), "b's output"));
    assert_true(shows(json_array_get(second, 2), "two"));
    assert_true(shows(json_array_get(m, 4), "interrupted"));
    assert_true(shows(json_array_get(m, 4), "three"));
    assert_true(shows(json_array_get(m, 5), "(no answer)"));
    assert_true(shows(json_array_get(m, 8), "interrupted"));
    assert_false(shows(m, "of nobody"));
    json_decref(m);
    context_free(c);
    history_close(h);
}

static void test_odd_histories(void **state)
{
    struct history *h = new_history();
    answers(h, "it begins with an answer");
    append(h,
           json_loads("{\"role\": \"user\", \"content\": [{\"type\": \"image\"}, {\"type\": 7}, 3, "
                      "{\"type\": \"tool_use\", \"id\":"
                      " \"x\"}, {\"type\": \"text\", \"text\": \"hello\"}]}",
                      0, NULL));
    append(h, json_loads(
                  "{\"role\": \"assistant\", \"content\": [{\"type\": \"tool_use\", \"id\": \"\", "
                  "\"name\": \"n\", \"input\": {}},"
                  " {\"type\": \"tool_use\", \"id\": \"i\", \"name\": \"n\", \"input\": {}}, "
                  "{\"type\": \"tool_use\", \"id\": \"i\","
                  " \"name\": \"n\", \"input\": {}}, {\"type\": \"thinking\"}]}",
                  0, NULL));
    append(h, json_loads("{\"role\": \"user\", \"content\": \"not a list\"}", 0, NULL));
    struct context *c = new_context(h, 100000);
    json_t *m = build(c);
    assert_int_equal(json_array_size(m), 5);
    json_decref(m);
    context_free(c);
    history_close(h);
}

struct told {
    unsigned notes;
    char last[256];
};

static void hear(void *data, const struct agent_event *e)
{
    struct told *t = data;
    assert_int_equal(e->kind, AGENT_NOTE);
    t->notes++;
    snprintf(t->last, sizeof t->last, "%s", e->text);
}

/* Output that is old becomes stubs: nobody is asked, and the stubs say how to get it back. */
static void test_stubs(void **state)
{
    struct history *h = new_history();
    struct context *c = new_context(h, 20000);
    struct told told = {0};
    struct agent_sink sink = {hear, &told};
    char id[16];
    person(h, "Find the bug. Never touch the migrations.");
    for (unsigned i = 0; told.notes == 0; i++) {
        assert_true(i < 100);
        char *out = lines(4000, i);
        snprintf(id, sizeof id, "call_%u", i);
        calls(h, id, "early thought");
        gives(h, id, out);
        free(out);
        json_decref(build_with(c, NULL, NULL, &sink));
    }
    json_t *m = build(c);
    assert_non_null(strstr(told.last, "shortened"));
    assert_true(shows(m, "Never touch the migrations."));
    assert_true(shows(m, "of this output left out; memory {\\\"message\\\": 2, \\\"call\\\": "
                         "\\\"call_0\\\"} gets them back"));
    assert_true(shows(m, "line 0 of 0"));   /* its first lines stay */
    assert_true(shows(m, "early thought")); /* of the turn under way, everywhere */
    assert_true(context_tokens(c) < 20000 * 9 / 10 * 6 / 10);
    struct context *again = new_context(h, 20000);
    json_t *same = build(again);
    assert_true(json_equal(m, same));
    json_decref(same);
    json_decref(m);
    context_free(again);
    context_free(c);
    history_close(h);
}

/* A model for summaries. */
static struct script {
    unsigned asked, failures;
    size_t most;    /* bytes of a question; 0: any */
    int error;      /* given instead of an answer */
    char seen[400]; /* the end of the last question */
} script;

static int scripted(struct model *m, const struct model_request *q, const struct model_sink *sink,
                    struct model_reply *ret, struct error *err)
{
    char summary[64];
    struct error why = {0};
    assert_ptr_equal(m, &script);
    assert_int_equal(conversation_check(q->messages, &why), 0);
    assert_null(q->tools);
    char *s = dumped(q->messages);
    size_t n = strlen(s);
    snprintf(script.seen, sizeof script.seen, "%s", s);
    free(s);
    if (script.error)
        return error_set(err, -script.error, "it does not work");
    if (script.most && n > script.most) {
        script.failures++;
        return error_set(err, EMSGSIZE, "too long");
    }
    snprintf(summary, sizeof summary, "SUMMARY %u", ++script.asked);
    *ret = (struct model_reply){.content = json_pack("[o]", text(summary)),
                                .usage = {.known = true, .input = 100, .output = 10}};
    return 0;
}

static struct context *asking_context(struct history *h, uint64_t window)
{
    struct context *c = new_context(h, window);
    memset(&script, 0, sizeof script);
    c->ask = scripted;
    return c;
}

#define MODEL ((struct model *)&script)

/* Turns of words, so that stubs do not help. */
static void talk(struct history *h, unsigned from, unsigned until)
{
    char words[100];
    for (unsigned i = from; i < until; i++) {
        char *answer = lines(2500, i);
        snprintf(words, sizeof words, "Wish %u: always use tabs in file_%u.c", i, i);
        person(h, words);
        answers(h, answer);
        free(answer);
    }
}

static void test_summary(void **state)
{
    struct history *h = new_history();
    struct context *c = asking_context(h, 20000);
    struct model_usage spent;
    talk(h, 0, 30);
    person(h, "Go on.");
    json_t *m = build_with(c, MODEL, NULL, NULL);
    assert_int_equal(script.asked, 3); /* more than a piece of half the window */
    assert_true(shows(m, "<summary>\\nSUMMARY 3"));
    assert_true(shows(
        m,
        "Wish 0: always use tabs in file_0.c")); /* the person's words are no summary's business */
    assert_true(shows(m, "Wish 15: always"));
    assert_true(shows(m, "Go on."));
    assert_true(context_tokens(c) < 20000 * 9 / 10 * 6 / 10);
    context_spent(c, &spent);
    assert_int_equal(spent.input, 300);
    context_spent(c, &spent);
    assert_int_equal(spent.input, 0);
    struct context *again = asking_context(h, 20000);
    json_t *same = build(again);
    assert_true(json_equal(m, same));
    json_decref(same);
    context_free(again);
    talk(h, 30, 60);
    json_decref(m);
    m = build_with(c, MODEL, NULL, NULL);
    assert_non_null(strstr(script.seen, "<summary_so_far>\\nSUMMARY"));
    assert_true(shows(m, "Wish 59: always"));
    json_decref(m);
    context_free(c);
    history_close(h);
}

static void test_summary_in_pieces(void **state)
{
    struct history *h = new_history();
    struct context *c = asking_context(h, 20000);
    talk(h, 0, 30);
    script.most = 9000; /* it takes less than it said */
    json_t *m = build_with(c, MODEL, NULL, NULL);
    assert_true(script.failures > 0 && script.asked > 2);
    assert_true(shows(m, "SUMMARY"));
    assert_false(shows(m, "excerpts, not a summary"));
    json_decref(m);
    context_free(c);
    history_close(h);
}

static void test_summary_fails(void **state)
{
    static const int errors[] = {-EIO, -EMSGSIZE, -EACCES};
    for (size_t i = 0; i < ARRAY_SIZE(errors); i++) {
        struct history *h = new_history();
        struct context *c = asking_context(h, 20000);
        script.error = errors[i];
        talk(h, 0, 30);
        json_t *m = build_with(c, MODEL, NULL, NULL);
        assert_true(shows(m, "excerpts, not a summary"));
        assert_true(shows(m, "## The agent\\nline 0 of"));
        assert_true(shows(m, "Wish 0: always"));
        json_decref(m);
        context_free(c);
        history_close(h);
    }
}

static void test_summary_cancelled(void **state)
{
    struct history *h = new_history();
    struct context *c = asking_context(h, 20000);
    struct error err = {0};
    json_t *m = NULL;
    script.error = -ECANCELED;
    talk(h, 0, 30);
    size_t count = history_count(h);
    assert_int_equal(context_build(c, MODEL, NULL, -1, NULL, &m, &err), -ECANCELED);
    assert_null(m);
    assert_int_equal(history_count(h), count);
    script.error = 0;
    m = build_with(c, MODEL, NULL, NULL);
    assert_true(shows(m, "SUMMARY"));
    json_decref(m);
    context_free(c);
    history_close(h);
}

/* A turn of hundreds of calls: cut in its middle, its words stay. */
static void test_long_turn(void **state)
{
    struct history *h = new_history();
    struct context *c = asking_context(h, 16000);
    char id[16];
    person(h, "An older wish: no globals.");
    answers(h, "Noted.");
    person(h, "The long task.");
    for (unsigned i = 0; i < 400; i++) {
        char *out = lines(900, i);
        snprintf(id, sizeof id, "call_%u", i);
        calls(h, id, "a thought");
        gives(h, id, out);
        free(out);
        json_t *m = build_with(c, MODEL, NULL, NULL);
        assert_true(context_tokens(c) <= 16000);
        assert_true(shows(m, "The long task."));
        assert_true(shows(m, "An older wish: no globals."));
        json_decref(m);
    }
    assert_in_range(script.asked, 2, 60); /* seldom */
    json_t *m = build(c), *one;
    size_t i;
    json_array_foreach(m, i, one)
    {
        if (i % 2 == 1)
            assert_true(shows(one, "a thought")); /* providers want it back in the turn under way */
    }
    json_decref(m);
    context_free(c);
    history_close(h);
}

static void test_giants(void **state)
{
    struct history *h = new_history();
    struct context *c = new_context(h, 10000);
    char *big = lines(3000000, 1);
    person(h, "Look.");
    calls(h, "g", NULL);
    gives(h, "g", big);
    json_t *m = build(c);
    assert_true(context_tokens(c) < 9000);
    assert_true(shows(m, "line 0 of 1"));
    assert_true(shows(
        m, "bytes of this output left out; memory {\\\"message\\\": 2, \\\"call\\\": \\\"g\\\"}"));
    json_decref(m);
    person(h, big); /* a paste */
    append(h, json_pack("{s:s, s:[{s:s, s:s, s:s, s:{s:s, s:[s]}}]}", "role", "assistant",
                        "content", "type", "tool_use", "id", "w", "name", "write_file", "input",
                        "content", big, "more", big));
    gives(h, "w", big);
    person(h, big);
    m = build(c);
    assert_true(context_tokens(c) <= 9000);
    json_decref(m);
    free(big);
    context_free(c);
    history_close(h);
}

static void test_no_room(void **state)
{
    struct history *h = new_history();
    char *big = lines(60000, 1);
    struct context_options o = {.window = 8000, .reserve = 1000, .system = big};
    struct context *c = NULL;
    struct error err = {0};
    json_t *m = NULL;
    person(h, "Hello.");
    assert_int_equal(context_new(h, &o, &c, &err), 0);
    assert_int_equal(context_build(c, NULL, NULL, -1, NULL, &m, &err), -E2BIG);
    assert_non_null(strstr(err.text, "leave no room"));
    free(big);
    context_free(c);
    history_close(h);
}

static void test_shrink(void **state)
{
    struct history *h = new_history();
    struct context *c = asking_context(h, 50000);
    talk(h, 0, 40);
    json_decref(build_with(c, MODEL, NULL, NULL));
    uint64_t before = context_tokens(c);
    assert_int_equal(script.asked, 0);
    for (int i = 0; i < 3; i++) {
        context_shrink(c); /* the provider says that it is too long, again and again */
        json_decref(build_with(c, MODEL, NULL, NULL));
        assert_true(context_tokens(c) < before);
        before = context_tokens(c);
    }
    context_free(c);
    history_close(h);
}

static void test_learn(void **state)
{
    struct history *h = new_history();
    struct context *c = asking_context(h, 50000);
    struct model_usage u = {.known = true, .input = 4321};
    talk(h, 0, 12);
    json_decref(build(c));
    context_learn(c, &u);
    assert_int_equal(context_tokens(c), 4321);
    uint64_t first = context_expected(c);
    person(h, "Seven words are in this very sentence.");
    json_decref(build(c));
    assert_in_range(context_tokens(c), first, first + 40);
    assert_int_equal(script.asked, 0);
    u.input = 49000; /* far more than estimated: it is full */
    context_learn(c, &u);
    json_decref(build_with(c, MODEL, NULL, NULL));
    assert_true(script.asked > 0);
    context_free(c);
    history_close(h);
}

static void test_now(void **state)
{
    struct history *h = new_history();
    struct context *c = new_context(h, 50000);
    person(h, "one");
    json_t *a = build_with(c, NULL, "Plan: [>] one", NULL);
    assert_true(shows(a, "\"one\",\"type\":\"text\"},{\"text\":\"Plan: [>] one\""));
    calls(h, "x", NULL);
    gives(h, "x", "out");
    json_t *b = build_with(c, NULL, "Plan: [>] one", NULL); /* said already */
    assert_true(is_prefix(a, b));
    assert_false(shows(json_array_get(b, 2), "Plan"));
    json_t *d = build_with(c, NULL, "Plan: [x] one", NULL);
    assert_true(is_prefix(a, d));
    assert_true(shows(json_array_get(d, 2), "Plan: [x] one"));
    json_decref(a);
    json_decref(b);
    json_decref(d);
    context_free(c);
    history_close(h);
}

static void test_undo_and_clear(void **state)
{
    struct history *h = new_history();
    struct context *c = new_context(h, 50000);
    talk(h, 0, 3);
    json_decref(build(c));
    append(h, json_pack("{s:s, s:s, s:i}", "role", "hutch", "kind", "undo", "to", 2));
    json_t *m = build(c);
    assert_true(shows(m, "Wish 1"));
    assert_false(shows(m, "Wish 2"));
    json_decref(m);
    append(h, json_pack("{s:s, s:s}", "role", "hutch", "kind", "cleared"));
    person(h, "Anew.");
    m = build(c);
    assert_int_equal(json_array_size(m), 1);
    assert_false(shows(m, "Wish"));
    json_decref(m);
    context_free(c);
    history_close(h);
}

static void test_compact(void **state)
{
    struct history *h = new_history();
    struct context *c = asking_context(h, 200000);
    struct error err = {0};
    talk(h, 0, 20);
    json_decref(build(c));
    uint64_t before = context_tokens(c);
    assert_int_equal(context_compact(c, MODEL, -1, NULL, &err), 0);
    json_t *m = build(c);
    assert_true(script.asked > 0);
    assert_true(shows(m, "SUMMARY"));
    assert_true(context_tokens(c) < before / 2);
    json_decref(m);
    context_free(c);
    history_close(h);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_grows_at_its_end),
        TEST(test_interrupted),
        TEST(test_odd_histories),
        TEST(test_stubs),
        TEST(test_summary),
        TEST(test_summary_in_pieces),
        TEST(test_summary_fails),
        TEST(test_summary_cancelled),
        TEST(test_long_turn),
        TEST(test_giants),
        TEST(test_no_room),
        TEST(test_shrink),
        TEST(test_learn),
        TEST(test_now),
        TEST(test_undo_and_clear),
        TEST(test_compact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
