/* Submissions of jobs: whatever the JSON, the answer is the stored form or an error; and the stored
 * form is one that is accepted again and stays as it is, but for a title that is cut. */
#include <string.h>

#include "compose.h"
#include "job_spec.h"
#include "json.h"
#include "banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    json_t *body = n ? json_loadb((const char *)data + 1, n - 1, JSON_DECODE_ANY, NULL) : NULL;
    const char *kind = NULL, *again = NULL;
    struct error err = {0};
    json_t *spec = NULL, *same = NULL;
    bool admin = n && data[0] & 1;
    if (body && job_spec_check(body, admin, &spec, &kind, &err) == 0) {
        require(json_is_object(spec) &&
                strcmp(kind, json_object_get(spec, "goal") ? "goal" : "steps") == 0);
        require(json_get_string(spec, "title") != NULL);
        require(job_spec_check(spec, admin, &same, &again, &err) == 0 && strcmp(kind, again) == 0);
        json_object_del(spec, "title");
        json_object_del(same, "title");
        require(json_equal(spec, same));
    } else if (body) {
        require(!spec && err.code && err.text[0]);
    }
    json_decref(body);
    json_decref(spec);
    json_decref(same);
    return 0;
}
