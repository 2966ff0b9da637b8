/* What goes to the guest for one command. */
#include <errno.h>

#include "clock.h"
#include "environment.h"
#include "exec.h"
#include "weaken.h"
#include "banned.h"

static int64_t limit_of(int64_t asked, int64_t general)
{
    return asked < 0 ? 0 : asked ? asked : general;
}

static uint64_t to_ms(int64_t ns)
{
    return (uint64_t)((ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* What a script is given is an agent's wish: within the box's own limit. */
int64_t call_wall_limit(const struct call *c)
{
    const struct box_command *cmd = c->command;
    int64_t most = c->box->limits.timeout_ns;
    int64_t wall = limit_of(cmd->timeout_ns, most);
    bool bounded = cmd->shell && !cmd->background && most;
    return bounded && (!wall || wall > most) ? most : wall;
}

void call_put_limits(struct buf *b, const struct call *c)
{
    int64_t wall = call_wall_limit(c);
    int64_t cpu = limit_of(c->command->cpu_time_ns, c->box->limits.cpu_time_ns);
    if (wall && !weakened("timeout"))
        wire_put_u64(b, WIRE_K_TIMEOUT_MS, to_ms(wall));
    if (!weakened("rlimits"))
        wire_put_u64(b, WIRE_K_FILES, c->box->limits.files);
    if (c->before.counted)
        return;
    if (cpu && !weakened("cpu"))
        wire_put_u64(b, WIRE_K_CPU_MS, to_ms(cpu));
    if (!weakened("memory"))
        wire_put_u64(b, WIRE_K_MEMORY, c->box->limits.memory);
    if (c->box->limits.sockets && !weakened("sockets"))
        wire_put_u64(b, WIRE_K_SOCKETS, c->box->limits.sockets);
    wire_put_u64(b, WIRE_K_PIDS, c->box->limits.pids);
}

static int build_shell_request(struct buf *b, const struct call *c)
{
    size_t begin = wire_begin(b, WIRE_SHELL);
    pthread_mutex_lock(&c->box->settings);
    call_put_shell(b, c);
    call_put_limits(b, c);
    pthread_mutex_unlock(&c->box->settings);
    wire_end(b, begin);
    return b->failed ? -E2BIG : 0;
}

int call_build_request(struct buf *b, const struct call *c, enum wire_stdio stdio)
{
    if (c->command->shell)
        return build_shell_request(b, c);
    pthread_mutex_lock(&c->box->settings);
    size_t begin = wire_begin(b, WIRE_EXEC);
    for (char *const *arg = c->command->argv; *arg; arg++)
        wire_put_str(b, WIRE_K_ARG, *arg);
    environment_put(b, c->box->env, c->command->env, c->command->tty);
    wire_put_str(b, WIRE_K_CWD, c->command->cwd ? c->command->cwd : "/workspace");
    wire_put_u64(b, WIRE_K_STDIO, stdio);
    if (stdio == WIRE_STDIO_PTY) {
        wire_put_u64(b, WIRE_K_ROWS, (uint64_t)c->rows);
        wire_put_u64(b, WIRE_K_COLS, (uint64_t)c->cols);
    }
    if (c->command->last)
        wire_put_u64(b, WIRE_K_LAST, 1);
    call_put_limits(b, c);
    pthread_mutex_unlock(&c->box->settings);
    wire_end(b, begin);
    return b->failed ? -E2BIG : 0;
}
