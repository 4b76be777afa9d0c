/* What the engine and the load client share: the clock, growing buffers, the end on an error, and the marker.
 *
 * The marker ties an answer to its request. It stands in the text of every event:
 *
 *     @<set: 8 hex digits><serial: 8 hex digits>.<CLOCK_MONOTONIC nanoseconds of the write: 19 digits>;
 *
 * The set names one run, the serial one request of it. Text survives every translation between dialects, so the
 * client can check each event and measure its way through any gateway.
 */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define SET_DIGITS 8
#define SERIAL_DIGITS 8
#define NONCE_DIGITS (SET_DIGITS + SERIAL_DIGITS)
#define CLOCK_DIGITS 19
#define MARKER_SIZE (1 + NONCE_DIGITS + 1 + CLOCK_DIGITS + 1)

/* How a prompt tells the engine what to answer; the nonce first. */
#define ORDER_START "[bench "
#define ORDER_FORMAT " tokens=%ld interval_us=%ld delay_us=%ld bytes=%ld]"

struct buffer {
    char *data;
    size_t start, end, room;
};

__attribute__((noreturn, format(printf, 1, 2)))
static inline void die(const char *format, ...)
{
    va_list words;
    va_start(words, format);
    vfprintf(stderr, format, words);
    va_end(words);
    fputc('\n', stderr);
    exit(1);
}

static inline int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline void *must_have(void *memory)
{
    if (memory == NULL)
        die("out of memory");
    return memory;
}

static inline size_t held(const struct buffer *buffer)
{
    return buffer->end - buffer->start;
}

/* Room for `size` more bytes, and for a closing zero; the place where they go. */
static inline char *make_room(struct buffer *buffer, size_t size)
{
    if (buffer->start > 0) {
        memmove(buffer->data, buffer->data + buffer->start, held(buffer));
        buffer->end -= buffer->start;
        buffer->start = 0;
    }
    if (buffer->room < buffer->end + size + 1) {
        buffer->room = 2 * (buffer->end + size + 1);
        buffer->data = must_have(realloc(buffer->data, buffer->room));
    }
    return buffer->data + buffer->end;
}

static inline void append(struct buffer *buffer, const void *data, size_t size)
{
    memcpy(make_room(buffer, size), data, size);
    buffer->end += size;
}

static inline void consume(struct buffer *buffer, size_t size)
{
    buffer->start += size;
    if (buffer->start == buffer->end)
        buffer->start = buffer->end = 0;
}

/* As many descriptors as the system lets us have. */
static inline void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The value of a header in a head that ends with a zero, or NULL; `name` as "\r\nname:". */
static inline const char *header(const char *head, const char *name)
{
    const char *found = strcasestr(head, name);
    return found ? found + strlen(name) + strspn(found + strlen(name), " \t") : NULL;
}

#endif
