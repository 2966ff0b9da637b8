/* One answer of a recording, from JSON in its short or its full form to a reply. Pure. */
#pragma once

#include "model.h"

/* `number` (from 1) names what has no id of its own. 0, or -EINVAL with the place ("content[2].id:
 * …"). */
int replay_answer(const json_t *said, size_t number, struct model_reply *ret, struct error *err);
