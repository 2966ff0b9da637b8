#include <errno.h>
#include <string.h>

#include "model_private.h"
#include "record.h"
#include "replay.h"
#include "banned.h"

int model_open(const struct model_spec *spec, struct model **ret, struct error *err)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        return error_set(err, ENOMEM, "no memory for a model");
    m->spec = *spec;
    int r = spec->api == MODEL_REPLAY ? replay_open(spec->name, &m->replay, err)
                                      : endpoint_make(spec, &m->at, err);
    if (r == 0 && spec->record)
        r = record_check(spec->record, err);
    if (r < 0) {
        model_close(m);
        return r;
    }
    *ret = m;
    return 0;
}

struct model *model_close(struct model *m)
{
    if (!m)
        return NULL;
    transport_free(m->transport);
    endpoint_free(&m->at);
    replay_free(m->replay);
    free(m);
    return NULL;
}

const struct model_spec *model_spec_of(const struct model *m)
{
    return &m->spec;
}

static int ask(struct model *m, const struct model_request *q, const struct model_sink *sink,
               struct model_reply *ret, struct error *err)
{
    return m->replay ? replay_ask(m->replay, q, m->spec.pace, sink, ret, err)
                     : ask_run(m, q, sink, ret, err);
}

static void ignore(void *data, const struct model_event *e) {}

/* Recorded, too. A recording with a hole would be none: who cannot write it down fails. */
static int ask_recorded(struct model *m, const struct model_request *q,
                        const struct model_sink *sink, struct model_reply *ret, struct error *err)
{
    struct record rec;
    record_begin(&rec, sink);
    int r = ask(m, q, &rec.sink, ret, err);
    if (r == 0 || r == -ECANCELED) {
        int written = record_end(&rec, &m->spec, q, ret, r == -ECANCELED, err);
        if (written < 0)
            model_reply_free(ret);
        r = written < 0 ? written : r;
    }
    record_free(&rec);
    return r;
}

int model_ask(struct model *m, const struct model_request *q, const struct model_sink *sink,
              struct model_reply *ret, struct error *err)
{
    static const struct model_sink NOBODY = {.event = ignore};
    struct model_reply reply = {0};
    sink = sink ? sink : &NOBODY;
    int r = m->spec.record ? ask_recorded(m, q, sink, &reply, err) : ask(m, q, sink, &reply, err);
    if (r == 0 || r == -ECANCELED)
        *ret = reply;
    return r;
}
