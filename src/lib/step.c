#include <errno.h>
#include <stdlib.h>

#include "json_text.h"
#include "lib_gym.h"
#include "banned.h"

void step_texts_free(struct step_texts *t)
{
    free(t->observation);
    free(t->info);
    free(t->features);
    *t = (struct step_texts){0};
}

static int make_texts(const struct gym_step *s, const struct gym_env *e, size_t n_features,
                      struct step_texts *ret, struct error *err)
{
    int r = json_give(s->observation ? json_incref(s->observation) : json_null(), &ret->observation,
                      err);
    if (r == 0)
        r = json_give(s->info ? json_incref(s->info) : json_object(), &ret->info, err);
    ret->features = calloc(n_features + 1, sizeof *ret->features);
    if (r == 0 && !ret->features)
        r = error_set(err, ENOMEM, "no memory for the result");
    if (r == 0)
        env_features(e, ret->features, n_features);
    return r;
}

int step_show(const struct gym_step *s, const struct gym_env *e, struct step_texts *texts,
              struct hutch_step *ret, struct error *err)
{
    size_t n_features = task_features(env_task(e));
    struct gym_episode episode;
    step_texts_free(texts);
    int r = make_texts(s, e, n_features, texts, err);
    if (r < 0) {
        step_texts_free(texts);
        return r;
    }
    env_episode(e, &episode);
    *ret = (struct hutch_step){.number = s->number,
                               .reward = s->reward,
                               .pass_rate = s->pass_rate,
                               .seconds = s->seconds,
                               .episode_return = episode.total,
                               .terminated = s->terminated,
                               .truncated = s->truncated,
                               .observation = texts->observation,
                               .info = texts->info,
                               .features = texts->features,
                               .n_features = n_features};
    return 0;
}
