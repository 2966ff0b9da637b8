#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"
#include "banned.h"

int plan_init(struct plan *p)
{
    /* Not the lists themselves, of which only a part is ever touched: they are many pages. */
    p->n_stage0 = p->n_stage1 = p->n_stage2 = p->n_rules = p->strings_len = 0;
    p->next_slot = SLOT_FREE;
    p->overflow = false;
    for (int i = 0; i < SLOT_MAX; i++)
        p->fds[i] = -1;
    p->strings = malloc(PLAN_STRINGS_MAX);
    return p->strings ? 0 : -ENOMEM;
}

void plan_free(struct plan *p)
{
    free(p->strings);
    p->strings = NULL;
}

void plan_add(struct plan *p, int stage, struct op op)
{
    struct {
        struct op *ops;
        size_t *n, max;
    } stages[] = {{p->stage0, &p->n_stage0, ARRAY_SIZE(p->stage0)},
                  {p->stage1, &p->n_stage1, ARRAY_SIZE(p->stage1)},
                  {p->stage2, &p->n_stage2, ARRAY_SIZE(p->stage2)}};
    if (*stages[stage].n == stages[stage].max) {
        p->overflow = true;
        return;
    }
    stages[stage].ops[(*stages[stage].n)++] = op;
}

int plan_slot(struct plan *p)
{
    if (p->next_slot == SLOT_MAX) {
        p->overflow = true;
        return SLOT_MAX - 1;
    }
    return p->next_slot++;
}

void plan_rule(struct plan *p, const char *path, enum landlock_class rights)
{
    if (p->n_rules == PLAN_RULES_MAX) {
        p->overflow = true;
        return;
    }
    p->rules[p->n_rules++] = (struct landlock_rule){path, rights};
}

const char *plan_text(struct plan *p, const char *fmt, ...)
{
    char *at = p->strings + p->strings_len;
    size_t room = PLAN_STRINGS_MAX - p->strings_len;
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(at, room, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= room) {
        p->overflow = true;
        return "";
    }
    p->strings_len += (size_t)n + 1;
    return at;
}

const char *plan_bytes(struct plan *p, const char *bytes, size_t n)
{
    char *at = p->strings + p->strings_len;
    if (n > PLAN_STRINGS_MAX - p->strings_len) {
        p->overflow = true;
        return "\0";
    }
    memcpy(at, bytes, n);
    p->strings_len += n;
    return at;
}

static const char *const OP_WORDS[] = {
    [OP_TMPFS] = "mount a tmpfs",
    [OP_PROC] = "mount /proc",
    [OP_DEVPTS] = "mount /dev/pts",
    [OP_OVERLAY] = "mount the overlay",
    [OP_CLONE] = "pick up",
    [OP_REFRESH] = "refresh the overlay",
    [OP_KERNEL_FS] = "mount a filesystem of the kernel",
    [OP_SHOW] = "show",
    [OP_HIDE] = "hide entries in",
    [OP_COVER] = "cover",
    [OP_ATTACH] = "mount at",
    [OP_MKDIR] = "make the folder",
    [OP_SYMLINK] = "make the link",
    [OP_FILE] = "make the file",
    [OP_MARK] = "mark a folder of the overlay (user xattrs on a tmpfs)",
    [OP_CHDIR] = "enter the store",
    [OP_PIVOT] = "change the root",
    [OP_NETWORK] = "make the empty network",
    [OP_LISTEN] = "listen for the network proxy",
    [OP_HOSTNAME] = "set the host name",
    [OP_HANDOVER] = "hand the store to the host",
    [OP_RLIMIT] = "set a resource limit",
    [OP_CONFINE] = "drop all privileges",
    [OP_LANDLOCK] = "apply Landlock",
    [OP_SECCOMP] = "install the system call filter",
    [OP_EXEC] = "start the guest",
    [OP_SYSCTL] = "set",
};

void plan_describe(const struct op *op, char *text, size_t size)
{
    const char *path = op->path ? op->path : "";
    snprintf(text, size, "%s%s%s", OP_WORDS[op->kind], *path ? " " : "", path);
}
