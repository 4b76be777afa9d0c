/* The parts of the client: options.c reads what is asked, reply.c follows an answer through any framing, report.c keeps
 * and prints what was found, load.c asks and is the program. */
#ifndef LOAD_H
#define LOAD_H

#define _GNU_SOURCE
#include "bench.h"

#define MOST_KEYS 64
#define MOST_LEFT 1000
#define LARGEST_HEAD 16384

struct dialect {
    const char *name, *path, *before, *after, *headers;
};

struct samples {
    int64_t *values;
    size_t count, room;
};

enum part { HEAD, LENGTH, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, UNTIL_CLOSE, WHOLE };

struct connection {
    int fd;
    bool busy, waits_write;
    struct buffer request;
    size_t nonce_at, sent;
    /* the answer */
    enum part part;
    int status;
    bool closes, measured;
    uint64_t left; /* bytes of the body, or of the chunk */
    size_t line;   /* bytes of the chunk-size or trailer line */
    char head[LARGEST_HEAD];
    size_t head_size;
    char said[201]; /* the beginning of the body, for messages */
    size_t said_size;
    char carry[MARKER_SIZE];
    size_t carried;
    int64_t begun;
    long events;
    bool crossed;
};

/* options.c */
struct options {
    const char *to, *model, *set;
    const struct dialect *dialect;
    long connections, requests, warm, tokens, interval_us, delay_us, event_bytes, pad, spread_us, skip_events;
    long leave_after_us;
    double seconds, limit;
    bool stream;
    char keys[MOST_KEYS][512];
    int key_count;
};

extern struct options asked;
void read_options(int count, char **words);

/* reply.c */
const char *take(struct connection *connection, const char *data, const char *end, int64_t now);
const char *nonce_of(const struct connection *connection);

/* report.c */
struct tally {
    struct samples latency, first_event, event_delay;
    long begun, ended, good, events_seen, busy, measured_ended;
    long errors_connect, errors_status, errors_cut, errors_wrong, errors_total;
    char first_error[512];
    int64_t measured_from, last_end;
    struct { char serial[SERIAL_DIGITS + 1]; int64_t at; } left_at[MOST_LEFT];
    long left_count;
    bool given_up; /* after too many errors */
};

extern struct tally tally;
void add(struct samples *samples, int64_t value);
void note_error(long *kind, const char *format, ...) __attribute__((format(printf, 2, 3)));
void note_leaving(const char *serial);
void report(int64_t until, bool in_time);

#endif
