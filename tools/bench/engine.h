/* The parts of the engine: clients.c holds connections and when their answers are due, answers.c writes answers and
 * counts them, engine.c reads requests and is the program. */
#ifndef ENGINE_H
#define ENGINE_H

#define _GNU_SOURCE
#include "bench.h"

#define FULL (256u << 10) /* unsent bytes at which generation waits for the client */
#define KEPT_CANCELS 1000

/* Everything about one run of the client. */
struct set {
    char name[SET_DIGITS + 1];
    long requests, finished, events, prompt_tokens, completion_tokens, cancelled;
    struct { char serial[SERIAL_DIGITS + 1]; int64_t at; } cancels[KEPT_CANCELS];
    struct set *older;
};

struct client {
    int fd;
    bool tcp, dead, watches_write;
    struct buffer in, out;
    size_t heap_place; /* 0 = no answer is due */
    struct client *next_dead;
    /* the answer under way */
    bool answering, begun, streams, counts_usage;
    long tokens, left;
    int64_t due, interval;
    size_t fill;
    char nonce[NONCE_DIGITS + 1];
    struct set *set;
};

struct listener {
    int fd;
    bool tcp;
};

/* clients.c */
extern int poller; /* the one epoll descriptor */
void schedule(struct client *client);
void unschedule(struct client *client);
struct client *next_due(void);
void accept_all(const struct listener *listener);
void flush(struct client *client);
void drop(struct client *client);
void free_dead(void);

/* answers.c */
void say(struct client *client, int status, const char *reason, const char *json);
void refuse(struct client *client, int status, const char *reason);
void say_stats(struct client *client, const char *name);
void begin_answer(struct client *client, const char *body, size_t size);
void go_on(struct client *client);

#endif
