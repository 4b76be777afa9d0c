/* What the engine answers: whole, or as a stream at its pace; and what it counts for each run of the client. */
#include "engine.h"

#define PROMPT_TOKENS 8

#define EVENT_HEAD "data: {\"choices\":[{\"finish_reason\":null,\"index\":0,\"delta\":{\"content\":\""
#define EVENT_TAIL "\"}}],\"created\":1700000000,\"id\":\"chatcmpl-bench\",\"model\":\"bench\"," \
                   "\"object\":\"chat.completion.chunk\"}\n\n"
#define EVENT_FIXED (sizeof EVENT_HEAD - 1 + MARKER_SIZE + sizeof EVENT_TAIL - 1)
#define LARGEST_FILL 65536

static struct set *sets;

void say(struct client *client, int status, const char *reason, const char *json)
{
    char head[256];
    int size = snprintf(head, sizeof head, "HTTP/1.1 %d %s\r\nServer: bench\r\nContent-Type: application/json; "
                        "charset=utf-8\r\nContent-Length: %zu\r\n\r\n", status, reason, strlen(json));
    append(&client->out, head, size);
    append(&client->out, json, strlen(json));
}

void refuse(struct client *client, int status, const char *reason)
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

void say_stats(struct client *client, const char *name)
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

static char *put_marker(char *place, const struct client *client)
{
    place += sprintf(place, "@%s.%0*lld;", client->nonce, CLOCK_DIGITS, (long long)clock_ns());
    client->set->events++;
    return place;
}

static char *put_filler(char *place, size_t size)
{
    memset(place, 'x', size);
    return place + size;
}

static void put_event(struct client *client)
{
    size_t size = EVENT_FIXED + client->fill;
    char *first = make_room(&client->out, size + 32), *place = first;
    place += sprintf(place, "%zx\r\n", size);
    place = mempcpy(place, EVENT_HEAD, sizeof EVENT_HEAD - 1);
    place = put_marker(place, client);
    place = put_filler(place, client->fill);
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
    return sprintf(place, "\"usage\":{\"completion_tokens\":%ld,\"prompt_tokens\":%d,\"total_tokens\":%ld,"
                   "\"prompt_tokens_details\":{\"cached_tokens\":0}}", client->tokens, PROMPT_TOKENS,
                   PROMPT_TOKENS + client->tokens);
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
    place = put_filler(place, fill);
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
void go_on(struct client *client)
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

static bool says_true(const char *body, size_t size, const char *field)
{
    const char *found = memmem(body, size, field, strlen(field));
    if (found == NULL)
        return false;
    found += strlen(field);
    return found[strspn(found, " ")] == 't';
}

void begin_answer(struct client *client, const char *body, size_t size)
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
            refuse(client, 400, "an order reads [bench <16 hex digits> tokens= interval_us= delay_us= bytes=]");
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
