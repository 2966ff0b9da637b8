/* Archives of users: whatever the bytes are, nothing is written outside of the folder, no member is
 * more than a file, a folder or a link, and the limits hold. The first byte chooses tar or zip. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compose.h"
#include "git.h"
#include "io.h"
#include "job_files.h"
#include "banned.h"

#define BYTES_MAX   (1u << 20)
#define MEMBERS_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static uint64_t members, bytes;

static int member_check(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    require(S_ISREG(st->st_mode) || S_ISDIR(st->st_mode) || S_ISLNK(st->st_mode));
    require(!(st->st_mode & (S_ISUID | S_ISGID)) || S_ISDIR(st->st_mode));
    members++;
    bytes += S_ISREG(st->st_mode) ? (uint64_t)st->st_blocks * 512 : 0;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static char outer[] = "/tmp/hutch-fuzz-XXXXXX";
    static bool made;
    const struct archive_limits limits = {.members = MEMBERS_MAX, .bytes = BYTES_MAX, .ratio = 10};
    char path[128];
    struct error err = {0};
    if (n < 1)
        return 0;
    if (!made)
        require(mkdtemp(outer) != NULL);
    made = true;
    snprintf(path, sizeof path, "%s/in", outer);
    require(mkdir(path, 0700) == 0);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
        fd = io_memory_file(data + 1, n - 1);
    require(folder >= 0 && fd >= 0);
    int r = archive_unpack(fd, data[0] & 1, folder, &limits, -1, &err);
    require(r == 0 || (r == -err.code && err.text[0] && !strchr(err.text, '\n')));
    close(fd);
    close(folder);
    members = bytes = 0;
    nftw(path, member_check, 16, FTW_PHYS);
    require(bytes <= BYTES_MAX + 4096 * (MEMBERS_MAX + 1));
    git_remove_tree(path);
    require(rmdir(outer) == 0 && mkdir(outer, 0700) == 0); /* nothing else was left in it */
    return 0;
}
