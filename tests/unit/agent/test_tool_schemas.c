/* The tools as a model is told of them: legal names and the way back, the same order whatever order
 * they come in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "prompt.h"

#define LONG "server.a_tool_with_a_name_that_is_much_longer_than_sixty_four_bytes_are_"

static int never(struct tool_call *c, struct error *err)
{
    return 0;
}

static const struct tool many[] = {
    {.name = "zeta.go", .summary = "z", .input = "{\"type\": \"object\"}", .run = never},
    {.name = "a.b", .summary = "dot", .input = "{\"type\": \"object\"}", .run = never},
    {.name = "a_b", .summary = "line", .input = "{\"type\": \"object\"}", .run = never},
    {.name = LONG "1", .summary = "l1", .input = "{\"type\": \"object\"}", .run = never},
    {.name = LONG "2", .summary = "l2", .input = "{\"type\": \"object\"}", .run = never},
    {.name = "broken", .summary = "b", .input = "{", .run = never},
};

static bool backwards;
static size_t times = 1;

static void list(struct tool_source *s, struct tool_session *session,
                 void (*each)(void *data, const struct tool *t),
                 void (*trouble)(void *data, const char *text), void *data)
{
    size_t n = sizeof many / sizeof many[0];
    for (size_t k = 0; k < times; k++)
        for (size_t i = 0; i < n; i++)
            each(data, &many[backwards ? n - 1 - i : i]);
}

static const struct tool *find(struct tool_source *s, struct tool_session *session,
                               const char *name, struct error *err)
{
    return NULL;
}

static void nothing(struct tool_source *s) {}

static struct tool_source source = {.find = find, .list = list, .free = nothing};
static unsigned told;

static void tell(void *data, const char *text)
{
    told++;
}

static struct tool_schemas *schemas(void)
{
    struct tool_session *s = NULL;
    struct tool_schemas *t = NULL;
    struct error err = {0};
    assert_int_equal(tool_session_new(NULL, &s, NULL), 0);
    assert_int_equal(tool_session_add(s, &source), 0);
    assert_int_equal(tool_schemas_new(s, tell, NULL, &t, &err), 0);
    tool_session_free(s);
    return t;
}

static const char *legal_of(const struct tool_schemas *t, const char *summary)
{
    size_t i;
    json_t *one;
    json_array_foreach(tool_schemas_list(t), i, one)
    {
        if (strcmp(json_string_value(json_object_get(one, "description")), summary) == 0)
            return json_string_value(json_object_get(one, "name"));
    }
    return NULL;
}

static void test_names(void **state)
{
    struct tool_schemas *t = schemas();
    size_t i;
    json_t *one;
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(tool_schemas_list(t), 0), "name")),
        TOOLS[0]->name);
    json_array_foreach(tool_schemas_list(t), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
        assert_true(n > 0 && n <= 64 && name[n] == 0);
        assert_true(json_is_object(json_object_get(one, "input_schema")));
    }
    assert_string_equal(legal_of(t, "z"), "zeta_go");
    assert_string_equal(tool_schemas_real(t, "zeta_go"), "zeta.go");
    assert_string_not_equal(legal_of(t, "dot"), legal_of(t, "line"));
    assert_string_equal(tool_schemas_real(t, legal_of(t, "dot")), "a.b");
    assert_string_equal(tool_schemas_real(t, legal_of(t, "line")), "a_b");
    assert_string_equal(tool_schemas_real(t, legal_of(t, "l1")), LONG "1");
    assert_string_equal(tool_schemas_real(t, legal_of(t, "l2")), LONG "2");
    assert_null(legal_of(t, "b"));
    assert_string_equal(tool_schemas_real(t, "never heard of"), "never heard of");
    tool_schemas_free(t);
}

static void test_order(void **state)
{
    struct tool_schemas *a = schemas();
    backwards = true;
    times = 2; /* and all of them twice */
    struct tool_schemas *b = schemas();
    char *x = json_dumps(tool_schemas_list(a), 0), *y = json_dumps(tool_schemas_list(b), 0);
    assert_string_equal(x, y);
    free(x);
    free(y);
    tool_schemas_free(a);
    tool_schemas_free(b);
    assert_int_equal(told, 0);
    times = 1000;
    a = schemas();
    assert_int_equal(told, 1); /* that some are left out */
    tool_schemas_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_names), cmocka_unit_test(test_order)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
