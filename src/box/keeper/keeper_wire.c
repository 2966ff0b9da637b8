#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "keeper_internal.h"
#include "banned.h"

char **keeper_find_strings(const struct wire_frame *f, uint16_t key, size_t *ret_n)
{
    size_t count = 0, bytes = 0, i = 0;
    struct wire_field field;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            if (memchr(field.data, 0, field.size))
                return NULL;
            count++;
            bytes += field.size + 1;
        }
    char **list = calloc(1, (count + 1) * sizeof *list + bytes);
    char *text = (char *)(list + count + 1);
    for (size_t at = 0; list && wire_next(f, &at, &field);)
        if (field.key == key) {
            list[i++] = memcpy(text, field.data, field.size);
            text += field.size + 1;
        }
    if (ret_n)
        *ret_n = count;
    return list;
}

void keeper_put_command(struct buf *out, const struct box_command *c)
{
    for (char *const *arg = c->argv; arg && *arg; arg++)
        wire_put_str(out, WIRE_K_ARG, *arg);
    for (char *const *env = c->env; env && *env; env++)
        wire_put_str(out, WIRE_K_ENV, *env);
    if (c->cwd)
        wire_put_str(out, WIRE_K_CWD, c->cwd);
    if (c->shell) {
        wire_put_str(out, KEEPER_K_SHELL, c->shell);
        wire_put_str(out, KEEPER_K_SCRIPT, c->script);
        wire_put_u64(out, WIRE_K_BACKGROUND, c->background);
    }
    if (c->input)
        wire_put(out, KEEPER_K_INPUT, c->input, c->n_input);
    wire_put_u64(out, KEEPER_K_TTY, c->tty);
    wire_put_u64(out, KEEPER_K_CAPTURE, c->capture);
    wire_put_u64(out, KEEPER_K_TIMEOUT_NS, (uint64_t)c->timeout_ns);
    wire_put_u64(out, KEEPER_K_CPU_TIME_NS, (uint64_t)c->cpu_time_ns);
}

int keeper_find_command(const struct wire_frame *f, struct keeper_command *ret)
{
    struct wire_field input = {0};
    struct keeper_command c = {.argv = keeper_find_strings(f, WIRE_K_ARG, NULL),
                               .env = keeper_find_strings(f, WIRE_K_ENV, NULL),
                               .cwd = wire_find_str(f, WIRE_K_CWD),
                               .shell = wire_find_str(f, KEEPER_K_SHELL),
                               .script = wire_find_str(f, KEEPER_K_SCRIPT)};
    if (!c.argv || !c.env || !(c.argv[0] || (c.shell && c.script))) {
        keeper_command_free(&c);
        return -EPROTO;
    }
    c.command = (struct box_command){
        .argv = c.argv,
        .env = c.env,
        .cwd = c.cwd,
        .shell = c.shell,
        .script = c.script,
        .input = wire_find(f, KEEPER_K_INPUT, &input) ? input.data : NULL,
        .n_input = input.size,
        .background = wire_find_u64(f, WIRE_K_BACKGROUND, 0),
        .timeout_ns = (int64_t)wire_find_u64(f, KEEPER_K_TIMEOUT_NS, 0),
        .cpu_time_ns = (int64_t)wire_find_u64(f, KEEPER_K_CPU_TIME_NS, 0),
        .tty = wire_find_u64(f, KEEPER_K_TTY, 0),
        .capture = wire_find_u64(f, KEEPER_K_CAPTURE, 0),
    };
    *ret = c;
    return 0;
}

void keeper_command_free(struct keeper_command *c)
{
    free(c->argv);
    free(c->env);
    free(c->cwd);
    free(c->shell);
    free(c->script);
}

void keeper_put_result(struct buf *out, const struct box_result *r)
{
    wire_put_str(out, WIRE_K_TEXT, r->failure);
    wire_put_u64(out, WIRE_K_EXIT_CODE, (uint64_t)r->exit_code);
    wire_put_u64(out, WIRE_K_TERM_SIGNAL, (uint64_t)r->signal);
    wire_put_u64(out, WIRE_K_LIMIT, r->limit);
    wire_put_u64(out, WIRE_K_DURATION_NS, (uint64_t)r->duration_ns);
    wire_put_u64(out, KEEPER_K_CPU_NS, (uint64_t)r->cpu_ns);
    wire_put_u64(out, WIRE_K_MAX_RSS, r->max_rss);
    wire_put_u64(out, KEEPER_K_OUT_TOTAL, r->out.total);
    wire_put_u64(out, KEEPER_K_ERR_TOTAL, r->err.total);
    wire_put_u64(out, KEEPER_K_OUT_ERROR, (uint64_t)r->out_error);
    wire_put_u64(out, WIRE_K_STATE, r->state);
    wire_put_u64(out, WIRE_K_HANDLE, r->handle);
    if (r->cwd)
        wire_put_str(out, WIRE_K_CWD, r->cwd);
    if (r->notes)
        wire_put_str(out, WIRE_K_NOTE, r->notes);
    if (r->output_path)
        wire_put_str(out, WIRE_K_OUTPUT_PATH, r->output_path);
    for (size_t i = 0; i < r->n_refused; i++) {
        bool is_private = r->refused[i].is_private;
        wire_put_str(out, is_private ? KEEPER_K_REFUSED_PRIVATE : KEEPER_K_REFUSED,
                     r->refused[i].target);
    }
}

void keeper_find_result(const struct wire_frame *f, struct box_result *r)
{
    struct wire_field field;
    _cleanup_free_ char *failure = wire_find_str(f, WIRE_K_TEXT);
    snprintf(r->failure, sizeof r->failure, "%s", failure ? failure : "");
    r->exit_code = (int)wire_find_u64(f, WIRE_K_EXIT_CODE, 0);
    r->signal = (int)wire_find_u64(f, WIRE_K_TERM_SIGNAL, 0);
    r->limit = (enum wire_limit)wire_find_u64(f, WIRE_K_LIMIT, 0);
    r->duration_ns = (int64_t)wire_find_u64(f, WIRE_K_DURATION_NS, 0);
    r->cpu_ns = (int64_t)wire_find_u64(f, KEEPER_K_CPU_NS, 0);
    r->max_rss = wire_find_u64(f, WIRE_K_MAX_RSS, 0);
    r->out.total = wire_find_u64(f, KEEPER_K_OUT_TOTAL, 0);
    r->err.total = wire_find_u64(f, KEEPER_K_ERR_TOTAL, 0);
    r->out_error = (int)wire_find_u64(f, KEEPER_K_OUT_ERROR, 0);
    r->state = (enum wire_state)wire_find_u64(f, WIRE_K_STATE, 0);
    r->handle = wire_find_u64(f, WIRE_K_HANDLE, 0);
    r->cwd = wire_find_str(f, WIRE_K_CWD);
    r->notes = wire_find_str(f, WIRE_K_NOTE);
    r->output_path = wire_find_str(f, WIRE_K_OUTPUT_PATH);
    r->refused = calloc(BOX_REFUSALS_MAX, sizeof *r->refused);
    size_t at = 0;
    while (r->refused && r->n_refused < BOX_REFUSALS_MAX && wire_next(f, &at, &field)) {
        struct box_refusal *refusal = &r->refused[r->n_refused];
        bool is_private = field.key == KEEPER_K_REFUSED_PRIVATE;
        if ((!is_private && field.key != KEEPER_K_REFUSED) || field.size >= sizeof refusal->target)
            continue;
        memcpy(refusal->target, field.data, field.size);
        refusal->is_private = is_private;
        r->n_refused++;
    }
}

void keeper_put_limits(struct buf *out, const struct box_limits *l)
{
    wire_put_u64(out, KEEPER_K_MEMORY, l->memory);
    wire_put_u64(out, KEEPER_K_PIDS, l->pids);
    wire_put_u64(out, KEEPER_K_MILLICPUS, (uint64_t)(l->cpus * 1000 + 0.5));
    wire_put_u64(out, KEEPER_K_TIMEOUT_NS, (uint64_t)l->timeout_ns);
}

struct box_limits keeper_find_limits(const struct wire_frame *f)
{
    return (struct box_limits){
        .memory = wire_find_u64(f, KEEPER_K_MEMORY, 0),
        .pids = wire_find_u64(f, KEEPER_K_PIDS, 0),
        .cpus = (double)wire_find_u64(f, KEEPER_K_MILLICPUS, 0) / 1000,
        .timeout_ns = (int64_t)wire_find_u64(f, KEEPER_K_TIMEOUT_NS, 0),
    };
}
