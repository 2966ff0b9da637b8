#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "exec_result.h"
#include "output.h"
#include "result.h"
#include "banned.h"

int result_print(const struct box_result *r, const struct box_changes *changes, struct error *err)
{
    static const struct box_changes none;
    json_t *object = exec_result_json(r, changes ? changes : &none);
    char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
    json_decref(object);
    if (!text)
        return error_set(err, ENOMEM, "no memory for the result");
    size_t n = strlen(text);
    text[n] = '\n'; /* in place of the NUL: the text is not used as a string any more */
    output_write(text, n + 1);
    free(text);
    return 0;
}
