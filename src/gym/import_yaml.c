#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <yaml.h>

#include "import_yaml.h"
#include "banned.h"

#define DEPTH_MAX  64
#define EVENTS_MAX 200000u
#define NAME_SIZE  256

/* Where the reader stands: names are taken of the first two levels. */
struct place {
    unsigned depth;
    bool mapping[DEPTH_MAX]; /* what lies on each level: a mapping, or a list */
    bool value[DEPTH_MAX];   /* of a mapping: its value is next, not a name */
    char name[NAME_SIZE];
    const struct yaml_sink *sink;
};

static bool at_name(const struct place *p)
{
    return p->depth > 0 && p->mapping[p->depth - 1] && !p->value[p->depth - 1];
}

/* One value is complete: the next thing of its mapping is a name, or the other way round. */
static void turn(struct place *p)
{
    if (p->depth > 0)
        p->value[p->depth - 1] = p->mapping[p->depth - 1] && !p->value[p->depth - 1];
}

static void take_scalar(struct place *p, const char *text)
{
    if (p->depth == 1 && at_name(p))
        snprintf(p->name, sizeof p->name, "%s", text);
    else if (p->depth == 1 && p->mapping[0])
        p->sink->value(p->sink->data, p->name, text);
    else if (p->depth == 2 && p->mapping[0] && at_name(p) && p->sink->deeper)
        p->sink->deeper(p->sink->data, p->name, text);
    turn(p);
}

static int take_event(struct place *p, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        take_scalar(p, (const char *)e->data.scalar.value);
        return 0;
    case YAML_ALIAS_EVENT:
        turn(p);
        return 0;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (p->depth == DEPTH_MAX)
            return -ELOOP;
        p->mapping[p->depth] = e->type == YAML_MAPPING_START_EVENT;
        p->value[p->depth++] = false;
        return 0;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        p->depth--;
        turn(p);
        return 0;
    default:
        return 0;
    }
}

static int scan(yaml_parser_t *parser, const struct yaml_sink *sink, struct error *err)
{
    struct place p = {.sink = sink};
    for (unsigned count = 0; count < EVENTS_MAX; count++) {
        yaml_event_t e;
        if (!yaml_parser_parse(parser, &e))
            return error_set(err, EINVAL, "line %zu: %s", parser->problem_mark.line + 1,
                             parser->problem ? parser->problem : "is no YAML");
        bool end = e.type == YAML_STREAM_END_EVENT || e.type == YAML_DOCUMENT_END_EVENT;
        int r = take_event(&p, &e);
        yaml_event_delete(&e);
        if (r < 0)
            return error_set(err, ELOOP, "lies too deep");
        if (end)
            return 0;
    }
    return error_set(err, E2BIG, "is too long");
}

int yaml_scan(const char *text, size_t n, const struct yaml_sink *sink, struct error *err)
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return error_set(err, ENOMEM, "no memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, n);
    int r = scan(&parser, sink, err);
    yaml_parser_delete(&parser);
    return r;
}
