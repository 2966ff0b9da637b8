/*
 * hutch-http: an MCP server that is reached by streamable HTTP, as a program with pipes.
 *
 * The first line on stdin is {"url": …, "headers": {…}, "timeout": seconds}; then each line is a
 * message. With "method" in it, it is one request of any kind instead (exchange.c). hutch starts it
 * like any other server. It is a program of its own since it needs libcurl, and with it the host's
 * certificates and name resolution, which a static program cannot have.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "bridge.h"
#include "exchange.h"
#include "io.h"
#include "banned.h"

#define PIECE (64u << 10)

struct input {
    struct rpc_reader reader;
    char piece[PIECE];
    const char *at; /* what of the piece was not taken yet */
    size_t left;
    bool ended;
};

static void refill(struct input *in)
{
    ssize_t n = read(STDIN_FILENO, in->piece, sizeof in->piece);
    in->at = in->piece;
    in->left = n > 0 ? (size_t)n : 0;
    in->ended = n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/* The next line of what was read, parsed. 0: there is none yet. */
static int next_value(struct input *in, json_t **ret, struct error *err)
{
    struct rpc_line line;
    int r = rpc_take(&in->reader, &in->at, &in->left, &line);
    if (r < 0)
        return error_set(err, -r, "a message of more than %u bytes", RPC_MESSAGE_MAX);
    if (r == 0)
        return 0;
    r = rpc_parse(line.data, line.size, ret, err);
    return r < 0 ? r : 1;
}

static int read_place(struct input *in, json_t **ret_settings, struct place *ret, struct error *err)
{
    json_t *settings = NULL;
    int r = 0;
    while (r == 0 && !in->ended) {
        if (in->left == 0)
            refill(in);
        r = next_value(in, &settings, err);
    }
    if (r == 0)
        return error_set(err, EINVAL, "nothing on stdin; hutch starts this program by itself");
    if (r > 0)
        r = place_parse(settings, ret, err);
    if (r < 0)
        json_decref(settings);
    else
        *ret_settings = settings;
    return r;
}

/* All lines there are, as far as there is room. */
static int take_lines(struct bridge *b, struct input *in)
{
    while (bridge_has_room(b)) {
        struct error err = {0};
        json_t *message = NULL;
        int r = next_value(in, &message, &err);
        if (r == 0)
            return 0;
        if (r < 0)
            fprintf(stderr, "%s\n", err.text);
        else
            r = bridge_send(b, message);
        json_decref(message);
        if (r == -ENOMEM)
            return r;
    }
    return 0;
}

static int serve(struct bridge *b, struct input *in)
{
    int r = io_set_nonblock(STDIN_FILENO, true);
    while (r >= 0 && !in->ended && !b->over) {
        if (in->left == 0)
            refill(in);
        r = take_lines(b, in);
        bool hungry = in->left == 0 && bridge_has_room(b);
        if (r >= 0 && !in->ended)
            r = bridge_step(b, hungry ? STDIN_FILENO : -1);
    }
    bridge_end(b);
    return r < 0 || b->over ? 1 : 0;
}

static int run(struct input *in)
{
    struct place place = {0};
    struct bridge b;
    struct error err = {0};
    json_t *settings = NULL;
    if (read_place(in, &settings, &place, &err) < 0) {
        fprintf(stderr, "hutch-http: %s\n", err.text);
        return 2;
    }
    if (json_object_get(settings, "method")) {
        int status = exchange_run(settings, &place);
        json_decref(settings);
        place_free(&place);
        return status;
    }
    json_decref(settings);
    int status = bridge_init(&b, &place) == 0 ? serve(&b, in) : 1;
    bridge_free(&b);
    return status;
}

int main(void)
{
    struct input in = {.reader = RPC_READER_INIT(RPC_MESSAGE_MAX)};
    signal(SIGPIPE, SIG_IGN);
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return 2;
    int status = run(&in);
    rpc_reader_free(&in.reader);
    curl_global_cleanup();
    return status;
}
