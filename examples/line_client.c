/* A cache in a process of its own, in C: FIFO or LRU behind softhit's line protocol (docs/replay.md).
 *
 *     cc -O2 -o line_client line_client.c
 *     softhit replay TRACE --exec "./line_client lru" -K 8
 *
 * A cache of yours keeps main() and next_line(). get() reads one number of a line, which is all the JSON that
 * this needs: softhit writes no spaces and no objects within objects.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Items in a doubly linked ring through a sentinel at index n: next[n] leaves first, prev[n] came last. */
static long n, *next, *prev, held, capacity;
static char *in;

static void begin(long items)
{
    n = items;
    next = realloc(next, (n + 1) * sizeof *next);
    prev = realloc(prev, (n + 1) * sizeof *prev);
    in = realloc(in, n + 1);
    if (!next || !prev || !in)
        exit(3);
    memset(in, 0, n + 1);
    next[n] = prev[n] = n;
    held = 0;
}

static void leave(long i)
{
    next[prev[i]] = next[i];
    prev[next[i]] = prev[i];
    in[i] = 0;
    held--;
}

static void enter(long i)
{
    prev[i] = prev[n];
    next[i] = n;
    next[prev[n]] = i;
    prev[n] = i;
    in[i] = 1;
    held++;
}

/* The integer after "name":, or -1. */
static long get(const char *line, const char *name)
{
    char key[40];
    const char *at;
    snprintf(key, sizeof key, "\"%s\":", name);
    at = strstr(line, key);
    return at ? strtol(at + strlen(key), NULL, 10) : -1;
}

/* The next line of the input, or NULL at its end. Replies go out, all at once, before it waits for more. */
static char *next_line(void)
{
    static char *buffer;
    static size_t from, to, room;
    for (;;) {
        char *end = to > from ? memchr(buffer + from, '\n', to - from) : NULL;
        ssize_t got;
        if (end) {
            char *line = buffer + from;
            *end = 0;
            from = end + 1 - buffer;
            return line;
        }
        fflush(stdout);
        if (from > 0) {
            memmove(buffer, buffer + from, to - from);
            to -= from;
            from = 0;
        }
        if (room - to < 1 << 16) {
            room = 2 * room + (1 << 17);
            if (!(buffer = realloc(buffer, room)))
                exit(3);
        }
        got = read(0, buffer + to, room - to);
        if (got <= 0)
            return NULL;
        to += got;
    }
}

int main(int argc, char **argv)
{
    int lru = argc > 1 && strcmp(argv[1], "lru") == 0;
    char *line;
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    while ((line = next_line())) {
        if (strstr(line, "\"v\":")) { /* hello: begin, or begin again */
            if (!strstr(line, "\"sizes\":null")) {
                puts("{\"unsupported\":\"this cache knows items of size 1 only\"}");
                return 0;
            }
            capacity = get(line, "capacity");
            begin(get(line, "n_items"));
            printf("{\"v\":1,\"name\":\"C %s\",\"ahead\":256,\"restart\":true}\n", lru ? "LRU" : "FIFO");
        } else if (strstr(line, "\"t\":")) { /* a step: first the query, then the arrival */
            long t = get(line, "t"), query = get(line, "query"), item = get(line, "arrival"), out = -1;
            if (lru && get(line, "weight") > 0 && query >= 0 && in[query]) {
                leave(query);
                enter(query);
            }
            if (item < 0 || in[item]) {
                printf("{\"t\":%ld}\n", t);
            } else {
                if (held == capacity)
                    leave(out = next[n]);
                enter(item);
                if (out < 0)
                    printf("{\"t\":%ld,\"admit\":[%ld]}\n", t, item);
                else
                    printf("{\"t\":%ld,\"evict\":[%ld],\"admit\":[%ld]}\n", t, out, item);
            }
        } else { /* bye */
            break;
        }
    }
    return 0;
}
