/* What warm.c asks of the backend: the warm process itself, and the way into a box for its
 * children. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "buf.h"
#include "io.h"
#include "parts.h"
#include "place.h"
#include "warm_part/part.h"
#include "warm_start.h"
#include "weaken.h"
#include "banned.h"

static int put_rules(struct buf *b, const struct place *p, const struct plan *plan)
{
    int nested = weakened("caps") ? 0 : CLONE_NEWUSER;
    struct warm_rules head = {
        .namespaces = (uint32_t)((place_namespaces(p->layout.net) & ~CLONE_NEWPID) | nested),
        .landlock = layout_landlock_flags(&p->layout),
        .on_disk = p->disk != NULL,
        .n_rules = (uint32_t)plan->n_rules};
    buf_append(b, &head, sizeof head);
    for (size_t i = 0; i < plan->n_rules; i++) {
        char class = (char)(plan->rules[i].class + 1); /* never a NUL */
        buf_append(b, &class, 1);
        buf_append(b, plan->rules[i].path, strlen(plan->rules[i].path) + 1);
    }
    return b->failed || plan->overflow || plan->n_rules > WARM_RULES_MAX ? -E2BIG : 0;
}

/* The rules that a child of the warm process is put under are those of the plan for any fork of the
 * place. */
static int write_rules(const struct place *p, int *ret_fd)
{
    _cleanup_(plan_free) struct plan plan;
    _cleanup_buf_ struct buf b = BUF_INIT(WARM_RULES_BYTES);
    if (plan_init(&plan) < 0)
        return -ENOMEM;
    layout_landlock_rules(&plan, &p->layout);
    int r = put_rules(&b, p, &plan);
    _cleanup_fd_ int fd = r == 0 ? memfd_create("hutch-warm-rules", MFD_CLOEXEC) : -1;
    if (r == 0 && (fd < 0 || pwrite(fd, b.data, b.len, 0) != (ssize_t)b.len))
        r = -errno;
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}

int ns_warm(struct place *p, const struct backend_warm *w, pid_t *ret_pid, struct error *err)
{
    char path[PARTS_PATH_MAX];
    if (!p->layout.warm)
        return error_set(err, EINVAL,
                         "these boxes were not opened to be entered by a warm process");
    if (p->mntns < 0)
        return error_set(err, EINVAL, "the mounts of these boxes are not there any more");
    if (weakened("pid"))
        return error_set(err, EOPNOTSUPP, "a box without a pid namespace cannot be entered");
    int r = parts_find("hutch-warm.so", path, err);
    if (r < 0)
        return r;
    _cleanup_fd_ int part = open(path, O_RDONLY | O_CLOEXEC);
    if (part < 0)
        return error_errno(err, errno, "cannot open %s", path);
    _cleanup_fd_ int rules = -1;
    if ((r = write_rules(p, &rules)) < 0)
        return error_errno(err, -r, "the warm process did not start");
    struct warm_start s = {.userns = p->userns,
                           .mntns = p->mntns,
                           .namespaces = place_namespaces(p->layout.net),
                           .part = part,
                           .rules = rules,
                           .control = w->control,
                           .voice = w->voice,
                           .program = w->program,
                           .setup = w->setup,
                           .env = w->env};
    return warm_start(&s, ret_pid, err);
}

int ns_entrance(struct place *p, struct entrance *ret)
{
    ret->process = p->guest.pidfd;
    return cgroup_entrance(p->cgroup, ret);
}

/* Namespaces are the same if their files are. */
bool ns_related(const struct place *a, const struct place *b)
{
    struct stat one, two;
    return fstat(a->userns, &one) == 0 && fstat(b->userns, &two) == 0 && one.st_dev == two.st_dev &&
           one.st_ino == two.st_ino;
}
