/* SPDX-License-Identifier: Apache-2.0
 *
 * spark.c: the last rates of each function.
 * Owns the rates. One thread.
 * Keeps: a function that was not seen for some looks has zeros there. */
#include "spark.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

struct spark {
    char name[LOOK_NAME];
    uint32_t uid;
    double rates[SPARK_LOOKS]; /* the newest last */
};

static struct spark *find(const struct sparks *s, const struct look_function *f)
{
    struct spark *all = LOOK_AT(s->of, struct spark);

    for (size_t i = 0; i < LOOK_N(s->of, struct spark); i++)
        if (all[i].uid == f->uid && strcmp(all[i].name, f->name) == 0)
            return &all[i];
    return NULL;
}

int sparks_note(struct sparks *s, const struct look *before, const struct look *now)
{
    const struct look_function *f = LOOK_AT(now->functions, struct look_function);
    struct spark *all = LOOK_AT(s->of, struct spark);

    for (size_t i = 0; i < LOOK_N(s->of, struct spark); i++) {
        memmove(all[i].rates, all[i].rates + 1, sizeof(all[i].rates) - sizeof(all[i].rates[0]));
        all[i].rates[SPARK_LOOKS - 1] = 0;
    }
    for (size_t i = 0; i < LOOK_N(now->functions, struct look_function); i++) {
        struct spark fresh = {.uid = f[i].uid};

        memcpy(fresh.name, f[i].name, sizeof(fresh.name));
        if (!find(s, &f[i]) && buffer_put(&s->of, &fresh, sizeof(fresh)) < 0)
            return -ENOMEM;
        find(s, &f[i])->rates[SPARK_LOOKS - 1] = look_function_rate(before, now, &f[i]);
    }
    return 0;
}

void sparks_text(const struct sparks *s, const struct look_function *f, char ret[static SPARK_LOOKS + 1])
{
    static const char heights[] = " .:-=+*#";
    const struct spark *spark = find(s, f);
    double most = 0;

    for (size_t i = 0; spark && i < SPARK_LOOKS; i++)
        most = MAX(most, spark->rates[i]);
    for (size_t i = 0; i < SPARK_LOOKS; i++) {
        double part = most > 0 ? spark->rates[i] / most : 0;

        ret[i] = heights[(size_t)(part * (double)(sizeof(heights) - 2) + (part > 0 ? 0.999 : 0))];
    }
    ret[SPARK_LOOKS] = 0;
}

void sparks_deinit(struct sparks *s)
{
    buffer_deinit(&s->of);
}
