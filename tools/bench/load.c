/* The client: many connections on one thread, each asks, reads its answer to the end, checks it, and asks again.
 *
 * Every prompt carries a nonce of its own, and every event of the answer has to carry the same one (bench.h): an
 * answer that got lost, cut or crossed is an error. Prints one JSON object; all times are in microseconds.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <getopt.h>
#include <math.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define MOST_KEYS 64
#define MOST_LEFT 1000
#define LARGEST_HEAD 16384
#define TOO_MANY_ERRORS 100
#define BATCH 512
#define SETTLE_US 100000 /* after dialling, for the server to accept */

static const char usage[] =
    "load --to HOST:PORT|PATH --set HEX8 [options]\n"
    "  --dialect NAME       openai, ollama or anthropic (openai)\n"
    "  --model NAME         model to ask for (bench)\n"
    "  --keys FILE          API keys, one a line; connections take them in turn\n"
    "  --connections N      open connections, each with one request at a time (1)\n"
    "  --requests N         requests in all; or\n"
    "  --seconds S          how long new ones are begun\n"
    "  --warm N             first requests that are not measured (0)\n"
    "  --stream             ask for streams\n"
    "  --tokens N           tokens, and events of a stream (16)\n"
    "  --interval-us N      pause between two events\n"
    "  --delay-us N         pause before the answer\n"
    "  --event-bytes N      bytes of an event\n"
    "  --pad N              bytes added to the prompt\n"
    "  --spread-us N        time between the first requests of two connections; 0 = all at once\n"
    "  --skip-events N      first events of each stream whose delay is not measured (0)\n"
    "  --leave-after-us N   leave each request after this long, without waiting for its answer\n"
    "  --limit S            seconds after which all is given up (60)\n";

struct dialect {
    const char *name, *path, *before, *after, *headers;
};

/* `before` and `after` stand around the prompt; %s is the model, then `stream`. */
static const struct dialect dialects[] = {
    {"openai", "/v1/chat/completions", "{\"model\":\"%s\",\"stream\":%s,\"max_tokens\":1024,\"temperature\":0.7,"
     "\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"},{\"role\":\"user\",\"content\":\"",
     "\"}]}", ""},
    {"ollama", "/api/chat", "{\"model\":\"%s\",\"stream\":%s,\"options\":{\"temperature\":0.7,\"num_predict\":1024},"
     "\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"},{\"role\":\"user\",\"content\":\"",
     "\"}]}", ""},
    {"anthropic", "/v1/messages", "{\"model\":\"%s\",\"stream\":%s,\"max_tokens\":1024,\"temperature\":0.7,"
     "\"system\":\"You are a helpful assistant.\",\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}",
     "anthropic-version: 2023-06-01\r\n"},
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

static struct {
    const char *to, *model, *set;
    const struct dialect *dialect;
    long connections, requests, warm, tokens, interval_us, delay_us, event_bytes, pad, spread_us, skip_events;
    long leave_after_us;
    double seconds, limit;
    bool stream;
} asked = {.model = "bench", .dialect = dialects, .connections = 1, .tokens = 16, .limit = 60};

static int poller;
static char keys[MOST_KEYS][512];
static int key_count;
static struct connection *connections;
static struct samples latency, first_event, event_delay;
static long begun, ended, good, events_seen, busy, measured_ended;
static long errors_connect, errors_status, errors_cut, errors_wrong, errors_total;
static char first_error[512];
static int64_t measured_from, last_end, end_at;
static struct { char serial[NONCE_DIGITS - SET_DIGITS + 1]; int64_t at; } left_at[MOST_LEFT];
static long left_count;
static long next_serial, next_to_start;
static bool given_up;

static void add(struct samples *samples, int64_t value)
{
    if (samples->count == samples->room) {
        samples->room = samples->room ? 2 * samples->room : 4096;
        samples->values = must_have(realloc(samples->values, samples->room * sizeof *samples->values));
    }
    samples->values[samples->count++] = value;
}

__attribute__((format(printf, 2, 3)))
static void note_error(long *kind, const char *format, ...)
{
    va_list words;
    ++*kind;
    if (errors_total++ == 0) {
        va_start(words, format);
        vsnprintf(first_error, sizeof first_error, format, words);
        va_end(words);
    }
    if (errors_total >= TOO_MANY_ERRORS)
        given_up = true;
}

/* -- requests ------------------------------------------------------------------------------------------- */

static void write_request(struct connection *connection, const char *key)
{
    struct buffer body = {0};
    char *place = make_room(&body, 4096 + strlen(asked.model));
    body.end += sprintf(place, asked.dialect->before, asked.model, asked.stream ? "true" : "false");
    body.end += sprintf(body.data + body.end, "%s", ORDER_START);
    size_t nonce_at = body.end;
    body.end += sprintf(body.data + body.end, "%s%0*d" ORDER_FORMAT " ", asked.set, NONCE_DIGITS - SET_DIGITS, 0,
                        asked.tokens, asked.interval_us, asked.delay_us, asked.event_bytes);
    memset(make_room(&body, asked.pad), 'y', asked.pad);
    body.end += asked.pad;
    append(&body, asked.dialect->after, strlen(asked.dialect->after));
    char head[2048];
    int size = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench-load\r\n"
                        "Accept: */*\r\n%s%s%s%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                        asked.dialect->path, key ? "Authorization: Bearer " : "", key ? key : "", key ? "\r\n" : "",
                        asked.dialect->headers, held(&body));
    append(&connection->request, head, size);
    append(&connection->request, body.data, held(&body));
    connection->nonce_at = size + nonce_at;
    free(body.data);
}

static const char *nonce_of(const struct connection *connection)
{
    return connection->request.data + connection->nonce_at;
}

static int connect_tcp(void)
{
    char host[64];
    const char *colon = strrchr(asked.to, ':');
    struct sockaddr_in address = {.sin_family = AF_INET};
    if (colon == NULL || colon - asked.to >= (long)sizeof host)
        die("--to %s: write an IPv4 address and a port, or the path of a socket", asked.to);
    snprintf(host, sizeof host, "%.*s", (int)(colon - asked.to), asked.to);
    address.sin_port = htons(atoi(colon + 1));
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die("--to %s: %s is not an IPv4 address", asked.to, host);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
}

static int connect_unix(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(asked.to) >= sizeof address.sun_path)
        die("--to %s: a socket path has at most %zu bytes", asked.to, sizeof address.sun_path - 1);
    strcpy(address.sun_path, asked.to);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Connecting blocks: to this machine it takes microseconds, and happens before anything is measured. */
static bool dial(struct connection *connection)
{
    connection->fd = asked.to[0] == '/' ? connect_unix() : connect_tcp();
    if (connection->fd < 0) {
        note_error(&errors_connect, "cannot connect to %s: %s", asked.to, strerror(errno));
        return false;
    }
    fcntl(connection->fd, F_SETFL, O_NONBLOCK);
    struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = connection};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, connection->fd, &wanted) < 0)
        die("epoll_ctl: %s", strerror(errno));
    connection->waits_write = false;
    return true;
}

static void hang_up(struct connection *connection)
{
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
}

static bool may_begin(int64_t now)
{
    if (given_up)
        return false;
    return asked.requests ? begun < asked.requests : now < end_at;
}

static void watch_write(struct connection *connection, bool write)
{
    if (connection->waits_write == write)
        return;
    connection->waits_write = write;
    struct epoll_event wanted = {.events = EPOLLIN | (write ? EPOLLOUT : 0), .data.ptr = connection};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, connection->fd, &wanted) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

/* Send what is left of the request. A broken connection shows itself at the next read. */
static void push(struct connection *connection)
{
    while (connection->sent < held(&connection->request)) {
        ssize_t sent = send(connection->fd, connection->request.data + connection->sent,
                            held(&connection->request) - connection->sent, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0) {
            watch_write(connection, errno == EAGAIN);
            return;
        }
        connection->sent += sent;
    }
    watch_write(connection, false);
}

/* Ask the next question; nothing when it is time to stop. */
static void ask(struct connection *connection)
{
    int64_t now = clock_ns();
    if (!may_begin(now) || (connection->fd < 0 && !dial(connection)))
        return;
    char serial[NONCE_DIGITS - SET_DIGITS + 1];
    snprintf(serial, sizeof serial, "%08lx", next_serial++ & 0xffffffff);
    memcpy(connection->request.data + connection->nonce_at + SET_DIGITS, serial, sizeof serial - 1);
    connection->sent = connection->head_size = connection->said_size = connection->carried = connection->line = 0;
    connection->part = HEAD;
    connection->status = 0;
    connection->closes = connection->crossed = false;
    connection->events = 0;
    connection->measured = begun++ >= asked.warm;
    connection->busy = true;
    busy++;
    if (connection->measured && measured_from == 0)
        measured_from = now;
    connection->begun = clock_ns();
    push(connection);
}

/* The request is over, well or not: ask the next one, on a new connection if need be. */
static void settle(struct connection *connection, bool reuse)
{
    connection->busy = false;
    busy--;
    if (!reuse)
        hang_up(connection);
    ask(connection);
}

static void cut(struct connection *connection, const char *why)
{
    note_error(&errors_cut, "%s after %ld events; status %d", why, connection->events, connection->status);
    settle(connection, false);
}

static void finish(struct connection *connection, int64_t now, bool clean)
{
    long expected = asked.stream ? asked.tokens : 1;
    ended++;
    last_end = now;
    if (connection->status != 200)
        note_error(&errors_status, "status %d: %.*s", connection->status, (int)connection->said_size, connection->said);
    else if (connection->events != expected || connection->crossed || !clean)
        note_error(&errors_wrong, "%ld of %ld events%s%s", connection->events, expected,
                   connection->crossed ? ", some of another request" : "", clean ? "" : ", bytes after the end");
    else
        good++;
    if (connection->measured && connection->status == 200)
        add(&latency, now - connection->begun);
    if (connection->measured && (asked.requests || now <= end_at))
        measured_ended++;
    settle(connection, clean && !connection->closes);
}

/* -- answers -------------------------------------------------------------------------------------------- */

static void take_marker(struct connection *connection, const char *marker, int64_t now)
{
    char digits[CLOCK_DIGITS + 1] = "";
    if (marker[1 + NONCE_DIGITS] != '.' || marker[MARKER_SIZE - 1] != ';')
        return;
    memcpy(digits, marker + 2 + NONCE_DIGITS, CLOCK_DIGITS);
    int64_t written = strtoll(digits, NULL, 10);
    if (memcmp(marker + 1, nonce_of(connection), NONCE_DIGITS) != 0)
        connection->crossed = true;
    if (connection->measured && connection->events == 0)
        add(&first_event, now - connection->begun);
    if (connection->measured && connection->events >= asked.skip_events)
        add(&event_delay, now - written);
    connection->events++;
    events_seen++;
}

/* Find markers in the next piece of a body, also those that began in an earlier piece. */
static void scan(struct connection *connection, const char *data, size_t size, int64_t now)
{
    if (connection->said_size < sizeof connection->said - 1) {
        size_t room = sizeof connection->said - 1 - connection->said_size, part = size < room ? size : room;
        memcpy(connection->said + connection->said_size, data, part);
        connection->said_size += part;
    }
    while (size > 0) {
        if (connection->carried == 0) {
            const char *found = memchr(data, '@', size);
            if (found == NULL)
                return;
            size -= found - data;
            data = found;
            if (size >= MARKER_SIZE) {
                take_marker(connection, data, now);
                data++;
                size--;
                continue;
            }
        }
        size_t missing = MARKER_SIZE - connection->carried, part = size < missing ? size : missing;
        memcpy(connection->carry + connection->carried, data, part);
        connection->carried += part;
        data += part;
        size -= part;
        if (connection->carried == MARKER_SIZE) {
            take_marker(connection, connection->carry, now);
            connection->carried = 0;
        }
    }
}

static const char *take_head(struct connection *connection, const char *data, const char *end)
{
    size_t room = LARGEST_HEAD - 1 - connection->head_size, part = (size_t)(end - data) < room ? (size_t)(end - data) : room;
    size_t before = connection->head_size;
    memcpy(connection->head + before, data, part);
    connection->head_size += part;
    connection->head[connection->head_size] = '\0';
    char *blank = strstr(connection->head, "\r\n\r\n");
    if (blank == NULL)
        return part == room ? NULL : end;
    blank[2] = '\0';
    connection->status = strncmp(connection->head, "HTTP/1.", 7) == 0 ? atoi(connection->head + 8) : 0;
    const char *length = header(connection->head, "\r\ncontent-length:");
    const char *coding = header(connection->head, "\r\ntransfer-encoding:");
    const char *kept = header(connection->head, "\r\nconnection:");
    connection->closes = kept != NULL && strncasecmp(kept, "close", 5) == 0;
    connection->left = length ? strtoull(length, NULL, 10) : 0;
    if (coding != NULL && strncasecmp(coding, "chunked", 7) == 0)
        connection->part = CHUNK_SIZE;
    else if (length != NULL)
        connection->part = connection->left ? LENGTH : WHOLE;
    else
        connection->part = UNTIL_CLOSE;
    connection->left = connection->part == CHUNK_SIZE ? 0 : connection->left;
    return data + (blank + 4 - connection->head - before);
}

/* One byte of a chunk-size line. */
static void take_size(struct connection *connection, char byte)
{
    if (byte == '\n') {
        connection->part = connection->left ? CHUNK_DATA : TRAILER;
        connection->line = 0;
    } else if (byte == ';' || byte == '\r') {
        connection->line = 1; /* what follows is no digit */
    } else if (connection->line == 0) {
        connection->left = 16 * connection->left + (byte <= '9' ? byte - '0' : (byte | 32) - 'a' + 10);
    }
}

/* Take the next piece of an answer: the place behind what was used, or NULL when it is not HTTP. */
static const char *take(struct connection *connection, const char *data, const char *end, int64_t now)
{
    size_t part = end - data;
    switch (connection->part) {
    case HEAD:
        return take_head(connection, data, end);
    case LENGTH:
    case CHUNK_DATA:
        part = part < connection->left ? part : connection->left;
        scan(connection, data, part, now);
        connection->left -= part;
        if (connection->left == 0)
            connection->part = connection->part == LENGTH ? WHOLE : CHUNK_END;
        return data + part;
    case CHUNK_SIZE:
        take_size(connection, *data);
        return data + 1;
    case CHUNK_END:
        if (*data == '\n')
            connection->part = CHUNK_SIZE;
        return *data == '\r' || *data == '\n' ? data + 1 : NULL;
    case TRAILER:
        if (*data == '\n' && connection->line == 0)
            connection->part = WHOLE;
        connection->line = *data == '\n' ? 0 : connection->line + (*data != '\r');
        return data + 1;
    case UNTIL_CLOSE:
        scan(connection, data, part, now);
        return end;
    case WHOLE:
        break;
    }
    return data;
}

static void take_event(struct connection *connection, uint32_t events)
{
    static char data[256 * 1024];
    if (connection->fd < 0)
        return;
    if (events & EPOLLOUT)
        push(connection);
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    ssize_t got = recv(connection->fd, data, sizeof data, 0);
    int64_t now = clock_ns();
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (!connection->busy) {
        hang_up(connection); /* closed, or noisy, while idle */
    } else if (got <= 0) {
        if (got == 0 && connection->part == UNTIL_CLOSE) {
            connection->closes = true;
            finish(connection, now, true);
        } else {
            cut(connection, got == 0 ? "the connection was closed" : strerror(errno));
        }
    } else {
        const char *place = data, *end = data + got;
        while (place != NULL && place < end && connection->part != WHOLE)
            place = take(connection, place, end, now);
        if (place == NULL)
            cut(connection, "this is not HTTP");
        else if (connection->part == WHOLE)
            finish(connection, now, place == end);
    }
}

/* -- the run -------------------------------------------------------------------------------------------- */

/* Leave requests that are old enough; nanoseconds until the next one is. */
static int64_t leave_old(int64_t now)
{
    int64_t next = INT64_MAX;
    for (long number = 0; number < asked.connections; number++) {
        struct connection *connection = &connections[number];
        if (!connection->busy)
            continue;
        int64_t wait = connection->begun + asked.leave_after_us * 1000 - now;
        if (wait <= 0) {
            if (left_count < MOST_LEFT) {
                memcpy(left_at[left_count].serial, nonce_of(connection) + SET_DIGITS, NONCE_DIGITS - SET_DIGITS);
                left_at[left_count++].at = clock_ns();
            }
            settle(connection, false);
            wait = asked.leave_after_us * 1000;
        }
        next = wait < next ? wait : next;
    }
    return next;
}

/* Start connections whose turn it is; nanoseconds until the next turn. */
static int64_t start_due(int64_t from, int64_t now)
{
    while (next_to_start < asked.connections) {
        int64_t wait = from + next_to_start * asked.spread_us * 1000 - now;
        if (wait > 0)
            return wait;
        ask(&connections[next_to_start++]);
    }
    return INT64_MAX;
}

static bool run(void)
{
    struct epoll_event events[BATCH];
    int64_t from = clock_ns(), last = from + (int64_t)(asked.limit * 1e9);
    end_at = from + (int64_t)(asked.seconds * 1e9);
    for (;;) {
        int64_t now = clock_ns(), wait = start_due(from, now);
        if (asked.leave_after_us) {
            int64_t leave = leave_old(now);
            wait = leave < wait ? leave : wait;
        }
        if (busy == 0 && (next_to_start == asked.connections || given_up))
            return true;
        if (now >= last)
            return false;
        wait = wait < last - now ? wait : last - now;
        struct timespec limit = {wait / 1000000000, wait % 1000000000};
        int count = epoll_pwait2(poller, events, BATCH, &limit, NULL);
        if (count < 0 && errno != EINTR)
            die("epoll_pwait2: %s", strerror(errno));
        for (int number = 0; number < count; number++)
            take_event(events[number].data.ptr, events[number].events);
    }
}

static int compare(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static void print_samples(const char *name, struct samples *samples)
{
    static const double shares[] = {0.5, 0.9, 0.99};
    static const char *const names[] = {"p50", "p90", "p99"};
    if (samples->count == 0) {
        printf(",\"%s\":null", name);
        return;
    }
    qsort(samples->values, samples->count, sizeof *samples->values, compare);
    printf(",\"%s\":{\"count\":%zu", name, samples->count);
    for (int number = 0; number < 3; number++) {
        size_t place = (size_t)ceil(shares[number] * samples->count) - 1;
        printf(",\"%s\":%.1f", names[number], samples->values[place] / 1000.0);
    }
    printf("}");
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' || (unsigned char)*text > '~' ? ' ' : *text);
    }
    putchar('"');
}

static void report(bool in_time)
{
    int64_t until = asked.requests ? last_end : end_at;
    double seconds = measured_from && until > measured_from ? (until - measured_from) / 1e9 : 0;
    printf("{\"requests\":%ld,\"ended\":%ld,\"good\":%ld,\"events\":%ld,\"unfinished\":%ld,\"rps\":%.1f", begun, ended,
           good, events_seen, in_time ? 0 : busy, seconds > 0 ? measured_ended / seconds : 0);
    printf(",\"errors\":{\"connect\":%ld,\"status\":%ld,\"cut\":%ld,\"wrong\":%ld},\"first_error\":", errors_connect,
           errors_status, errors_cut, errors_wrong);
    print_text(first_error);
    print_samples("latency_us", &latency);
    print_samples("first_event_us", &first_event);
    print_samples("event_delay_us", &event_delay);
    printf(",\"left\":[");
    for (long number = 0; number < left_count; number++)
        printf("%s[\"%s\",%lld]", number ? "," : "", left_at[number].serial, (long long)left_at[number].at);
    printf("]}\n");
}

/* -- options -------------------------------------------------------------------------------------------- */

static long whole(const char *name, const char *text)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < 0)
        die("--%s %s: write a whole number", name, text);
    return value;
}

static double seconds(const char *name, const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (*end || end == text || !(value > 0) || value > 86400)
        die("--%s %s: write seconds above 0", name, text);
    return value;
}

static void read_keys(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL)
        die("--keys %s: %s", path, strerror(errno));
    while (key_count < MOST_KEYS && fgets(keys[key_count], sizeof keys[0], file) != NULL) {
        keys[key_count][strcspn(keys[key_count], "\r\n")] = '\0';
        key_count += keys[key_count][0] != '\0';
    }
    fclose(file);
    if (key_count == 0)
        die("--keys %s: it holds no key", path);
}

static const struct dialect *find_dialect(const char *name)
{
    for (size_t number = 0; number < sizeof dialects / sizeof *dialects; number++)
        if (strcmp(dialects[number].name, name) == 0)
            return &dialects[number];
    die("--dialect %s: write openai, ollama or anthropic", name);
}

static void read_options(int count, char **words)
{
    enum { TO, SET, DIALECT, MODEL, KEYS, CONNECTIONS, REQUESTS, SECONDS, WARM, STREAM, TOKENS, INTERVAL, DELAY, BYTES,
           PAD, SPREAD, SKIP, LEAVE, LIMIT };
    static const struct option known[] = {
        {"to", 1, 0, TO}, {"set", 1, 0, SET}, {"dialect", 1, 0, DIALECT}, {"model", 1, 0, MODEL}, {"keys", 1, 0, KEYS},
        {"connections", 1, 0, CONNECTIONS}, {"requests", 1, 0, REQUESTS}, {"seconds", 1, 0, SECONDS},
        {"warm", 1, 0, WARM}, {"stream", 0, 0, STREAM}, {"tokens", 1, 0, TOKENS}, {"interval-us", 1, 0, INTERVAL},
        {"delay-us", 1, 0, DELAY}, {"event-bytes", 1, 0, BYTES}, {"pad", 1, 0, PAD}, {"spread-us", 1, 0, SPREAD},
        {"skip-events", 1, 0, SKIP}, {"leave-after-us", 1, 0, LEAVE}, {"limit", 1, 0, LIMIT}, {0}};
    int which, place;
    while ((which = getopt_long(count, words, "", known, &place)) != -1) {
        const char *name = which == '?' ? "" : known[place].name;
        switch (which) {
        case TO: asked.to = optarg; break;
        case SET: asked.set = optarg; break;
        case DIALECT: asked.dialect = find_dialect(optarg); break;
        case MODEL: asked.model = optarg; break;
        case KEYS: read_keys(optarg); break;
        case CONNECTIONS: asked.connections = whole(name, optarg); break;
        case REQUESTS: asked.requests = whole(name, optarg); break;
        case SECONDS: asked.seconds = seconds(name, optarg); break;
        case WARM: asked.warm = whole(name, optarg); break;
        case STREAM: asked.stream = true; break;
        case TOKENS: asked.tokens = whole(name, optarg); break;
        case INTERVAL: asked.interval_us = whole(name, optarg); break;
        case DELAY: asked.delay_us = whole(name, optarg); break;
        case BYTES: asked.event_bytes = whole(name, optarg); break;
        case PAD: asked.pad = whole(name, optarg); break;
        case SPREAD: asked.spread_us = whole(name, optarg); break;
        case SKIP: asked.skip_events = whole(name, optarg); break;
        case LEAVE: asked.leave_after_us = whole(name, optarg); break;
        case LIMIT: asked.limit = seconds(name, optarg); break;
        default: die("%s", usage);
        }
    }
    if (optind < count || asked.to == NULL || asked.set == NULL || (asked.requests == 0) == (asked.seconds == 0))
        die("%s", usage);
    if (strspn(asked.set, "0123456789abcdef") != SET_DIGITS || asked.set[SET_DIGITS] != '\0')
        die("--set %s: write eight hexadecimal digits in lower case", asked.set);
    if (asked.connections == 0 || asked.tokens == 0)
        die("--connections and --tokens are at least 1");
}

int main(int count, char **words)
{
    read_options(count, words);
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0)
        die("epoll_create1: %s", strerror(errno));
    connections = must_have(calloc(asked.connections, sizeof *connections));
    for (long number = 0; number < asked.connections && !given_up; number++) {
        write_request(&connections[number], key_count ? keys[number % key_count] : NULL);
        dial(&connections[number]);
    }
    usleep(SETTLE_US);
    report(run());
    return 0;
}
