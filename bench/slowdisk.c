/* A slower disk: each flush of a file takes at least FSYNC_MS milliseconds (1 if it is not set).
 *
 *     cc -shared -fPIC -O2 -o slowdisk.so slowdisk.c -ldl
 *     LD_PRELOAD=./slowdisk.so FSYNC_MS=1 program
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void at_least(const struct timespec *began)
{
    const char *ms = getenv("FSYNC_MS");
    struct timespec until = *began;
    until.tv_nsec += 1000000L * (ms ? atol(ms) : 1);
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    /* Interrupted by a signal it begins again with the same end, since that is absolute. */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) != 0)
        ;
}

static int flush(const char *name, int file)
{
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    int result = real(file);
    at_least(&began);
    return result;
}

int fsync(int file)
{
    return flush("fsync", file);
}

int fdatasync(int file)
{
    return flush("fdatasync", file);
}
