/* What the client found. */
#include "load.h"

#include <math.h>

#define TOO_MANY_ERRORS 100

struct tally tally;

void add(struct samples *samples, int64_t value)
{
    if (samples->count == samples->room) {
        samples->room = samples->room ? 2 * samples->room : 4096;
        samples->values = must_have(realloc(samples->values, samples->room * sizeof *samples->values));
    }
    samples->values[samples->count++] = value;
}

void note_error(long *kind, const char *format, ...)
{
    va_list words;
    ++*kind;
    if (tally.errors_total++ == 0) {
        va_start(words, format);
        vsnprintf(tally.first_error, sizeof tally.first_error, format, words);
        va_end(words);
    }
    if (tally.errors_total >= TOO_MANY_ERRORS)
        tally.given_up = true;
}

/* The client leaves the request of this serial now. */
void note_leaving(const char *serial)
{
    if (tally.left_count < MOST_LEFT) {
        memcpy(tally.left_at[tally.left_count].serial, serial, SERIAL_DIGITS);
        tally.left_at[tally.left_count++].at = clock_ns();
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

/* `until` is when measuring ended. */
void report(int64_t until, bool in_time)
{
    double seconds = tally.measured_from && until > tally.measured_from ? (until - tally.measured_from) / 1e9 : 0;
    printf("{\"requests\":%ld,\"ended\":%ld,\"good\":%ld,\"events\":%ld,\"unfinished\":%ld,\"rps\":%.1f",
           tally.begun, tally.ended, tally.good, tally.events_seen, in_time ? 0 : tally.busy,
           seconds > 0 ? tally.measured_ended / seconds : 0);
    printf(",\"errors\":{\"connect\":%ld,\"status\":%ld,\"cut\":%ld,\"wrong\":%ld},\"first_error\":",
           tally.errors_connect, tally.errors_status, tally.errors_cut, tally.errors_wrong);
    print_text(tally.first_error);
    print_samples("latency_us", &tally.latency);
    print_samples("first_event_us", &tally.first_event);
    print_samples("event_delay_us", &tally.event_delay);
    printf(",\"left\":[");
    for (long number = 0; number < tally.left_count; number++)
        printf("%s[\"%s\",%lld]", number ? "," : "", tally.left_at[number].serial, (long long)tally.left_at[number].at);
    printf("]}\n");
}
