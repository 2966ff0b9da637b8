/*
 * The whole proxy, on loopback: a real web server that is named on the list by its address, one
 * that is reached by a name and must not be, and connections that end in every order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "cleanup.h"
#include "io.h"
#include "proxy.h"
#include "text.h"
#include "thread.h"

#define ANSWER_MAX (4u << 20)
#define FILE_SIZE  (1u << 20)

struct place {
    char dir[64];
    pid_t web;
    int web_port;
    int proxy_port;
    struct proxy *proxy;
};

static int listen_on(int *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
    assert_int_equal(listen(fd, 128), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

/* A read on it fails after some seconds, so that no mistake makes the test wait for ever. */
static int try_connect(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct timeval limit = {.tv_sec = 20};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    close(fd);
    return -1;
}

static void start_web(struct place *p)
{
    char port[16];
    close(listen_on(&p->web_port));
    snprintf(port, sizeof port, "%d", p->web_port);
    p->web = fork();
    if (p->web == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execlp("python3", "python3", "-m", "http.server", port, "--bind", "127.0.0.1",
               "--directory", p->dir, NULL);
        _exit(127);
    }
    for (int i = 0; i < 200; i++) {
        int fd = try_connect(p->web_port);
        if (fd >= 0) {
            close(fd);
            return;
        }
        poll(NULL, 0, 50);
    }
    fail_msg("the web server did not start");
}

static struct proxy *start_proxy(const char *const *allow, size_t n, int *ret_port)
{
    struct error err = {0};
    struct proxy *p =
        proxy_start(listen_on(ret_port), &(struct proxy_rules){.allow = allow, .n_allow = n}, &err);
    if (!p)
        fail_msg("%s", err.text);
    return p;
}

static int make_place(void **state)
{
    static struct place p;
    static char literal[64], name[64];
    static uint8_t zeros[FILE_SIZE];
    char path[128];

    snprintf(p.dir, sizeof p.dir, "/tmp/test-proxy.XXXXXX");
    if (!mkdtemp(p.dir))
        return -1;
    snprintf(path, sizeof path, "%s/file", p.dir);
    _cleanup_fd_ int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || io_write_all(fd, zeros, sizeof zeros) < 0)
        return -1;
    start_web(&p);
    snprintf(literal, sizeof literal, "127.0.0.1:%d", p.web_port);
    snprintf(name, sizeof name, "localhost:%d", p.web_port + 1);
    const char *const allow[] = {literal, name, "no-such-name.invalid"};
    p.proxy = start_proxy(allow, ARRAY_SIZE(allow), &p.proxy_port);
    *state = &p;
    return 0;
}

static int remove_place(void **state)
{
    struct place *p = *state;
    char path[128];
    p->proxy = proxy_stop(p->proxy);
    kill(p->web, SIGKILL);
    waitpid(p->web, NULL, 0);
    snprintf(path, sizeof path, "%s/file", p->dir);
    return unlink(path) || rmdir(p->dir);
}

/* Sends a request and reads the answer to its end. */
PRINTF(2, 3) static struct buf ask(int port, const char *fmt, ...)
{
    struct buf request = BUF_INIT(1u << 20), answer = BUF_INIT(ANSWER_MAX);
    char text[4096];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    _cleanup_fd_ int fd = try_connect(port);
    assert_true(fd >= 0);
    assert_int_equal(buf_append(&request, text, (size_t)n), 0);
    assert_int_equal(io_write_all(fd, request.data, request.len), 0);
    assert_int_equal(io_read_all(fd, &answer), 0);
    buf_free(&request);
    return answer;
}

static void expect(struct buf answer, const char *status, const char *text)
{
    const char *s = buf_cstr(&answer);
    if (strncmp(s, status, strlen(status)) != 0 || !strstr(s, text))
        fail_msg("expected %s, %s; got: %.400s", status, text, s);
    buf_free(&answer);
}

static void test_get(void **state)
{
    const struct place *p = *state;
    struct buf a =
        ask(p->proxy_port, "GET http://127.0.0.1:%d/file HTTP/1.1\r\nHost: x\r\n\r\n", p->web_port);
    assert_true(a.len > FILE_SIZE);
    expect(a, "HTTP/1.0 200", "Content-Length: 1048576");
    expect(ask(p->proxy_port, "GET http://127.0.0.1:%d/none HTTP/1.1\r\n\r\n", p->web_port),
           "HTTP/1.0 404", "");
}

static void test_connect(void **state)
{
    const struct place *p = *state;
    struct buf a =
        ask(p->proxy_port, "CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\nGET /file HTTP/1.0\r\n\r\n",
            p->web_port);
    assert_true(a.len > FILE_SIZE);
    expect(a, "HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.0 200", "Content-Length: 1048576");
}

static void test_denied(void **state)
{
    const struct place *p = *state;
    const int port = p->proxy_port;

    expect(
        ask(port, "CONNECT example.org:443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 403 Forbidden",
        "example.org:443 is not allowed from this box; allow it with --net allow:example.org:443;");
    expect(ask(port, "GET http://example.org/ HTTP/1.1\r\n\r\n"), "HTTP/1.1 403", "example.org:80");
    expect(ask(port, "CONNECT [::1]:22 HTTP/1.1\r\n\r\n"), "HTTP/1.1 403", "[::1]:22 is not");
    expect(ask(port, "CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n", p->web_port + 1), "HTTP/1.1 403", "");
    expect(ask(port, "CONNECT localhost:%d HTTP/1.1\r\n\r\n", p->web_port), "HTTP/1.1 403",
           "is not allowed");
    /* on the list, but what it leads to is not */
    expect(ask(port, "CONNECT localhost:%d HTTP/1.1\r\n\r\n", p->web_port + 1), "HTTP/1.1 403",
           "private or local");
}

static void test_wrong(void **state)
{
    const struct place *p = *state;
    expect(ask(p->proxy_port, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.1 400",
           "this is a proxy");
    expect(ask(p->proxy_port, "CONNECT no-such-name.invalid:443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 502",
           "cannot resolve the name");
}

static void test_large_head(void **state)
{
    const struct place *p = *state;
    static char head[40 << 10];
    _cleanup_buf_ struct buf answer = BUF_INIT(ANSWER_MAX);
    _cleanup_fd_ int fd = try_connect(p->proxy_port);
    memset(head, 'a', sizeof head);
    assert_int_equal(io_write_all(fd, head, sizeof head), 0);
    assert_int_equal(io_read_all(fd, &answer), 0);
    assert_memory_equal(answer.data, "HTTP/1.1 431", 12);
}

static void test_empty_list(void **state)
{
    const struct place *p = *state;
    int port;
    struct proxy *proxy = start_proxy(NULL, 0, &port);
    expect(ask(port, "CONNECT 127.0.0.1:%d HTTP/1.1\r\n\r\n", p->web_port), "HTTP/1.1 403", "");
    proxy_stop(proxy);
}

static void test_bad_list(void **state)
{
    const char *const allow[] = {"example.org", "http://x"};
    struct error err = {0};
    int port, fd = listen_on(&port);
    assert_null(proxy_start(fd, &(struct proxy_rules){.allow = allow, .n_allow = 2}, &err));
    assert_non_null(strstr(err.text, "without a scheme"));
    assert_int_equal(close(fd), 0); /* still ours */
}

static void test_rules_change_while_it_runs(void **state)
{
    const struct place *p = *state;
    struct error err = {0};
    char local[64];
    const char *const list[] = {local};
    int port;
    struct proxy *proxy = start_proxy(NULL, 0, &port);
    snprintf(local, sizeof local, "127.0.0.1:%d", p->web_port);
    expect(ask(port, "GET http://%s/file HTTP/1.0\r\n\r\n", local), "HTTP/1.1 403",
           "is not allowed");
    assert_int_equal(
        proxy_set_rules(proxy, &(struct proxy_rules){.allow = list, .n_allow = 1}, &err), 0);
    expect(ask(port, "GET http://%s/file HTTP/1.0\r\n\r\n", local), "HTTP/1.0 200", "");
    _cleanup_fd_ int tunnel = try_connect(port);
    char text[128], answer[256] = "";
    int n = snprintf(text, sizeof text, "CONNECT %s HTTP/1.1\r\n\r\n", local);
    assert_int_equal(io_write_all(tunnel, text, (size_t)n), 0);
    assert_true(read(tunnel, answer, sizeof answer - 1) > 0);
    assert_non_null(strstr(answer, "200"));
    /* What was allowed and is not any more ends. */
    assert_int_equal(proxy_set_rules(proxy, &(struct proxy_rules){0}, &err), 0);
    assert_true(read(tunnel, answer, sizeof answer) <= 0);
    expect(ask(port, "GET http://%s/file HTTP/1.0\r\n\r\n", local), "HTTP/1.1 403",
           "is not allowed");
    proxy_stop(proxy);
}

static void test_hosts_of_the_package_configuration_may_be_private(void **state)
{
    const struct place *p = *state;
    char host[64];
    const char *const list[] = {host};
    struct error err = {0};
    int port;
    snprintf(host, sizeof host, "localhost:%d", p->web_port);
    struct proxy *proxy =
        proxy_start(listen_on(&port), &(struct proxy_rules){.hosts = list, .n_hosts = 1}, &err);
    assert_non_null(proxy);
    expect(ask(port, "GET http://%s/file HTTP/1.0\r\n\r\n", host), "HTTP/1.0 200", "");
    /* exactly this port */
    expect(ask(port, "CONNECT localhost:%d HTTP/1.1\r\n\r\n", p->web_port + 1), "HTTP/1.1 403", "");
    proxy_stop(proxy);
}

static void test_refusals_are_kept_once_each(void **state)
{
    struct proxy_refusal list[4];
    int port;
    struct proxy *proxy = start_proxy(NULL, 0, &port);
    assert_int_equal(proxy_refused(proxy), 0);
    for (int i = 0; i < 3; i++)
        expect(ask(port, "CONNECT example.org:443 HTTP/1.1\r\n\r\n"), "HTTP/1.1 403", "");
    uint64_t before = proxy_refused(proxy);
    assert_int_equal(before, 3);
    expect(ask(port, "CONNECT other.org:22 HTTP/1.1\r\n\r\n"), "HTTP/1.1 403", "");
    assert_int_equal(proxy_refusals(proxy, 0, list, 4), 2);
    assert_int_equal(proxy_refusals(proxy, before, list, 4), 1);
    assert_string_equal(list[0].target, "other.org:22");
    assert_false(list[0].is_private);
    /* A box that tries everything fills no memory. */
    for (int i = 0; i < 100; i++)
        expect(ask(port, "CONNECT h%d.example.org:443 HTTP/1.1\r\n\r\n", i), "HTTP/1.1 403", "");
    struct proxy_refusal many[64];
    assert_int_equal(proxy_refusals(proxy, 0, many, 64), 32);
    proxy_stop(proxy);
}

/* Sends a request for a server of our own, and accepts the connection that the proxy makes to
 * it. */
static int reach_through(int listen_fd, int proxy_port, int port, const char *before,
                         const char *after, int *ret_server)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s127.0.0.1:%d%s", before, port, after);
    int client = try_connect(proxy_port);
    assert_int_equal(io_write_all(client, text, (size_t)n), 0);
    *ret_server = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*ret_server >= 0);
    return client;
}

static void expect_bytes(int fd, const char *expected)
{
    char got[1024];
    size_t n = strlen(expected), have = 0;
    while (have < n) {
        ssize_t r = read(fd, got + have, n - have);
        assert_true(r > 0);
        have += (size_t)r;
    }
    assert_memory_equal(got, expected, n);
}

static void test_half_close_and_stop(void **state)
{
    int port, proxy_port, server;
    char byte, literal[64];
    const char *const allow[] = {literal};
    _cleanup_fd_ int listen_fd = listen_on(&port);
    snprintf(literal, sizeof literal, "127.0.0.1:%d", port);
    struct proxy *proxy = start_proxy(allow, 1, &proxy_port);

    _cleanup_fd_ int client =
        reach_through(listen_fd, proxy_port, port, "CONNECT ", " HTTP/1.1\r\n\r\nearly", &server);
    expect_bytes(server, "early");
    expect_bytes(client, "HTTP/1.1 200 Connection established\r\n\r\n");
    assert_int_equal(shutdown(client, SHUT_WR), 0);
    assert_int_equal(read(server, &byte, 1), 0);
    assert_int_equal(io_write_all(server, "late", 4), 0);
    expect_bytes(client, "late");

    int64_t begin = clock_now();
    proxy_stop(proxy);
    assert_true(clock_now() - begin < NS_PER_S);
    assert_true(read(client, &byte, 1) <= 0);
    close(server);
}

/* What follows the body is not for this server, nor is it answered. */
static void test_body_is_cut(void **state)
{
    int port, proxy_port, server;
    char byte, literal[64], expected[256];
    const char *const allow[] = {literal};
    _cleanup_fd_ int listen_fd = listen_on(&port);
    snprintf(literal, sizeof literal, "127.0.0.1:%d", port);
    struct proxy *proxy = start_proxy(allow, 1, &proxy_port);

    _cleanup_fd_ int client = reach_through(
        listen_fd, proxy_port, port, "POST http://",
        "/ HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET http://x/ HTTP/1.1\r\n\r\n", &server);
    snprintf(expected, sizeof expected,
             "POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Length: 3\r\nConnection: "
             "close\r\n\r\nabc",
             port);
    expect_bytes(server, expected);
    struct pollfd quiet = {.fd = server, .events = POLLIN};
    assert_int_equal(poll(&quiet, 1, 100), 0);
    assert_int_equal(io_write_all(server, "HTTP/1.1 204 No Content\r\n\r\n", 27), 0);
    close(server);
    expect_bytes(client, "HTTP/1.1 204 No Content\r\n\r\n");
    assert_int_equal(read(client, &byte, 1) <= 0, 1);
    proxy_stop(proxy);
}

/* More at once than there are slots: the rest wait, and come in when others leave. */
static void test_many(void **state)
{
    const struct place *p = *state;
    int fds[PROXY_CONNECTIONS_MAX + 20];
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        assert_true((fds[i] = try_connect(p->proxy_port)) >= 0);
    for (size_t i = 0; i < ARRAY_SIZE(fds) - 1; i++)
        close(fds[i]);
    char request[128];
    int n =
        snprintf(request, sizeof request, "GET http://127.0.0.1:%d/ HTTP/1.1\r\n\r\n", p->web_port);
    int last = fds[ARRAY_SIZE(fds) - 1];
    assert_int_equal(io_write_all(last, request, (size_t)n), 0);
    expect_bytes(last, "HTTP/1.0 200");
    close(last);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_connect),
        cmocka_unit_test(test_denied),
        cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_large_head),
        cmocka_unit_test(test_rules_change_while_it_runs),
        cmocka_unit_test(test_hosts_of_the_package_configuration_may_be_private),
        cmocka_unit_test(test_refusals_are_kept_once_each),
        cmocka_unit_test(test_empty_list),
        cmocka_unit_test(test_bad_list),
        cmocka_unit_test(test_half_close_and_stop),
        cmocka_unit_test(test_body_is_cut),
        cmocka_unit_test(test_many),
    };
    return cmocka_run_group_tests(tests, make_place, remove_place);
}
