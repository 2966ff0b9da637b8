/*
 * What a job begins with: its workspace, as a folder of the worker that no box has used, its box's
 * options, and the memory of an earlier job.
 *
 * An archive is unpacked on the host (archive.c), a git URL is cloned there (git.h): so the box's
 * changes, its diff and its checkpoints are relative to what the user gave. The commit that a branch
 * named at first is stored with the job, for attempts after this one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "box_files.h"
#include "git.h"
#include "io.h"
#include "job_files.h"
#include "json.h"
#include "banned.h"

#define GIT_MAX (2ull << 30)

static int workspace_unpack(struct worker *w, const struct job_lease *l, int folder, bool *ret_any,
                            struct error *err)
{
    _cleanup_fd_ int file = -1;
    char type[32] = "";
    int r = server_get(w, l, "workspace", &file, type, err);
    if (r < 0 || file < 0) {
        *ret_any = false;
        return r;
    }
    *ret_any = true;
    return archive_unpack(file, strstr(type, "zip") && !strstr(type, "gzip"), folder,
                          &ARCHIVE_LIMITS, l->cancel, err);
}

static int workspace_clone(struct worker *w, struct job_lease *l, const json_t *workspace,
                           const char *folder, struct error *err)
{
    const char *commit = json_get_string(l->resume, "commit");
    char cloned[GIT_ID_SIZE] = "";
    const struct git_clone_options o = {.url = json_get_string(workspace, "git"),
                                        .ref = commit ? commit : json_get_string(workspace, "ref"),
                                        .depth = 1,
                                        .max = GIT_MAX,
                                        .cancel = l->cancel};
    int r = git_clone_folder(&o, folder, cloned, err);
    if (r < 0 || commit)
        return r;
    if (!l->resume)
        l->resume = json_object();
    if (json_object_set_new(l->resume, "commit", json_string(cloned)) < 0)
        return error_set(err, ENOMEM, "no memory");
    return server_post(w, l, "resume", json_pack("{s:O}", "resume", l->resume), NULL, err);
}

int workspace_prepare(struct worker *w, struct job_lease *l, char **ret_path, struct error *err)
{
    const json_t *workspace = json_object_get(l->spec, "workspace");
    bool any = true;
    if (!json_is_object(workspace)) {
        *ret_path = NULL;
        return 0;
    }
    _cleanup_free_ char *path = str_printf("%s/workspace", l->folder);
    if (!path)
        return error_set(err, ENOMEM, "no memory");
    if (mkdir(path, 0700) < 0)
        return error_errno(err, errno, "cannot create the folder %s", path);
    _cleanup_fd_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = folder < 0 ? error_errno(err, errno, "cannot open the folder %s", path)
            : json_get_string(workspace, "git") ? workspace_clone(w, l, workspace, path, err)
                                                : workspace_unpack(w, l, folder, &any, err);
    if (r < 0)
        return error_wrap(err, "cannot prepare the workspace");
    *ret_path = any ? TAKE_PTR(path) : NULL;
    return 0;
}

static int box_spec_set_env(struct box_spec *spec, const json_t *env, struct error *err)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)env, name, value)
    {
        const char *text = json_string_value(value);
        const char *pair = text ? box_spec_keep(spec, str_printf("%s=%s", name, text)) : NULL;
        int r = pair ? box_spec_set(spec, "env", pair, err)
                     : error_set(err, EINVAL, "box.env: too many variables");
        if (r < 0)
            return r;
    }
    return 0;
}

int job_box_spec(const struct job_lease *l, const char *workspace, bool agent, struct box_spec *ret,
                 struct error *err)
{
    /* The options that do not name files of this host. */
    static const char *const NAMES[] = {"net",  "memory",  "disk",     "pids", "files",
                                        "cpus", "timeout", "cpu_time", "image"};
    const json_t *box = json_object_get(l->spec, "box");
    int r = 0;
    box_spec_init(ret, "");
    if (agent)
        box_options_agent(&ret->box);
    ret->empty = !workspace;
    ret->box.workspace = workspace;
    ret->box.hide_path = true;
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(NAMES); i++) {
        const char *value = json_get_string(box, NAMES[i]);
        r = value ? box_spec_set(ret, NAMES[i], value, err) : 0;
    }
    if (r == 0)
        r = box_spec_set_env(ret, json_object_get(box, "env"), err);
    return r == 0 ? box_spec_resolve(ret, err) : r;
}

int memory_install(struct job *j, struct box *b, struct error *err)
{
    _cleanup_fd_ int file = -1;
    char type[32];
    int r = server_get(j->worker, &j->lease, "memory", &file, type, err);
    return r < 0 || file < 0 ? r : box_script(b, "cat >" MEMORY_PATH, file, j->lease.cancel, err);
}
