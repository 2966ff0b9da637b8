/* The queue between the agent's thread and the screen's: copies, what is joined, order, and that it
 * is full. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "chat.h"

static void put_text(struct update_queue *q, const char *text)
{
    update_queue_event(
        q, &(struct agent_event){.kind = AGENT_TEXT, .text = text, .n = strlen(text)}, 0);
}

static bool readable(const struct update_queue *q)
{
    struct pollfd p = {.fd = update_queue_fd(q), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_queue_joins_text(void **state)
{
    struct update_queue *q;
    assert_int_equal(update_queue_new(&q), 0);
    assert_false(readable(q));
    for (int i = 0; i < 1000; i++)
        put_text(q, "ab");
    update_queue_event(q, &(struct agent_event){.kind = AGENT_THINKING, .text = "x", .n = 1}, 0);
    update_queue_event(q, &(struct agent_event){.kind = AGENT_TEXT, .text = "of 2", .n = 4}, 2);
    assert_true(readable(q));
    struct update *t = update_queue_take(q);
    assert_int_equal(t->event.n, 2000);
    assert_int_equal(strlen(t->event.text), 2000);
    update_free(t);
    t = update_queue_take(q);
    assert_int_equal(t->event.kind, AGENT_THINKING);
    update_free(t);
    t = update_queue_take(q);
    assert_int_equal(t->attempt, 2);
    update_free(t);
    assert_null(update_queue_take(q));
    assert_false(readable(q));
    update_queue_free(q);
}

/* The caller may free everything that an event points to before the event is taken. */
static void test_queue_copies_events(void **state)
{
    struct update_queue *q;
    update_queue_new(&q);
    char id[] = "id", name[] = "bash", why[] = "because", path[] = "p";
    json_t *input = json_pack("{s:s}", "command", "ls");
    struct tool_result r = TOOL_RESULT_INIT;
    buf_append_str(&r.text, "out");
    r.data = json_pack("{s:i}", "exit_code", 3);
    struct agent_change item = {.path = path, .kind = "added", .added = 2};
    struct agent_changes changes = {.items = &item, .count = 1, .added = 2};
    update_queue_event(q,
                       &(struct agent_event){.kind = AGENT_RESULT,
                                             .id = id,
                                             .name = name,
                                             .why = why,
                                             .input = input,
                                             .result = &r,
                                             .changes = &changes,
                                             .seconds = 1.5},
                       0);
    memset(id, 'x', 2);
    memset(name, 'x', 4);
    memset(path, 'x', 1);
    json_decref(input);
    tool_result_free(&r);
    struct update *t = update_queue_take(q);
    assert_string_equal(t->event.id, "id");
    assert_string_equal(t->event.name, "bash");
    assert_string_equal(t->event.why, "because");
    assert_string_equal(json_string_value(json_object_get(t->event.input, "command")), "ls");
    assert_int_equal(json_integer_value(json_object_get(t->event.result->data, "exit_code")), 3);
    assert_memory_equal(t->event.result->text.data, "out", 3);
    assert_string_equal(t->event.changes->items[0].path, "p");
    assert_true(t->event.seconds == 1.5);
    update_free(t);
    update_queue_free(q);
}

static void test_queue_frees_its_updates(void **state)
{
    struct update_queue *q;
    struct chat_result *result = calloc(1, sizeof *result);
    json_t *names = json_array();
    result->names = json_incref(names);
    update_queue_new(&q);
    update_queue_text(q, UPDATE_USER, "words");
    update_queue_text(q, UPDATE_RESET, NULL);
    update_queue_result(q, result);
    update_queue_free(q);
    assert_int_equal(names->refcount, 1);
    json_decref(names);
}

#define PIECE 30000

static void *produce(void *data)
{
    char *text = malloc(PIECE);
    memset(text, 'x', PIECE);
    for (int i = 0; i < 1000; i++)
        update_queue_event(data,
                           &(struct agent_event){.kind = i % 2 ? AGENT_TEXT : AGENT_THINKING,
                                                 .text = text,
                                                 .n = PIECE},
                           0);
    free(text);
    update_queue_result(data, calloc(1, sizeof(struct chat_result)));
    return NULL;
}

/* 30 MB through a queue of 4 MB: the writer waits, and nothing is lost. */
static void test_full_queue_makes_the_writer_wait(void **state)
{
    struct update_queue *q;
    pthread_t thread;
    size_t total = 0;
    bool ended = false;
    update_queue_new(&q);
    pthread_create(&thread, NULL, produce, q);
    while (!ended) {
        struct pollfd p = {.fd = update_queue_fd(q), .events = POLLIN};
        poll(&p, 1, -1);
        for (struct update *t; (t = update_queue_take(q)); update_free(t)) {
            total += t->kind == UPDATE_EVENT ? t->event.n : 0;
            ended = ended || t->kind == UPDATE_RESULT;
        }
    }
    pthread_join(thread, NULL);
    assert_int_equal(total, 1000 * PIECE);
    update_queue_free(q);
}

/* A writer that waits for room continues when the queue is closed. */
static void test_close_releases_waiting_writers(void **state)
{
    struct update_queue *q;
    pthread_t thread;
    update_queue_new(&q);
    pthread_create(&thread, NULL, produce, q);
    struct pollfd p = {.fd = update_queue_fd(q), .events = POLLIN};
    poll(&p, 1, -1);
    update_queue_close(q);
    pthread_join(thread, NULL);
    update_queue_free(q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_joins_text),
        cmocka_unit_test(test_queue_copies_events),
        cmocka_unit_test(test_queue_frees_its_updates),
        cmocka_unit_test(test_full_queue_makes_the_writer_wait),
        cmocka_unit_test(test_close_releases_waiting_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
