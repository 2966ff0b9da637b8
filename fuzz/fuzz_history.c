/*
 * The history loader on any bytes: what it takes for a message is one to jansson, too; a whole
 * valid document is read whole; and what was repaired once needs no repair again.
 */
#include <assert.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "history_file.h"
#include "memory_db.h"
#include "banned.h"

static char home[64], folder[96], path[128]; /* the data folder, the histories in it, the file */

static size_t messages_of(const uint8_t *data, size_t n)
{
    json_t *whole =
               json_loadb((const char *)data, n, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL),
           *message;
    const json_t *messages = json_object_get(whole, "messages");
    size_t i, count = 0;
    bool all = json_is_array(messages);
    json_array_foreach(messages, i, message)
    {
        const char *role = json_string_value(json_object_get(message, "role"));
        all &= role && json_string_length(json_object_get(message, "role")) == strlen(role) &&
               (strcmp(role, "user") == 0 || strcmp(role, "assistant") == 0 ||
                strcmp(role, "hutch") == 0);
        count++;
    }
    json_decref(whole);
    return all ? count : SIZE_MAX;
}

static void check_readable(struct history *h)
{
    for (size_t i = 0; i < history_count(h); i++) {
        json_t *message = NULL;
        _cleanup_buf_ struct buf text = BUF_INIT(1 << 20);
        assert(history_read(h, i, &message, NULL) == 0 && json_is_object(message));
        for (size_t part = 0; part < 8; part++) {
            struct memory_part p;
            if (memory_part(message, part, &p, &text) < 0)
                break;
        }
        json_decref(message);
    }
}

static void check_loader(const uint8_t *data, size_t n)
{
    struct history *h = NULL;
    FILE *f = fopen(path, "w");
    assert(f && fwrite(data, 1, n, f) == n);
    fclose(f);
    size_t wanted = messages_of(data, n);
    int r = history_open(NULL, "x", true, &h, NULL, NULL);
    size_t count = r == 0 ? history_count(h) : 0;
    if (wanted != SIZE_MAX && r != -EPROTONOSUPPORT)
        assert(r == 0 && count == wanted && !history_trouble(h));
    if (r < 0)
        return;
    check_readable(h);
    history_close(h);
    bool repaired = false;
    assert(history_open(NULL, "x", false, &h, NULL, NULL) == 0 && history_count(h) == count);
    json_t *message = json_pack("{s:s, s:i}", "role", "user", "turn", 1);
    assert(history_append(h, message, NULL) == 0);
    json_decref(message);
    check_readable(h);
    history_close(h);
    assert(history_open(NULL, "x", false, &h, &repaired, NULL) == 0 && !repaired &&
           history_count(h) == count + 1);
    history_close(h);
}

static void tidy(void)
{
    static const char *const ends[] = {".json", ".json.kept"};
    for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
        char name[160];
        snprintf(name, sizeof name, "%s/x%s", folder, ends[i]);
        unlink(name);
    }
}

static void tidy_all(void)
{
    tidy();
    rmdir(folder);
    *strrchr(folder, '/') = 0;
    rmdir(folder);
    rmdir(home);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!home[0]) {
        int fd;
        snprintf(home, sizeof home, "/dev/shm/fuzz-history-XXXXXX");
        assert(mkdtemp(home) && setenv("XDG_DATA_HOME", home, 1) == 0 &&
               history_folder(NULL, &fd, NULL) == 0);
        close(fd);
        snprintf(folder, sizeof folder, "%s/hutch/history", home);
        snprintf(path, sizeof path, "%s/x.json", folder);
        atexit(tidy_all);
    }
    check_loader(data, n);
    tidy();
    return 0;
}
