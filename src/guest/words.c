#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"
#include "banned.h"

void words_free(struct words *s)
{
    if (s->list)
        free(s->list - 1);
    *s = (struct words){0};
}

int words_collect(const struct wire_frame *f, uint16_t key, struct words *ret)
{
    struct wire_field field;
    size_t count = 0, bytes = 0;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            if (memchr(field.data, 0, field.size))
                return -EINVAL;
            count++;
            bytes += field.size + 1;
        }
    /* The free slot, the list, its end, then the bytes: one block, of a size that the frame's
     * bounds. */
    char **list = malloc((count + 2) * sizeof *list + bytes);
    if (!list)
        return -ENOMEM;
    char *text = (char *)(list + count + 2);
    *list++ = NULL;
    size_t i = 0;
    for (size_t at = 0; wire_next(f, &at, &field);)
        if (field.key == key) {
            list[i++] = text;
            text = mempcpy(text, field.data, field.size);
            *text++ = 0;
        }
    list[i] = NULL;
    *ret = (struct words){.list = list, .count = count};
    return 0;
}
