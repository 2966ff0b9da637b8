#include <errno.h>
#include <string.h>

#include "bridge.h"
#include "clock.h"
#include "io.h"
#include "banned.h"

#define OUT_MAX (RPC_MESSAGE_MAX * 2 + 1024) /* escapes may have been undone on the way in */
#define END_MS  1500L
#define IDLE_MS 600000

int bridge_init(struct bridge *b, struct place *place)
{
    *b = (struct bridge){.place = *place, .multi = curl_multi_init()};
    *place = (struct place){0};
    b->last = &b->first;
    return b->multi ? 0 : -ENOMEM;
}

void bridge_free(struct bridge *b)
{
    while (b->transfers) {
        struct transfer *next = b->transfers->next;
        transfer_free(b->transfers);
        b->transfers = next;
    }
    while (b->first) {
        struct queued *next = b->first->next;
        json_decref(b->first->message);
        free(b->first);
        b->first = next;
    }
    curl_multi_cleanup(b->multi);
    place_free(&b->place);
    free(b->session);
    free(b->version);
}

void bridge_deliver(struct bridge *b, const json_t *message)
{
    _cleanup_buf_ struct buf line = BUF_INIT(OUT_MAX);
    if (!message || rpc_write(&line, message) < 0 ||
        io_write_all(STDOUT_FILENO, line.data, line.len) < 0)
        b->over = true; /* nobody hears us */
}

bool bridge_has_room(const struct bridge *b)
{
    return b->n_queued < QUEUE_MAX;
}

int bridge_send(struct bridge *b, json_t *message)
{
    struct queued *q = calloc(1, sizeof *q);
    if (!q)
        return -ENOMEM;
    q->message = json_incref(message);
    *b->last = q;
    b->last = &q->next;
    b->n_queued++;
    return 0;
}

/* Nobody waits for that answer any more: the connection it would come on is given back. */
static void drop_cancelled(struct bridge *b, const json_t *params)
{
    const json_t *id = json_object_get(params, "requestId");
    for (struct transfer **at = &b->transfers; *at; at = &(*at)->next)
        if (id && (*at)->id && json_equal((*at)->id, id)) {
            struct transfer *t = *at;
            *at = t->next;
            if (t->in_order)
                b->waiting = false;
            b->under_way--;
            transfer_free(t);
            return;
        }
}

static int post(struct bridge *b, json_t *message)
{
    struct rpc_message m;
    struct transfer *t = transfer_new(b, TRANSFER_POST);
    if (!t)
        return -ENOMEM;
    rpc_look(message, &m);
    t->body = json_dumps(message, JSON_COMPACT);
    t->id = m.kind == RPC_REQUEST ? json_incref((json_t *)m.id) : NULL;
    t->hello = m.kind == RPC_REQUEST && strcmp(m.method, "initialize") == 0;
    t->ready = m.kind == RPC_NOTIFICATION && strcmp(m.method, "notifications/initialized") == 0;
    t->in_order = t->hello || m.kind != RPC_REQUEST;
    if (m.kind == RPC_NOTIFICATION && strcmp(m.method, "notifications/cancelled") == 0)
        drop_cancelled(b, m.params);
    if (!t->body) {
        transfer_free(t);
        return -ENOMEM;
    }
    b->waiting = t->in_order;
    b->under_way++;
    t->next = b->transfers;
    b->transfers = t;
    return 0;
}

/* Messages that may go now go. */
static int send_queued(struct bridge *b)
{
    int r = 0;
    while (r == 0 && b->first && !b->waiting && b->under_way < UNDER_WAY_MAX) {
        struct queued *q = b->first;
        b->first = q->next;
        if (!b->first)
            b->last = &b->first;
        b->n_queued--;
        r = post(b, q->message);
        json_decref(q->message);
        free(q);
    }
    return r;
}

/* Begins what is due, and ends streams that have nothing more to say. */
static int begin_due(struct bridge *b)
{
    int64_t now = clock_now();
    for (struct transfer *t = b->transfers, *next; t; t = next) {
        next = t->next;
        if (t->due > now)
            continue;
        if (t->easy && t->answered)
            outcome_ended(t, CURLE_OK);
        else if (!t->easy && transfer_begin(t) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* Milliseconds until something is due. */
static int wait_ms(const struct bridge *b)
{
    int wait = b->first && !b->waiting && b->under_way < UNDER_WAY_MAX ? 0 : IDLE_MS;
    for (const struct transfer *t = b->transfers; t; t = t->next) {
        int ms = !t->easy || t->answered ? clock_poll_ms(t->due ? t->due : 1) : IDLE_MS;
        wait = ms < wait ? ms : wait;
    }
    return wait;
}

static void take_ended(struct bridge *b)
{
    CURLMsg *m;
    int left;
    while ((m = curl_multi_info_read(b->multi, &left))) {
        struct transfer *t = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        outcome_ended(t, code);
    }
}

int bridge_step(struct bridge *b, int in)
{
    struct curl_waitfd stdin_wait = {.fd = in, .events = CURL_WAIT_POLLIN};
    int running = 0;
    int r = send_queued(b);
    if (r == 0)
        r = begin_due(b);
    if (r < 0 || curl_multi_perform(b->multi, &running) != CURLM_OK)
        return -ENOMEM;
    take_ended(b);
    if (b->over)
        return 0;
    return curl_multi_poll(b->multi, &stdin_wait, in >= 0 ? 1 : 0, wait_ms(b), NULL) == CURLM_OK
               ? 0
               : -EIO;
}

static size_t ignore(char *data, size_t size, size_t n, void *nothing)
{
    return size * n;
}

void bridge_end(struct bridge *b)
{
    struct transfer *t = b->session ? transfer_new(b, TRANSFER_LISTEN) : NULL;
    if (!t || b->over || transfer_begin(t) < 0) {
        transfer_free(t);
        return;
    }
    curl_multi_remove_handle(b->multi, t->easy);
    curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, "DELETE");
    curl_easy_setopt(t->easy, CURLOPT_WRITEFUNCTION, ignore);
    curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, END_MS);
    curl_easy_perform(t->easy); /* a server that does not care is none of our business any more */
    transfer_free(t);
}
