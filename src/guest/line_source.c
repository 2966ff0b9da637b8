#include <errno.h>
#include <unistd.h>

#include "line_source.h"
#include "banned.h"

static ssize_t in_memory(const struct line_source *s, uint64_t offset, const uint8_t **ret)
{
    if (offset >= s->size)
        return 0;
    *ret = s->text + offset;
    return (ssize_t)(s->size - offset);
}

ssize_t line_source_at(struct line_source *s, uint64_t offset, const uint8_t **ret)
{
    if (s->fd < 0)
        return in_memory(s, offset, ret);
    if (offset < s->at || offset >= s->at + s->len) {
        ssize_t n;
        do
            n = pread(s->fd, s->block, LINE_SOURCE_BLOCK, (off_t)offset);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            return -errno;
        s->at = offset;
        s->len = (size_t)n;
    }
    *ret = s->block + (offset - s->at);
    return (ssize_t)(s->at + s->len - offset);
}
