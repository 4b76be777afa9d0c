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
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define LARGEST_REQUEST (128u << 20)
#define FULL (256u << 10) /* unsent bytes at which generation waits for the client */
#define SLOTS 4096 /* as /props says: more than any run has connections, so that no gateway queues */
#define PROMPT_TOKENS 8
#define KEPT_CANCELS 1000
#define BATCH 512

#define EVENT_HEAD "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\""
#define EVENT_TAIL "\"}}],\"created\":1700000000,\"id\":\"chatcmpl-bench\",\"model\":\"bench\"," \
                   "\"object\":\"chat.completion.chunk\"}\n\n"
#define EVENT_FIXED (sizeof EVENT_HEAD - 1 + MARKER_SIZE + sizeof EVENT_TAIL - 1)
#define LARGEST_FILL 65536

/* Everything about one run of the client. */
struct set {
    char name[SET_DIGITS + 1];
    long requests, finished, events, prompt_tokens, completion_tokens, cancelled;
    struct { char serial[NONCE_DIGITS - SET_DIGITS + 1]; int64_t at; } cancels[KEPT_CANCELS];
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

static int poller;
static struct set *sets;
static struct client **heap; /* by due time; the first place is 1 */
static size_t heap_size, heap_room;
static struct client *dead;
static char filler[LARGEST_FILL];
static char api_key[512], alias[512] = "bench";
static long context = 4096;

/* -- when answers are due ------------------------------------------------------------------------------- */

static void heap_put(size_t place, struct client *client)
{
    heap[place] = client;
    client->heap_place = place;
}

static void heap_settle(size_t place)
{
    struct client *client = heap[place];
    for (; place > 1 && heap[place / 2]->due > client->due; place /= 2)
        heap_put(place, heap[place / 2]);
    for (size_t child; (child = 2 * place) <= heap_size; place = child) {
        if (child < heap_size && heap[child + 1]->due < heap[child]->due)
            child++;
        if (heap[child]->due >= client->due)
            break;
        heap_put(place, heap[child]);
    }
    heap_put(place, client);
}

static void schedule(struct client *client)
{
    if (client->heap_place == 0) {
        if (heap_size + 1 >= heap_room) {
            heap_room = heap_room ? 2 * heap_room : 1024;
            heap = must_have(realloc(heap, heap_room * sizeof *heap));
        }
        heap_put(++heap_size, client);
    }
    heap_settle(client->heap_place);
}

static void unschedule(struct client *client)
{
    size_t place = client->heap_place;
    if (place == 0)
        return;
    client->heap_place = 0;
    struct client *last = heap[heap_size--];
    if (last != client) {
        heap_put(place, last);
        heap_settle(place);
    }
}

/* -- clients -------------------------------------------------------------------------------------------- */

static void note_cancel(struct client *client)
{
    struct set *set = client->set;
    if (set->cancelled < KEPT_CANCELS) {
        strcpy(set->cancels[set->cancelled].serial, client->nonce + SET_DIGITS);
        set->cancels[set->cancelled].at = clock_ns();
    }
    set->cancelled++;
}

/* Close at once; freed after the batch of events, which may name it again. */
static void drop(struct client *client)
{
    if (client->dead)
        return;
    client->dead = true;
    if (client->answering)
        note_cancel(client);
    unschedule(client);
    close(client->fd);
    client->next_dead = dead;
    dead = client;
}

static void free_dead(void)
{
    while (dead != NULL) {
        struct client *client = dead;
        dead = client->next_dead;
        free(client->in.data);
        free(client->out.data);
        free(client);
    }
}

static void watch(struct client *client, bool write)
{
    if (client->watches_write == write)
        return;
    client->watches_write = write;
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLRDHUP | (write ? EPOLLOUT : 0), .data.ptr = client};
    if (epoll_ctl(poller, EPOLL_CTL_MOD, client->fd, &wanted) < 0)
        die("epoll_ctl: %s", strerror(errno));
}

static void flush(struct client *client)
{
    while (held(&client->out) > 0) {
        ssize_t sent = send(client->fd, client->out.data + client->out.start, held(&client->out), MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0 && errno != EAGAIN) {
            drop(client);
            return;
        }
        if (sent < 0)
            break;
        consume(&client->out, sent);
    }
    watch(client, held(&client->out) > 0);
}

static void accept_all(const struct listener *listener)
{
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0 && errno == EAGAIN)
            return;
        if (fd < 0)
            die("accept: %s", strerror(errno));
        if (listener->tcp)
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        struct client *client = must_have(calloc(1, sizeof *client));
        client->fd = fd;
        struct epoll_event wanted = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = client};
        if (epoll_ctl(poller, EPOLL_CTL_ADD, fd, &wanted) < 0)
            die("epoll_ctl: %s", strerror(errno));
    }
}

/* -- answers -------------------------------------------------------------------------------------------- */

static void say(struct client *client, int status, const char *reason, const char *json)
{
    char head[256];
    int size = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nServer: bench\r\nContent-Type: application/json; "
                        "charset=utf-8\r\nContent-Length: %zu\r\n\r\n", status, reason, strlen(json));
    append(&client->out, head, size);
    append(&client->out, json, strlen(json));
}

static void refuse(struct client *client, int status, const char *reason)
{
    char json[512];
    snprintf(json, sizeof json, "{\"error\":{\"code\":%d,\"message\":\"%s\",\"type\":\"invalid_request_error\"}}",
             status, reason);
    say(client, status, "Refused", json);
}

/* The set of this name, made when `make`; NULL when there is none. Runs follow each other, so the newest is first. */
static struct set *find_set(const char *name, bool make)
{
    for (struct set *set = sets; set != NULL; set = set->older)
        if (memcmp(set->name, name, SET_DIGITS) == 0)
            return set;
    if (!make)
        return NULL;
    struct set *set = must_have(calloc(1, sizeof *set));
    memcpy(set->name, name, SET_DIGITS);
    set->older = sets;
    return sets = set;
}

static void say_stats(struct client *client, const char *name)
{
    static const struct set nothing;
    const struct set *found = strnlen(name, SET_DIGITS) == SET_DIGITS ? find_set(name, false) : NULL;
    const struct set *set = found ? found : &nothing;
    long kept = set->cancelled < KEPT_CANCELS ? set->cancelled : KEPT_CANCELS;
    struct buffer json = {0};
    json.end = sprintf(make_room(&json, 512), "{\"requests\":%ld,\"finished\":%ld,\"events\":%ld,\"prompt_tokens\":%ld,"
                       "\"completion_tokens\":%ld,\"cancelled\":%ld,\"cancels\":[", set->requests, set->finished,
                       set->events, set->prompt_tokens, set->completion_tokens, set->cancelled);
    for (long number = 0; number < kept; number++)
        json.end += sprintf(make_room(&json, 64), "%s[\"%s\",%lld]", number ? "," : "", set->cancels[number].serial,
                            (long long)set->cancels[number].at);
    append(&json, "]}", sizeof "]}");
    say(client, 200, "OK", json.data);
    free(json.data);
}

static void say_props(struct client *client)
{
    char json[1024];
    snprintf(json, sizeof json, "{\"default_generation_settings\":{\"n_ctx\":%ld},\"total_slots\":%d,"
             "\"model_alias\":\"%.500s\",\"build_info\":\"bench\"}", context, SLOTS, alias);
    say(client, 200, "OK", json);
}

static char *put_marker(char *place, const struct client *client)
{
    place += sprintf(place, "@%s.%0*lld;", client->nonce, CLOCK_DIGITS, (long long)clock_ns());
    client->set->events++;
    return place;
}

static void put_event(struct client *client)
{
    size_t size = EVENT_FIXED + client->fill;
    char *first = make_room(&client->out, size + 32), *place = first;
    place += sprintf(place, "%zx\r\n", size);
    place = mempcpy(place, EVENT_HEAD, sizeof EVENT_HEAD - 1);
    place = put_marker(place, client);
    place = mempcpy(place, filler, client->fill);
    place = mempcpy(place, EVENT_TAIL, sizeof EVENT_TAIL - 1);
    place = mempcpy(place, "\r\n", 2);
    client->out.end += place - first;
}

static int put_counts(char *place, const struct client *client)
{
    return sprintf(place, "\"timings\":{\"cache_n\":0,\"prompt_n\":%d,\"prompt_ms\":1.5,\"predicted_n\":%ld,"
                   "\"predicted_ms\":%ld.5,\"predicted_per_second\":100.0}", PROMPT_TOKENS, client->tokens,
                   client->tokens);
}

static int put_usage(char *place, const struct client *client)
{
    return sprintf(place, "\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%ld,\"total_tokens\":%ld}",
                   PROMPT_TOKENS, client->tokens, PROMPT_TOKENS + client->tokens);
}

/* The last events as one write: the reason, usage when it was asked for, both with timings, and the end. */
static void put_stream_end(struct client *client)
{
    static const char common[] = "\"created\":1700000000,\"id\":\"chatcmpl-bench\",\"model\":\"bench\","
                                 "\"object\":\"chat.completion.chunk\",";
    char json[1024], *first = make_room(&client->out, 4096), *place = first;
    for (int usage = 0; usage <= client->counts_usage; usage++) {
        int size = sprintf(json, "data: {\"choices\":[%s],%s", usage ? "" :
                           "{\"finish_reason\":\"stop\",\"index\":0,\"delta\":{}}", common);
        if (usage) {
            size += put_usage(json + size, client);
            json[size++] = ',';
        }
        size += put_counts(json + size, client);
        size += sprintf(json + size, "}\n\n");
        place += sprintf(place, "%x\r\n%s\r\n", size, json);
    }
    place += sprintf(place, "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
    client->out.end += place - first;
}

static void put_whole_answer(struct client *client)
{
    size_t fill = client->fill;
    char *json = must_have(malloc(fill + 2048)), *place = json;
    place += sprintf(place, "{\"choices\":[{\"finish_reason\":\"stop\",\"index\":0,\"message\":{\"role\":\"assistant\","
                     "\"content\":\"");
    place = put_marker(place, client);
    place = mempcpy(place, filler, fill);
    place += sprintf(place, "\"}}],\"created\":1700000000,\"id\":\"chatcmpl-bench\",\"model\":\"bench\","
                     "\"object\":\"chat.completion\",");
    place += put_usage(place, client);
    *place++ = ',';
    place += put_counts(place, client);
    strcpy(place, "}");
    say(client, 200, "OK", json);
    free(json);
}

static void end_answer(struct client *client)
{
    if (client->streams)
        put_stream_end(client);
    else
        put_whole_answer(client);
    client->set->finished++;
    client->set->prompt_tokens += PROMPT_TOKENS;
    client->set->completion_tokens += client->tokens;
    client->answering = false;
}

/* Write what is due, unless the client does not take it: then its next readiness brings us back here. */
static void go_on(struct client *client)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nServer: bench\r\nContent-Type: text/event-stream\r\n"
                               "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\n\r\n";
    while (client->answering && client->due <= clock_ns() && held(&client->out) < FULL) {
        if (client->streams && !client->begun) {
            append(&client->out, head, sizeof head - 1);
            client->begun = true;
        }
        if (client->streams && client->left > 0) {
            put_event(client);
            client->left--;
            client->due += client->left ? client->interval : 0;
        } else {
            end_answer(client);
        }
    }
    flush(client);
    if (client->dead)
        return;
    if (client->answering && held(&client->out) < FULL)
        schedule(client);
    else
        unschedule(client);
}

/* -- requests ------------------------------------------------------------------------------------------- */

static bool says_true(const char *body, size_t size, const char *field)
{
    const char *found = memmem(body, size, field, strlen(field));
    if (found == NULL)
        return false;
    found += strlen(field);
    return found[strspn(found, " ")] == 't';
}

static void begin_answer(struct client *client, const char *body, size_t size)
{
    long interval_us = 0, delay_us = 0, bytes = 0;
    char order[128] = "", *rest = order;
    memset(client->nonce, '0', NONCE_DIGITS);
    client->tokens = 16;
    const char *found = memmem(body, size, ORDER_START, sizeof ORDER_START - 1);
    if (found != NULL) {
        snprintf(order, sizeof order, "%.*s", (int)sizeof order - 1, found + sizeof ORDER_START - 1);
        if (strspn(order, "0123456789abcdef") == NONCE_DIGITS) {
            memcpy(client->nonce, order, NONCE_DIGITS);
            rest = order + NONCE_DIGITS;
        }
        if (sscanf(rest, ORDER_FORMAT, &client->tokens, &interval_us, &delay_us, &bytes) != 4 || client->tokens < 1) {
            refuse(client, 400, "the prompt's order reads [bench <16 hex digits> tokens= interval_us= delay_us= bytes=]");
            return;
        }
    }
    client->set = find_set(client->nonce, true);
    client->set->requests++;
    client->streams = says_true(body, size, "\"stream\":");
    client->counts_usage = says_true(body, size, "\"include_usage\":");
    client->left = client->streams ? client->tokens : 0;
    client->interval = interval_us * 1000;
    client->fill = bytes > (long)EVENT_FIXED ? bytes - EVENT_FIXED : 0;
    if (client->fill > LARGEST_FILL)
        client->fill = LARGEST_FILL;
    client->begun = false;
    client->answering = true;
    client->due = clock_ns() + delay_us * 1000;
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
    if (heap_size > 0) {
        int64_t wait = heap[1]->due - clock_ns();
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
        for (int64_t now = clock_ns(); heap_size > 0 && heap[1]->due <= now;) {
            struct client *client = heap[1];
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
    memset(filler, 'x', sizeof filler);
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
