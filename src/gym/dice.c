#include "dice.h"
#include "banned.h"

static uint64_t splitmix(uint64_t *at)
{
    uint64_t z = *at += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

void dice_seed(struct dice *d, uint64_t seed)
{
    for (unsigned i = 0; i < 4; i++)
        d->state[i] = splitmix(&seed);
}

static uint64_t rotate(uint64_t x, unsigned by)
{
    return x << by | x >> (64 - by);
}

uint64_t dice_next(struct dice *d)
{
    uint64_t *s = d->state, result = rotate(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

/* What lies above the last whole multiple of n is thrown again. */
uint64_t dice_below(struct dice *d, uint64_t n)
{
    uint64_t rest = -n % n, x;
    do
        x = dice_next(d);
    while (x < rest);
    return x % n;
}

double dice_unit(struct dice *d)
{
    return (double)(dice_next(d) >> 11) * 0x1p-53;
}
