/* A stand-in for llama-server whose answers cost next to nothing: what remains of a measurement is the gateway.
 *
 *     engine [--host ADDRESS | --host PATH.sock] [--port N] [--also-unix PATH] [--api-key-file FILE] [--model FILE] ...
 *
 * Takes llama-server's flags, and passes over those that do not matter here, so that Blazar can start it as a child.
 * Port 0 takes any free one, which is printed. The prompt says what to answer (ORDER_FORMAT in bench.h): how many
 * tokens, at what interval, after which delay, in events of how many bytes.
 *
 *     GET /health, /props           as llama-server's
 *     POST /v1/chat/completions     one JSON answer, or a stream with usage and timings in its last event
 *     GET /stats/<set>              what was asked and answered for one run of the client, without a key
 */
#include "engine.h"

#include <arpa/inet.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LARGEST_REQUEST (128u << 20)
#define SLOTS 4096 /* as /props says: more than any run has connections, so that no gateway queues */
#define BATCH 512

static char api_key[512], alias[512] = "bench";
static long context = 4096;

/* -- requests ------------------------------------------------------------------------------------------- */

static void say_props(struct client *client)
{
    char json[1024];
    snprintf(json, sizeof json, "{\"default_generation_settings\":{\"n_ctx\":%ld},\"total_slots\":%d,"
             "\"model_alias\":\"%.500s\",\"build_info\":\"bench\"}", context, SLOTS, alias);
    say(client, 200, "OK", json);
}

static bool has_key(const char *head)
{
    const char *given = header(head, "\r\nauthorization:");
    size_t size = strlen(api_key);
    return size == 0 || (given != NULL && strncasecmp(given, "Bearer ", 7) == 0 &&
                         strncmp(given + 7, api_key, size) == 0 && given[7 + size] == '\r');
}

static bool is_for(const char *head, const char *line)
{
    return strncmp(head, line, strlen(line)) == 0;
}

static void answer(struct client *client, const char *head, const char *body, size_t size)
{
    if (is_for(head, "GET /health "))
        say(client, 200, "OK", "{\"status\":\"ok\"}");
    else if (is_for(head, "GET /stats/"))
        say_stats(client, head + sizeof "GET /stats/" - 1);
    else if (!has_key(head))
        refuse(client, 401, "Invalid API Key");
    else if (is_for(head, "GET /props "))
        say_props(client);
    else if (is_for(head, "POST /v1/chat/completions "))
        begin_answer(client, body, size);
    else
        refuse(client, 404, "this engine serves /health, /props, /stats/<set> and /v1/chat/completions");
}

/* Answer the requests that have come whole, one after the other. */
static void take_requests(struct client *client)
{
    while (!client->dead && !client->answering && held(&client->in) > 0) {
        char *head = client->in.data + client->in.start;
        client->in.data[client->in.end] = '\0';
        char *end = memmem(head, held(&client->in), "\r\n\r\n", 4);
        if (end == NULL)
            break;
        char kept = end[3];
        end[3] = '\0';
        const char *length = header(head, "\r\ncontent-length:");
        bool chunked = header(head, "\r\ntransfer-encoding:") != NULL;
        size_t head_size = end + 4 - head, body_size = length ? strtoul(length, NULL, 10) : 0;
        if (chunked || body_size > LARGEST_REQUEST) {
            drop(client); /* no gateway under test sends either */
            return;
        }
        if (held(&client->in) < head_size + body_size) {
            end[3] = kept;
            break;
        }
        answer(client, head, head + head_size, body_size);
        consume(&client->in, head_size + body_size);
        go_on(client);
    }
}

static void read_client(struct client *client)
{
    char *place = make_room(&client->in, 65536);
    ssize_t got = recv(client->fd, place, 65536, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) || held(&client->in) > LARGEST_REQUEST) {
        drop(client);
        return;
    }
    if (got > 0) {
        client->in.end += got;
        take_requests(client);
    }
}

static void take_event(struct client *client, uint32_t events)
{
    if (client->dead)
        return;
    if (events & (EPOLLERR | EPOLLHUP | EPOLLRDHUP)) {
        drop(client);
        return;
    }
    if (events & EPOLLOUT)
        go_on(client);
    if (events & EPOLLIN && !client->dead)
        read_client(client);
    if (!client->dead)
        take_requests(client);
}

/* -- the program ---------------------------------------------------------------------------------------- */

static int listen_tcp(const char *host, long port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    socklen_t size = sizeof address;
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        die("--host %s: it is neither an IPv4 address nor a path that ends in .sock", host);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) < 0 || listen(fd, 4096) < 0)
        die("couldn't bind HTTP server socket, hostname: %s, port: %ld: %s", host, port, strerror(errno));
    getsockname(fd, (struct sockaddr *)&address, &size);
    printf("listening on %s:%d\n", host, ntohs(address.sin_port));
    return fd;
}

static int listen_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        die("%s: a socket path has at most %zu bytes", path, sizeof address.sun_path - 1);
    strcpy(address.sun_path, path);
    unlink(path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4096) < 0)
        die("couldn't bind HTTP server socket %s: %s", path, strerror(errno));
    printf("listening on %s\n", path);
    return fd;
}

static void read_key(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(api_key, sizeof api_key, file) == NULL)
        die("--api-key-file %s: %s", path, file ? "it is empty" : strerror(errno));
    api_key[strcspn(api_key, "\r\n")] = '\0';
    fclose(file);
}

static bool ends_in(const char *text, const char *end)
{
    return strlen(text) >= strlen(end) && strcmp(text + strlen(text) - strlen(end), end) == 0;
}

static int poll_events(struct epoll_event *events)
{
    struct timespec limit, *until = NULL;
    struct client *first = next_due();
    if (first != NULL) {
        int64_t wait = first->due - clock_ns();
        wait = wait > 0 ? wait : 0;
        limit.tv_sec = wait / 1000000000;
        limit.tv_nsec = wait % 1000000000;
        until = &limit;
    }
    int count = epoll_pwait2(poller, events, BATCH, until, NULL);
    if (count < 0 && errno != EINTR)
        die("epoll_pwait2: %s", strerror(errno));
    return count;
}

__attribute__((noreturn))
static void serve(struct listener *listeners, int listener_count)
{
    struct epoll_event events[BATCH];
    for (int number = 0; number < listener_count; number++) {
        struct epoll_event wanted = {.events = EPOLLIN, .data.ptr = &listeners[number]};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, listeners[number].fd, &wanted) < 0)
            die("epoll_ctl: %s", strerror(errno));
    }
    for (;;) {
        int count = poll_events(events);
        for (int number = 0; number < count; number++) {
            void *who = events[number].data.ptr;
            if (who >= (void *)listeners && who < (void *)(listeners + listener_count))
                accept_all(who);
            else
                take_event(who, events[number].events);
        }
        int64_t now = clock_ns();
        for (struct client *client; (client = next_due()) != NULL && client->due <= now;) {
            go_on(client);
            if (!client->dead)
                take_requests(client);
        }
        free_dead();
    }
}

int main(int count, char **words)
{
    const char *host = "127.0.0.1", *also = NULL;
    long port = 8080, parallel = 1;
    for (int number = 1; number < count; number++) {
        const char *flag = words[number], *value = number + 1 < count ? words[number + 1] : NULL;
        if (strcmp(flag, "--version") == 0) {
            puts("version: bench");
            return 0;
        }
        if (strcmp(flag, "--help") == 0) {
            puts("--model FILE\n--host HOST\n--port PORT\n--api-key-file FILE\n--alias NAME\n--ctx-size N\n--parallel N\n"
                 "--jinja\n--batch-size N\n--ubatch-size N\n--embeddings\n--pooling NAME\n--also-unix PATH");
            return 0;
        }
        if (value == NULL || value[0] == '-')
            continue;
        number++;
        if (strcmp(flag, "--host") == 0)
            host = value;
        else if (strcmp(flag, "--port") == 0)
            port = atol(value);
        else if (strcmp(flag, "--also-unix") == 0)
            also = value;
        else if (strcmp(flag, "--api-key-file") == 0)
            read_key(value);
        else if (strcmp(flag, "--alias") == 0)
            snprintf(alias, sizeof alias, "%s", value);
        else if (strcmp(flag, "--ctx-size") == 0)
            context = atol(value);
        else if (strcmp(flag, "--parallel") == 0)
            parallel = atol(value) > 0 ? atol(value) : 1;
    }
    context /= parallel;
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    poller = epoll_create1(EPOLL_CLOEXEC);
    if (poller < 0)
        die("epoll_create1: %s", strerror(errno));
    struct listener listeners[2];
    bool tcp = !ends_in(host, ".sock");
    listeners[0] = (struct listener){tcp ? listen_tcp(host, port) : listen_unix(host), tcp};
    if (also != NULL)
        listeners[1] = (struct listener){listen_unix(also), false};
    fflush(stdout);
    serve(listeners, also ? 2 : 1);
}
