/* The engine's connections, and a heap of those whose answer is due at some time. */
#include "engine.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int poller;
static struct client **heap; /* by due time; the first place is 1 */
static size_t heap_size, heap_room;
static struct client *dead;

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

void schedule(struct client *client)
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

void unschedule(struct client *client)
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

/* Whose answer is due first; NULL when none is. */
struct client *next_due(void)
{
    return heap_size > 0 ? heap[1] : NULL;
}

/* -- connections ---------------------------------------------------------------------------------------- */

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
void drop(struct client *client)
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

void free_dead(void)
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

void flush(struct client *client)
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

void accept_all(const struct listener *listener)
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
