/* Memory: found, not found, found again after damage; safe with any query; the tool. */
#include "../history/history_kit.h"
#include "memory_db.h"
#include "model.h"

/* The provider of vectors: counts letters, so that texts of like letters are near each other. */
static size_t embedded;
static bool embedder_fails;

int model_embed(struct model *m, const char *embedder, json_t *texts, int cancel,
                json_t **ret_vectors, struct error *err)
{
    size_t i;
    json_t *text, *all = json_array();
    if (embedder_fails) {
        json_decref(all);
        return -EIO;
    }
    json_array_foreach(texts, i, text)
    {
        double letters[26] = {0};
        for (const char *c = json_string_value(text); *c; c++)
            if (*c >= 'a' && *c <= 'z')
                letters[*c - 'a']++;
        json_t *v = json_array();
        for (size_t k = 0; k < 26; k++)
            json_array_append_new(v, json_real(letters[k]));
        json_array_append_new(all, v);
        embedded++;
    }
    *ret_vectors = all;
    return 0;
}

static struct memory *open_memory(const struct memory_options *o)
{
    struct error err = {0};
    struct memory *m = NULL;
    if (memory_open(o, &m, &err) < 0)
        fail_msg("%s", err.text);
    return m;
}

static json_t *search(struct memory *m, const char *words, const char *session)
{
    struct error err = {0};
    json_t *hits = NULL;
    struct memory_query q = {.text = words, .session = session, .limit = 10, .cancel = -1};
    if (memory_search(m, &q, &hits, &err) < 0)
        fail_msg("%s: %s", words, err.text);
    return hits;
}

/* The numbers of the messages that are found, in order. */
static const char *found(struct memory *m, const char *words, const char *session)
{
    static char text[512];
    size_t i, used = 0;
    json_t *hit, *hits = search(m, words, session);
    text[0] = 0;
    json_array_foreach(hits, i, hit) used +=
        (size_t)snprintf(text + used, sizeof text - used, "%s%d", i ? " " : "",
                         (int)json_integer_value(json_object_get(hit, "message")));
    json_decref(hits);
    return text;
}

static void call(struct history *h, const char *id, const char *name, const char *query)
{
    append(h, json_pack("{s:s, s:[{s:s, s:s, s:s, s:{s:s}}]}", "role", "assistant", "content",
                        "type", "tool_use", "id", id, "name", name, "input", "query", query));
}

static json_t *result(const char *id, const char *text)
{
    return json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "type", "tool_result", "tool_use_id", id,
                     "content", "type", "text", "text", text);
}

static void test_words(void **state)
{
    struct history *h = fresh();
    begin(h, 1, "the function foo_bar_baz in src/parse/lexer.c fails");                /* 0 */
    answer(h, "HTTPServerError2 comes from handleRequestBody; see E0382 and TS-2345"); /* 1 */
    answer(h, "Die Größe des Puffers; naïve café; 日本語のテキスト");                  /* 2 */
    answer(h, "authentication tokens were rotated yesterday");                         /* 3 */
    struct memory *m = open_memory(NULL);
    static const char *const expected[][2] = {
        {"foo_bar_baz", "0"},
        {"bar", "0"},
        {"src/parse/lexer.c", "0"},
        {"lexer.c", "0"},
        {"HTTPServerError2", "1"},
        {"server", "1"},
        {"requestbody", ""},
        {"request", "1"},
        {"handleReq", "1"},
        {"E0382", "1"},
        {"2345", "1"},
        {"große", "2"},
        {"grosse", ""},
        {"naive", "2"},
        {"authenticate", "3"},
        {"token", "3"},
        {"rotat", "3"},
        {"\"tokens were\"", "3"},
        {"\"were tokens\"", ""},
        {"lexer rotated", "0 3"},
        {"xyzzy", ""},
        {"xyzzy yesterday", "3"},
    };
    for (size_t i = 0; i < ARRAY_SIZE(expected); i++) {
        const char *got = found(m, expected[i][0], NULL);
        if (strcmp(got, expected[i][1]) != 0 &&
            !(strcmp(expected[i][1], "0 3") == 0 && strcmp(got, "3 0") == 0))
            fail_msg("'%s' finds '%s', not '%s'", expected[i][0], got, expected[i][1]);
    }
    memory_close(m);
    history_close(h);
}

/* No query is an error, whatever it would be in FTS5's language. */
static void test_any_query(void **state)
{
    static const char *const queries[] = {
        "",       " ",           "\"",      "\"\"",  "*",     "a*",
        "AND",    "OR",          "NOT",     "a AND", "NEAR(", "NEAR(a b, 2)",
        "text:a", "-a",          "^a",      "(",     ")",     "a OR OR b",
        "'",      "--",          ";",       "\"a",   "a\"b",  "{a b}: c",
        "\\",     "%s%n",        "a\nb\tc", "+",     "a + b", "\xc3\xa4",
        "\x01",   "\xef\xbf\xbe"};
    struct history *h = fresh();
    begin(h, 1, "a b c");
    struct memory *m = open_memory(NULL);
    for (size_t i = 0; i < ARRAY_SIZE(queries); i++)
        json_decref(search(m, queries[i], NULL));
    char byte[4] = "a?b";
    for (int i = 1; i < 0x80; i++) {
        byte[1] = (char)i;
        json_decref(search(m, byte, NULL));
    }
    char *large = malloc(100001);
    for (size_t i = 0; i < 100000; i++)
        large[i] = i % 7 ? (char)('a' + i % 23) : ' ';
    large[100000] = 0;
    json_decref(search(m, large, NULL));
    memset(large, 'x', 100000);
    json_decref(search(m, large, NULL));
    free(large);
    memory_close(m);
    history_close(h);
}

static void test_grows_and_forgets(void **state)
{
    struct history *h = fresh(), *other = fresh();
    begin(h, 1, "apple");
    begin(other, 1, "apple and pear");
    struct memory *m = open_memory(NULL);
    assert_string_equal(found(m, "apple", history_id(h)), "0");
    answer(h, "banana");
    assert_string_equal(found(m, "banana", NULL), "1");
    begin(h, 2, "cherry");
    answer(h, "cherry tart");
    assert_string_equal(found(m, "cherry", NULL), "2 3");
    hutch(h, "undo", "to", 1);
    assert_string_equal(found(m, "cherry", NULL), "");
    assert_string_equal(found(m, "banana", NULL), "1");
    append(h, json_pack("{s:s, s:s}", "role", "hutch", "kind", "cleared"));
    assert_string_equal(found(m, "banana", NULL), "1"); /* cleared is not undone */
    append(h, json_pack("{s:s, s:s, s:i, s:s}", "role", "hutch", "kind", "summary", "until", 3,
                        "text", "durian"));
    assert_string_equal(found(m, "durian", NULL), "6");
    char gone[HISTORY_ID_MAX], id[HISTORY_ID_MAX];
    snprintf(id, sizeof id, "%s", history_id(other));
    history_close(other);
    assert_string_equal(found(m, "pear", NULL), "0");
    assert_int_equal(history_remove(id, gone, NULL), 0);
    assert_string_equal(found(m, "pear", NULL), "");
    spill_text(id, "{\"messages\": [{\"role\": \"user\", \"turn\": 1, \"content\": \"quince\"}]}");
    assert_string_equal(found(m, "quince", NULL), "0");
    spill_text(
        id,
        "{\"messages\": [{\"role\": \"user\", \"turn\": 1, \"content\": \"rhubarb and figs\"}]}");
    assert_string_equal(found(m, "quince", NULL), "");
    assert_string_equal(found(m, "fig", id), "0");
    memory_close(m);
    history_close(h);
}

/* Searching is said in the history, too: it must not find itself. */
static void test_finds_no_searches(void **state)
{
    struct history *h = fresh();
    begin(h, 1, "where is the needle");
    call(h, "c1", "memory", "needle");
    append(h, json_pack("{s:s, s:[o, o]}", "role", "user", "content", result("c1", "needle needle"),
                        result("c2", "a needle in the hay")));
    call(h, "c3", "bash", "grep needle");
    struct memory *m = open_memory(NULL);
    json_t *hits = search(m, "needle", NULL);
    assert_int_equal(json_array_size(hits), 3);
    size_t i;
    json_t *hit;
    json_array_foreach(hits, i, hit) assert_string_not_equal(
        json_string_value(json_object_get(hit, "snippet")), "needle needle");
    json_decref(hits);
    call(h, "c4", "memory", "needle");
    json_decref(search(m, "needle", NULL)); /* the call is taken in, its result comes later */
    append(h, json_pack("{s:s, s:[o]}", "role", "user", "content", result("c4", "needle again")));
    assert_string_equal(found(m, "again", NULL), "");
    memory_close(m);
    history_close(h);
}

static void test_damaged(void **state)
{
    struct history *h = fresh();
    begin(h, 1, "apple");
    char path[256];
    snprintf(path, sizeof path, "%s/memory.db", folder);
    for (int how = 0; how < 3; how++) {
        struct memory *m = open_memory(NULL);
        assert_string_equal(found(m, "apple", NULL), "0");
        memory_close(m);
        _cleanup_buf_ struct buf b = slurp(path);
        if (how == 0)
            memset(b.data, 'x', b.len);
        else if (how == 1)
            memset(b.data + 1024, 0xff, b.len - 1024);
        else
            b.data[63] = 77; /* the version of the tables */
        spill(path, b.data, b.len);
        m = open_memory(NULL);
        assert_string_equal(found(m, "apple", NULL), "0");
        memory_close(m);
    }
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    history_close(h);
}

static void test_large(void **state)
{
    struct history *h = fresh();
    size_t size = 300000;
    char *text = malloc(size + 1);
    for (size_t i = 0; i < size; i++)
        text[i] = i % 60 == 59 ? '\n' : i % 6 == 5 ? ' ' : "lorem"[i % 5];
    text[size] = 0;
    memcpy(text + 1000, " early_fact ", 12);
    memcpy(text + 299900, " late_fact is 42 ", 17);
    begin(h, 1, text);
    struct memory *m = open_memory(NULL);
    static const char *const facts[] = {"early_fact", "late_fact"};
    for (size_t i = 0; i < 2; i++) {
        json_t *hits = search(m, facts[i], NULL);
        assert_int_equal(json_array_size(hits), 1);
        const char *snippet =
            json_string_value(json_object_get(json_array_get(hits, 0), "snippet"));
        assert_non_null(strstr(snippet, facts[i]));
        assert_true(strlen(snippet) <= MEMORY_SNIPPET_MAX);
        json_decref(hits);
    }
    free(text);
    memory_close(m);
    history_close(h);
}

static void test_cancelled(void **state)
{
    struct error err = {0};
    struct history *h = fresh();
    int pipe_fds[2];
    json_t *hits = NULL;
    begin(h, 1, "apple");
    struct memory *m = open_memory(NULL);
    assert_int_equal(pipe(pipe_fds), 0);
    close(pipe_fds[1]); /* readable from now on */
    struct memory_query q = {.text = "apple", .cancel = pipe_fds[0]};
    assert_int_equal(memory_search(m, &q, &hits, &err), -ECANCELED);
    close(pipe_fds[0]);
    assert_string_equal(found(m, "apple", NULL), "0");
    memory_close(m);
    history_close(h);
}

static void test_several_programs(void **state)
{
    struct history *h = fresh();
    for (int i = 1; i <= 200; i++)
        begin(h, i, i == 77 ? "the planted fact" : "lorem ipsum dolor sit amet");
    pid_t children[4];
    for (size_t i = 0; i < 4; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct memory *m = NULL;
            json_t *hits = NULL;
            struct memory_query q = {.text = "planted", .cancel = -1};
            struct error err = {0};
            bool ok = memory_open(NULL, &m, &err) == 0 && memory_search(m, &q, &hits, &err) == 0;
            if (!ok || json_array_size(hits) != 1)
                fprintf(stderr, "a program of several: %s\n",
                        ok ? "found another number" : err.text);
            _exit(ok && json_array_size(hits) == 1 ? 0 : 1);
        }
    }
    for (size_t i = 0; i < 4; i++) {
        int status;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    struct memory *m = open_memory(NULL);
    assert_string_equal(found(m, "planted", NULL), "76");
    memory_close(m);
    history_close(h);
}

static void test_vectors(void **state)
{
    struct memory_options o = {.embedder = "letters", .model = (struct model *)&embedded};
    struct history *h = fresh();
    begin(h, 1, "zzzz yyyy zzyy");
    begin(h, 2, "apple tree");
    embedded = 0;
    struct memory *m = open_memory(&o);
    assert_string_equal(found(m, "yzyzyz", NULL),
                        "0 1"); /* no such word: the nearest comes first */
    assert_int_equal(embedded, 3);
    assert_string_equal(found(m, "apple", NULL), "1 0");
    assert_int_equal(embedded, 4); /* only the query */
    memory_close(m);
    m = open_memory(&o);
    embedder_fails = true;
    begin(h, 3, "pear tree");
    assert_string_equal(found(m, "pear", NULL), "2"); /* words do without */
    embedder_fails = false;
    assert_string_equal(found(m, "aepr", NULL), "2 1 0");
    memory_close(m);
    history_close(h);
}

/* The tool, called as tool_call() does once the input is found valid. */
static char *use(struct tool_source *s, const char *input, bool *ret_failed)
{
    struct error err = {0};
    struct tool_result result = TOOL_RESULT_INIT;
    json_error_t why;
    struct tool_call c = {.tool = s->find(s, NULL, "memory", &err),
                          .input = json_loads(input, 0, &why),
                          .result = &result,
                          .cancel = -1};
    assert_non_null(c.tool);
    assert_non_null(c.input);
    if (c.tool->run(&c, &err) < 0)
        fail_msg("%s", err.text);
    *ret_failed = result.failed;
    char *text = strdup(buf_cstr(&result.text));
    json_decref(c.input);
    tool_result_free(&result);
    return text;
}

static void expect_tool(struct tool_source *s, const char *input, bool failed, const char *needle)
{
    bool got;
    _cleanup_free_ char *text = use(s, input, &got);
    if (got != failed || !strstr(text, needle))
        fail_msg("%s gives (failed: %d) …%s", input, got,
                 text + (strlen(text) > 300 ? strlen(text) - 300 : 0));
}

static void test_tool(void **state)
{
    struct error err = {0};
    struct history *h = fresh(), *past = fresh();
    begin(past, 1, "we chose port 8642");
    begin(h, 1, "start");
    char *long_text = malloc(100001);
    memset(long_text, 'l', 100000);
    memcpy(long_text + 65534, "\xf0\x9f\x98\x80", 4); /* a page would end in it */
    long_text[100000] = 0;
    append(h, json_pack("{s:s, s:[o, o]}", "role", "user", "content", result("one", "output one"),
                        result("two", long_text)));
    struct tool_source *s = memory_tools(h, NULL);
    assert_null(s->find(s, NULL, "bash", &err));
    expect_tool(s, "{\"query\": \"port\"}", false, "8642");
    expect_tool(s, "{\"query\": \"port\"}", false, history_id(past));
    expect_tool(s, "{\"query\": \"port\", \"session\": \"this\"}", false, "Nothing found");
    expect_tool(s, "{\"query\": \"output\"}", false, "[session this, message 1, call one, tool, ");
    expect_tool(s, "{\"message\": 1, \"call\": \"one\"}", false, "output one");
    expect_tool(s, "{\"message\": 1}", false, "[output of call two]\nlll");
    expect_tool(s, "{\"message\": 1, \"call\": \"two\"}", false,
                "[bytes 0 to 65534 of 100000; to read on, add \"offset\": 65534]");
    bool failed;
    _cleanup_free_ char *rest =
        use(s, "{\"message\": 1, \"call\": \"two\", \"offset\": 65534}", &failed);
    assert_string_equal(rest, long_text + 65534);
    expect_tool(s, "{\"message\": 1, \"call\": \"three\"}", true, "nothing of the call 'three'");
    expect_tool(s, "{\"message\": 2}", true, "has 2 messages");
    expect_tool(s, "{\"message\": 0, \"offset\": 99}", true, "has 5 bytes");
    expect_tool(s, "{}", true, "is missing");
    expect_tool(s, "{\"query\": \"a\", \"message\": 1}", true, "either");
    expect_tool(s, "{\"query\": \"a\", \"session\": \"../x\"}", true, "input.session");
    char input[128];
    snprintf(input, sizeof input, "{\"message\": 0, \"session\": \"%s\"}", history_id(past));
    expect_tool(s, input, false, "we chose port 8642");
    free(long_text);
    s->free(s);
    history_close(past);
    history_close(h);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_words),   T(test_any_query), T(test_grows_and_forgets), T(test_finds_no_searches),
        T(test_damaged), T(test_large),     T(test_cancelled),         T(test_several_programs),
        T(test_vectors), T(test_tool),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
