/* Another wall clock: for the process it is SHIFT_S seconds later, or earlier, than it is. Clocks that count on from
 * the machine's start are left alone, and so is what SQLite reads: it is the database there, and has the machine's time.
 *
 *     cc -shared -fPIC -O2 -o shift.so shift.c -ldl
 *     LD_PRELOAD=./shift.so SHIFT_S=3600 program
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static time_t shift_for(const void *caller)
{
    const char *seconds = getenv("SHIFT_S");
    Dl_info from;
    if (seconds == NULL || (dladdr(caller, &from) && from.dli_fname && strstr(from.dli_fname, "sqlite3")))
        return 0;
    return (time_t)atol(seconds);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (real == NULL)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(clock, now);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += shift_for(__builtin_return_address(0));
    return result;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    static int (*real)(struct timeval *, void *);
    if (real == NULL)
        real = (int (*)(struct timeval *, void *))dlsym(RTLD_NEXT, "gettimeofday");
    int result = real(now, zone);
    if (result == 0)
        now->tv_sec += shift_for(__builtin_return_address(0));
    return result;
}

time_t time(time_t *now)
{
    static time_t (*real)(time_t *);
    if (real == NULL)
        real = (time_t (*)(time_t *))dlsym(RTLD_NEXT, "time");
    time_t moment = real(NULL) + shift_for(__builtin_return_address(0));
    if (now != NULL)
        *now = moment;
    return moment;
}
