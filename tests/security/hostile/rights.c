/*
 * Says which rights this process has. Planted by a test with a set-user-id bit or file
 * capabilities, which must give it nothing; run plainly it shows that nothing was there to begin
 * with.
 *
 *     rights UID     the user it should be
 */
#include <linux/capability.h>
#include <linux/securebits.h>

#include "hostile.h"

static unsigned long status_hex(const char *key)
{
    FILE *f = fopen("/proc/self/status", "r");
    char line[256];
    unsigned long value = ~0UL;

    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, key, strlen(key)))
            value = strtoul(line + strlen(key) + 1, NULL, 16);
    if (f)
        fclose(f);
    return value;
}

int main(int argc, char **argv)
{
    static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    uid_t r, e, s, want = atoi(argv[1]);

    getresuid(&r, &e, &s);
    printf("NOTE uids %u %u %u\n", r, e, s);
    if (r != want || e != want || s != want)
        breach("became user %u/%u/%u", r, e, s);
    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++)
        if (status_hex(sets[i]) != 0)
            breach("holds %s %lx", sets[i], status_hex(sets[i]));
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        breach("no_new_privs is not set");
    if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) != 2)
        breach("no seccomp filter is set");
    attempt(setuid(0), "setuid 0");
    attempt(setgid(0), "setgid 0");
    return verdict();
}
