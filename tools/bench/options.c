/* What is asked of the client. */
#include "load.h"

#include <getopt.h>

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

/* `before` and `after` stand around the prompt; %s is the model, then `stream`. */
static const struct dialect dialects[] = {
    {"openai", "/v1/chat/completions", "{\"model\":\"%s\",\"stream\":%s,\"max_tokens\":1024,\"temperature\":0.7,"
     "\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"},"
     "{\"role\":\"user\",\"content\":\"",
     "\"}]}", ""},
    {"ollama", "/api/chat", "{\"model\":\"%s\",\"stream\":%s,\"options\":{\"temperature\":0.7,\"num_predict\":1024},"
     "\"messages\":[{\"role\":\"system\",\"content\":\"You are a helpful assistant.\"},"
     "{\"role\":\"user\",\"content\":\"",
     "\"}]}", ""},
    {"anthropic", "/v1/messages", "{\"model\":\"%s\",\"stream\":%s,\"max_tokens\":1024,\"temperature\":0.7,"
     "\"system\":\"You are a helpful assistant.\",\"messages\":[{\"role\":\"user\",\"content\":\"", "\"}]}",
     "anthropic-version: 2023-06-01\r\n"},
};

struct options asked = {.model = "bench", .dialect = dialects, .connections = 1, .tokens = 16, .limit = 60};

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
    while (asked.key_count < MOST_KEYS && fgets(asked.keys[asked.key_count], sizeof asked.keys[0], file) != NULL) {
        asked.keys[asked.key_count][strcspn(asked.keys[asked.key_count], "\r\n")] = '\0';
        asked.key_count += asked.keys[asked.key_count][0] != '\0';
    }
    fclose(file);
    if (asked.key_count == 0)
        die("--keys %s: it holds no key", path);
}

static const struct dialect *find_dialect(const char *name)
{
    for (size_t number = 0; number < sizeof dialects / sizeof *dialects; number++)
        if (strcmp(dialects[number].name, name) == 0)
            return &dialects[number];
    die("--dialect %s: write openai, ollama or anthropic", name);
}

void read_options(int count, char **words)
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
