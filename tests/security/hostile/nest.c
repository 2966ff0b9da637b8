/*
 * Makes folders inside folders, deeper than any path may name, with a file at the bottom.
 *
 *     nest DEPTH
 */
#include "hostile.h"

int main(int argc, char **argv)
{
    int depth = atoi(argv[1]), i;

    for (i = 0; i < depth; i++)
        if (mkdir("d", 0755) < 0 || chdir("d") < 0)
            break;
    printf("MADE %d (%s)\n", i, strerrorname_np(errno));
    close(open("bottom", O_WRONLY | O_CREAT, 0644));
    return verdict();
}
