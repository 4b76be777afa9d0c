/* One answer: head, body in any framing, and the markers in it. */
#include "load.h"

const char *nonce_of(const struct connection *connection)
{
    return connection->request.data + connection->nonce_at;
}

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
        add(&tally.first_event, now - connection->begun);
    if (connection->measured && connection->events >= asked.skip_events)
        add(&tally.event_delay, now - written);
    connection->events++;
    tally.events_seen++;
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
    size_t before = connection->head_size, room = LARGEST_HEAD - 1 - before, came = end - data;
    size_t part = came < room ? came : room;
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
const char *take(struct connection *connection, const char *data, const char *end, int64_t now)
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
