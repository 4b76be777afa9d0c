/* To be preloaded: what asks for the date gets that of the machine plus so many seconds, and CLOCK_MONOTONIC likewise
 * with others. Both stand in the file TURNED_CLOCK, 8 bytes each, and may change at any time. Sleeping and files are
 * left alone: so a real clock is set. libfaketime deceives sleepers too, and cannot be kept from it. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile struct { int64_t date, monotonic; } *seconds;

__attribute__((constructor)) static void look(void)
{
    const char *path = getenv("TURNED_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *page = mmap(NULL, sizeof *seconds, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED)
        seconds = page;
}

int clock_gettime(clockid_t which, struct timespec *now)
{
    int failed = syscall(SYS_clock_gettime, which, now);
    if (!failed && seconds && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE))
        now->tv_sec += seconds->date;
    if (!failed && seconds && which == CLOCK_MONOTONIC)
        now->tv_sec += seconds->monotonic;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return -1;
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}
