/*
 * The boxes of a Harbor or Terminal-Bench task: what the Dockerfile makes, or an image that has all
 * of it; links that show it where its scripts look for it.
 */
#include <errno.h>
#include <linux/limits.h>
#include <string.h>
#include <sys/stat.h>

#include "import_dockerfile.h"
#include "import_harbor.h"
#include "box_options_parse.h"
#include "banned.h"

/* Where the root filesystem lies: of an image by name, or in a folder, which may have one for each
 * task. */
static int find_image(const char *image, const char *task, char path[PATH_MAX], struct error *err)
{
    char place[2 * PATH_MAX];
    struct stat st;
    if (!strchr(image, '/')) {
        int r = box_image_path(image, place, PATH_MAX, err);
        if (r < 0)
            return r;
    } else {
        snprintf(place, sizeof place, "%.4000s/%s", image, task);
        if (stat(place, &st) < 0 || !S_ISDIR(st.st_mode))
            snprintf(place, sizeof place, "%.4000s", image);
    }
    if (!realpath(place, path) || stat(path, &st) < 0 || !S_ISDIR(st.st_mode))
        return error_set(err, ENOENT, "there is no image '%s'; unpack its root filesystem to %s",
                         image, place);
    return 0;
}

/* The folder at the top that the working folder lies in is the image's, and what the box shows as
 * the workspace. */
static int take_image(struct harbor *h, struct task *t, struct error *err)
{
    char path[PATH_MAX], root[2 * PATH_MAX], top[256];
    struct stat st;
    int r = find_image(h->im->o->image, t->name, path, err);
    if (r < 0)
        return r;
    r = import_text(&t->image, err, "%s", path);
    docker_top(h->workdir, top, sizeof top);
    snprintf(root, sizeof root, "%s/%s", path, top);
    if (r == 0 && lstat(root, &st) == 0 && S_ISDIR(st.st_mode))
        r = import_text(&t->root, err, "%s", root);
    return r;
}

/* What a Dockerfile says and a box does not do is told in one line. */
static void tell_notes(struct harbor *h, const struct task *t, const struct task_list *notes)
{
    char more[64] = "";
    if (notes->count > 1)
        snprintf(more, sizeof more, " (and %zu more such lines)", notes->count - 1);
    if (notes->count > 0)
        import_say(h->im, "%s: Dockerfile, %s%s", t->name, notes->items[0], more);
}

/* Without an image: the files, the folders at the top and the set-up are what the Dockerfile makes.
 */
static int take_parts(struct harbor *h, struct task *t, struct dockerfile *d, struct error *err)
{
    char at[300], to[600];
    if (d->troubles.count > 0)
        return error_set(err, EOPNOTSUPP,
                         "its Dockerfile, %s; give a root filesystem that has all of it (--image)",
                         d->troubles.items[0]);
    tell_notes(h, t, &d->notes);
    for (size_t i = 0; i < d->tops.count; i++) {
        snprintf(at, sizeof at, "/%s", d->tops.items[i]);
        snprintf(to, sizeof to, "/workspace/" DOCKER_TOPS "/%s", d->tops.items[i]);
        if (task_link_add(t, at, to) < 0)
            return task_no_memory(err);
    }
    t->files = d->files;
    d->files = (struct task_tree){0};
    return harbor_setup_script(t, &d->setup, err);
}

/* The variables of the Dockerfile, and then those of task.toml. */
static int take_env(struct harbor *h, struct task *t, const struct dockerfile *d, struct error *err)
{
    const struct task_list *from[] = {&d->env, &h->env};
    for (size_t k = 0; k < ARRAY_SIZE(from); k++)
        for (size_t i = 0; i < from[k]->count; i++)
            if (task_list_add(&t->env, from[k]->items[i]) < 0)
                return task_no_memory(err);
    return 0;
}

static int read_dockerfile(struct harbor *h, struct dockerfile *ret, struct error *err)
{
    const char *name = h->old ? "Dockerfile" : "environment/Dockerfile";
    struct task_tree context = {0};
    _cleanup_buf_ struct buf b = BUF_INIT(HARBOR_TEXT_MAX);
    bool there = harbor_has(h, name);
    if (!there && h->docker_image[0] && !h->im->o->image)
        return error_set(err, EOPNOTSUPP,
                         "it has no Dockerfile; give the root filesystem of %s (--image)",
                         h->docker_image);
    int r = there ? harbor_read(h, name, &b, err) : 0;
    if (r == 0)
        r = h->old ? task_tree_read(&context, h->folder, "", err)
                   : task_read_part(&context, h->folder, "environment", "", err);
    if (r == 0)
        r = dockerfile_read((const char *)b.data, b.len, &context, h->workdir, ret, err);
    task_tree_free(&context);
    return r;
}

static int take_dockerfile(struct harbor *h, struct task *t, struct error *err)
{
    struct dockerfile d = {0};
    int r = read_dockerfile(h, &d, err);
    if (r < 0)
        return r;
    snprintf(h->workdir, sizeof h->workdir, "%s", d.workdir);
    r = h->im->o->image ? take_image(h, t, err) : take_parts(h, t, &d, err);
    if (r == 0)
        r = take_env(h, t, &d, err);
    dockerfile_free(&d);
    return r;
}

/* Scripts have it between words. */
static bool is_plain(const char *path)
{
    return path[strspn(path,
                       "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./-")] == 0;
}

static int take_links(struct harbor *h, struct task *t, struct error *err)
{
    char top[256], at[300];
    int r = 0;
    if (!h->workdir[0])
        return error_set(err, EOPNOTSUPP, "its working folder is the whole root filesystem");
    docker_top(h->workdir, top, sizeof top);
    if (!is_plain(h->workdir))
        return error_set(err, EINVAL, "its working folder %s has an unusual name", h->workdir);
    if (strcmp(top, "workspace") != 0 && !docker_top_free(top))
        return error_set(err, EOPNOTSUPP,
                         "its working folder %s lies where boxes have something else", h->workdir);
    snprintf(at, sizeof at, "/%s", top);
    if (strcmp(top, "workspace") != 0)
        r = task_link_add(t, at, "/workspace");
    if (r == 0)
        r = task_link_add(t, "/tests", "/workspace/" HARBOR_TESTS);
    if (r == 0)
        r = task_link_add(t, "/solution", "/workspace/" HARBOR_SOLUTION);
    if (r == 0)
        r = task_link_add(t, "/logs", HARBOR_LOGS);
    if (r < 0)
        return task_no_memory(err);
    return strchr(h->workdir + 1, '/')
               ? import_text(&t->instruction, err, "%s\n\nThe working folder is %s.",
                             t->instruction, h->workdir)
               : 0;
}

int harbor_environment(struct harbor *h, struct task *t, struct error *err)
{
    int r = take_dockerfile(h, t, err);
    return r == 0 ? take_links(h, t, err) : r;
}
