#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cleanup.h"
#include "digest.h"
#include "wire_ids.h"
#include "banned.h"

#define PLAIN "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

void wire_ids_free(struct wire_ids *w)
{
    json_decref(w->taken);
    json_decref(w->now);
}

int wire_ids_turn(struct wire_ids *w)
{
    if (!w->taken)
        w->taken = json_object();
    json_decref(w->now);
    w->now = json_object();
    return w->taken && w->now ? 0 : -ENOMEM;
}

static bool fits(const struct wire_ids *w, const char *id)
{
    size_t n = strlen(id);
    return n > 0 && n <= w->max && (!w->plain || strspn(id, PLAIN) == n);
}

/* The n'th use of an id in a conversation gets a name of its own from the second on. */
static void name_of(const struct wire_ids *w, const char *id, json_int_t nth, char ret[static 32])
{
    uint64_t hash = digest(DIGEST_BEGIN, id, strlen(id));
    hash = nth ? digest(hash, &nth, sizeof nth) : hash;
    snprintf(ret, 32, "call_%016" PRIx64, hash);
}

const char *wire_id_call(struct wire_ids *w, const char *id)
{
    char name[32];
    json_int_t nth = w->once ? json_integer_value(json_object_get(w->taken, id)) : 0;
    bool as_it_is = nth == 0 && fits(w, id);
    if (!as_it_is)
        name_of(w, id, nth, name);
    if (w->once && json_object_set_new(w->taken, id, json_integer(nth + 1)) < 0)
        return NULL;
    if (json_object_set_new(w->now, id, json_string(as_it_is ? id : name)) < 0)
        return NULL;
    return wire_id_result(w, id);
}

const char *wire_id_result(const struct wire_ids *w, const char *id)
{
    return json_string_value(json_object_get(w->now, id));
}
