#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "command.h"
#include "edit/edit.h"
#include "file.h"
#include "guest_fakes.h"
#include "patch/patch.h"
#include "report/report.h"
#include "search/search.h"
#include "shell/shell.h"
#include "banned.h"

#define NO_PROCESS 0x3fffff00 /* above what the kernel gives out */

/* These stand in for functions of files that are linked, by the linker's --wrap. */
int __wrap_kill(pid_t pid, int sig);
int __wrap_output_log_create(struct output_log *l, uint64_t *number);
bool __wrap_state_load(const char *name, struct buf *raw, bool *ret_exists);
bool __wrap_state_store(const char *name, const struct buf *raw);

int __wrap_kill(pid_t pid, int sig)
{
    return 0;
}

int __wrap_output_log_create(struct output_log *l, uint64_t *number)
{
    l->file = memfd_create("log", MFD_CLOEXEC);
    l->path = strdup("/nonexistent/1.out");
    return l->file < 0 || !l->path ? -ENOMEM : 0;
}

static int inputs[16];
static size_t n_inputs, n_shells;

/* Every other shell takes its script and leaves a state. */
static int act_as_shell(const struct spawn *s)
{
    static const char report[] = "taken\0\0/usr\n\0export A=1\n\0\0end";
    bool takes = n_shells++ % 2;
    return takes && pwrite(s->more[3], report, sizeof report, 0) < 0 ? -errno : 0;
}

/* A process that says a word and goes on; one with arguments keeps its input open. */
pid_t spawn_start(struct spawn *s)
{
    if (s->fds[1] >= 0 && write(s->fds[1], "word\n", 5) < 0)
        return -errno;
    if (s->n_more && act_as_shell(s) < 0)
        return -errno;
    if (s->fds[0] >= 0 && s->argv[1] && n_inputs < ARRAY_SIZE(inputs))
        inputs[n_inputs++] = fcntl(s->fds[0], F_DUPFD_CLOEXEC, 3);
    return NO_PROCESS;
}

void guest_fakes_end(void)
{
    while (n_inputs > 0)
        close(inputs[--n_inputs]);
    n_shells = 0;
}

bool __wrap_state_load(const char *name, struct buf *raw, bool *ret_exists)
{
    *ret_exists = false;
    return false;
}

bool __wrap_state_store(const char *name, const struct buf *raw)
{
    return true;
}

void spawn_close(struct spawn *s)
{
    for (size_t i = 0; i < ARRAY_SIZE(s->fds); i++)
        cleanup_close(&s->fds[i]);
}

void worker_start(struct conn *conn, const struct wire_frame *f, file_serve serve)
{
    conn_error(conn, EAGAIN, "no files here");
}

void freeze_request(struct conn *conn, const struct wire_frame *f)
{
    conn_error(conn, EBUSY, "no freeze here");
}

unsigned ptree_signal(struct guest *g, rlim_t tag, int sig)
{
    return 1;
}

unsigned ptree_kill(struct guest *g, const struct command *c)
{
    return 0;
}

enum wire_limit ptree_exceeds(struct guest *g, struct command *c)
{
    return WIRE_LIMIT_NONE;
}

int file_read(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int file_write(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int file_list(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int file_stat(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int file_lines(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int search_files(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int file_edit(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int search_tree(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int patch_serve(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int report_serve(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int stage_serve(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}

int file_put(struct file_call *c, struct error *err)
{
    return -ENOSYS;
}
