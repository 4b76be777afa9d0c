/* The client: many connections on one thread, each asks, reads its answer to the end, checks it, and asks again.
 *
 * Every prompt carries a nonce of its own, and every event of the answer has to carry the same one (bench.h): an
 * answer that got lost, cut or crossed is an error. Prints one JSON object; all times are in microseconds.
 */
#include "load.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BATCH 512
#define SETTLE_US 100000 /* after dialling, for the server to accept */

static int poller;
static struct connection *connections;
static int64_t end_at;
static long next_serial, next_to_start;

static void write_request(struct connection *connection, const char *key)
{
    struct buffer body = {0};
    char *place = make_room(&body, 4096 + strlen(asked.model));
    body.end += sprintf(place, asked.dialect->before, asked.model, asked.stream ? "true" : "false");
    body.end += sprintf(body.data + body.end, "%s", ORDER_START);
    size_t nonce_at = body.end;
    body.end += sprintf(body.data + body.end, "%s%0*d" ORDER_FORMAT " ", asked.set, SERIAL_DIGITS, 0,
                        asked.tokens, asked.interval_us, asked.delay_us, asked.event_bytes);
    memset(make_room(&body, asked.pad), 'y', asked.pad);
    body.end += asked.pad;
    append(&body, asked.dialect->after, strlen(asked.dialect->after));
    char head[2048];
    int size = snprintf(head, sizeof head, "POST %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench-load\r\n"
                        "Accept: */*\r\n%s%s%s%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                        asked.dialect->path, asked.to[0] == '/' ? "localhost" : asked.to,
                        key ? "Authorization: Bearer " : "", key ? key : "", key ? "\r\n" : "",
                        asked.dialect->headers, held(&body));
    append(&connection->request, head, size);
    append(&connection->request, body.data, held(&body));
    connection->nonce_at = size + nonce_at;
    free(body.data);
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
        note_error(&tally.errors_connect, "cannot connect to %s: %s", asked.to, strerror(errno));
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
    if (tally.given_up)
        return false;
    return asked.requests ? tally.begun < asked.requests : now < end_at;
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
    char serial[SERIAL_DIGITS + 1];
    snprintf(serial, sizeof serial, "%08lx", next_serial++ & 0xffffffff);
    memcpy(connection->request.data + connection->nonce_at + SET_DIGITS, serial, sizeof serial - 1);
    connection->sent = connection->head_size = connection->said_size = connection->carried = connection->line = 0;
    connection->part = HEAD;
    connection->status = 0;
    connection->closes = connection->crossed = false;
    connection->events = 0;
    connection->measured = tally.begun++ >= asked.warm;
    connection->busy = true;
    tally.busy++;
    if (connection->measured && tally.measured_from == 0)
        tally.measured_from = now;
    connection->begun = clock_ns();
    push(connection);
}

/* The request is over, well or not: ask the next one, on a new connection if need be. */
static void settle(struct connection *connection, bool reuse)
{
    connection->busy = false;
    tally.busy--;
    if (!reuse)
        hang_up(connection);
    ask(connection);
}

static void cut(struct connection *connection, const char *why)
{
    note_error(&tally.errors_cut, "%s after %ld events; status %d", why, connection->events, connection->status);
    settle(connection, false);
}

static void finish(struct connection *connection, int64_t now, bool clean)
{
    long expected = asked.stream ? asked.tokens : 1;
    tally.ended++;
    tally.last_end = now;
    if (connection->status != 200)
        note_error(&tally.errors_status, "status %d: %.*s", connection->status, (int)connection->said_size,
                   connection->said);
    else if (connection->events != expected || connection->crossed || !clean)
        note_error(&tally.errors_wrong, "%ld of %ld events%s%s", connection->events, expected,
                   connection->crossed ? ", some of another request" : "", clean ? "" : ", bytes after the end");
    else
        tally.good++;
    if (connection->measured && connection->status == 200)
        add(&tally.latency, now - connection->begun);
    if (tally.measured_from && (asked.requests || now <= end_at))
        tally.measured_ended++;
    settle(connection, clean && !connection->closes);
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
            note_leaving(nonce_of(connection) + SET_DIGITS);
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
        if (tally.busy == 0 && (next_to_start == asked.connections || tally.given_up))
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

int main(int count, char **words)
{
    read_options(count, words);
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0)
        die("epoll_create1: %s", strerror(errno));
    connections = must_have(calloc(asked.connections, sizeof *connections));
    for (long number = 0; number < asked.connections && !tally.given_up; number++) {
        write_request(&connections[number], asked.key_count ? asked.keys[number % asked.key_count] : NULL);
        dial(&connections[number]);
    }
    usleep(SETTLE_US);
    bool in_time = run();
    report(asked.requests ? tally.last_end : end_at, in_time);
    return 0;
}
