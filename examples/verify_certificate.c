/* Check a softhit certificate against a trace: a second reader of the format of docs/certificates.md,
 * independent of the Python one, in one pass over the trace and in exact 128-bit integers.
 *
 *   cc -O2 -o verify_certificate verify_certificate.c -lz      (or -DRAW_ONLY, without zlib)
 *   ./verify_certificate answer.cert trace.sht
 *
 * Exit: 0 proved, 1 rejected, 2 usage, 3 numbers beyond 127 bits (the Python checker has no such limit).
 * For little-endian machines and compilers with __int128 (gcc, clang).
 */
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef RAW_ONLY
#include <zlib.h>
#endif

typedef __int128 big;

static void stop(int code, const char *format, ...) {
    va_list given;
    va_start(given, format);
    if (code == 1) printf("rejected: ");
    vfprintf(code == 1 ? stdout : stderr, format, given);
    fprintf(code == 1 ? stdout : stderr, "\n");
    exit(code);
}
#define NEED(condition, ...) do { if (!(condition)) stop(1, __VA_ARGS__); } while (0)

static void *room(size_t count, size_t width) {
    void *p = calloc(count + 1, width);
    if (!p) stop(3, "out of memory");
    return p;
}
static big add(big a, big b) {
    big c;
    if (__builtin_add_overflow(a, b, &c)) stop(3, "beyond 127 bits");
    return c;
}
static big mul(big a, big b) {
    big c;
    if (__builtin_mul_overflow(a, b, &c)) stop(3, "beyond 127 bits");
    return c;
}
static big sub(big a, big b) { return add(a, -b); } /* no value is the least one, so -b exists */
static big up(big a, big b) { return a / b + (a % b > 0); } /* ceil(a / b), b > 0 */
static big gcd(big a, big b) { while (b) { big r = a % b; a = b; b = r; } return a < 0 ? -a : a; }

/* ---- SHA-256 (FIPS 180-4); its constants are the first bits of roots of primes ---- */

static uint32_t fraction_bits(unsigned prime, int cube) { /* first 32 bits behind the point of the root */
    big low = 0, high = (big)1 << 37;
    while (high - low > 1) {
        big m = (low + high) / 2;
        int below = cube ? m * m * m <= ((big)prime << 96) : m * m <= ((big)prime << 64);
        if (below) low = m; else high = m;
    }
    return (uint32_t)low;
}
static uint32_t turn(uint32_t x, int n) { return x >> n | x << (32 - n); }

static void sha256(const uint8_t *data, size_t size, uint8_t out[32]) {
    uint32_t h[8], k[64], w[64], v[8];
    for (unsigned n = 0, p = 2; n < 64; p++) {
        unsigned d = 2;
        while (p % d) d++;
        if (d < p) continue;
        if (n < 8) h[n] = fraction_bits(p, 0);
        k[n++] = fraction_bits(p, 1);
    }
    size_t blocks = (size + 8) / 64 + 1;
    for (size_t b = 0; b < blocks; b++) {
        uint8_t block[64] = {0};
        size_t at = b * 64;
        if (at < size) memcpy(block, data + at, size - at < 64 ? size - at : 64);
        if (at <= size && size < at + 64) block[size - at] = 0x80;
        if (b == blocks - 1)
            for (int i = 0; i < 8; i++) block[63 - i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
        for (int i = 0; i < 64; i++) {
            if (i < 16) {
                const uint8_t *c = block + 4 * i;
                w[i] = (uint32_t)c[0] << 24 | c[1] << 16 | c[2] << 8 | c[3];
            } else {
                uint32_t a = w[i - 15], c = w[i - 2];
                w[i] = w[i - 16] + w[i - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3);
                w[i] += turn(c, 17) ^ turn(c, 19) ^ c >> 10;
            }
        }
        memcpy(v, h, sizeof v);
        for (int i = 0; i < 64; i++) {
            uint32_t e = v[4], a = v[0];
            uint32_t s = v[7] + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + k[i] + w[i];
            s += (e & v[5]) ^ (~e & v[6]);
            uint32_t m = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
            memmove(v + 1, v, 7 * sizeof *v);
            v[4] += s;
            v[0] = s + m;
        }
        for (int i = 0; i < 8; i++) h[i] += v[i];
    }
    for (int i = 0; i < 32; i++) out[i] = (uint8_t)(h[i / 4] >> 8 * (3 - i % 4));
}

/* ---- the two files ---- */

static uint8_t *slurp(const char *name, size_t *size) {
    FILE *file = fopen(name, "rb");
    if (!file || fseek(file, 0, SEEK_END)) stop(2, "error: cannot read %s", name);
    *size = (size_t)ftell(file);
    uint8_t *data = room(*size, 1);
    rewind(file);
    if (fread(data, 1, *size, file) != *size) stop(2, "error: cannot read %s", name);
    fclose(file);
    return data;
}

/* The header is one line of JSON in one fixed form: it is read token by token, and nothing else passes. */
static const char *header, *at;
#define WHERE (long)(at - header)

static int next_is(const char *token) {
    size_t n = strlen(token);
    return !strncmp(at, token, n) && (at += n);
}
static void token(const char *text) { NEED(next_is(text), "the header is not as expected at byte %ld", WHERE); }
static void name(const char *text) { token(",\""), token(text), token("\":"); }
static int choice(const char *const *known) {
    token("\"");
    for (int i = 0; known[i]; i++) {
        size_t n = strlen(known[i]);
        if (!strncmp(at, known[i], n) && at[n] == '"') return at += n + 1, i;
    }
    stop(1, "the header has an unknown value at byte %ld", WHERE);
    return -1;
}
static big whole(void) {
    big value = 0;
    const char *start = at;
    NEED(*at >= '0' && *at <= '9', "the header has no number at byte %ld", WHERE);
    for (; *at >= '0' && *at <= '9'; at++) value = add(mul(value, 10), *at - '0');
    NEED(*start != '0' || at == start + 1, "a number begins with 0 at byte %ld", WHERE);
    return value;
}
static void fraction(const char *key, big *p, big *q) {
    name(key), token("\"");
    int minus = next_is("-");
    *p = whole(), *q = 1;
    if (next_is("/")) { *q = whole(); NEED(*q > 1 && gcd(*p, *q) == 1, "%s is not in lowest terms", key); }
    NEED(!minus || *p, "%s is -0", key);
    if (minus) *p = -*p;
    token("\"");
}

typedef struct { size_t count; big *value; } list;
static const uint8_t *body, *body_end;

static list take(const char *what, int first) { /* decode the next array */
    list out = {0, NULL};
    token(first ? "{\"name\":\"" : ",{\"name\":\""), token(what), token("\"");
    name("count");
    big count = whole();
    name("width");
    big width = whole();
    name("codec");
    int packed = choice((const char *[]){"raw", "deflate", NULL});
    name("bytes");
    big bytes = whole();
    token("}");
    NEED(width > 0 && width <= 64 && bytes <= body_end - body, "array %s is cut off", what);
    NEED(count < 1LL << 40 && (packed || bytes == count * width), "array %s has a wrong length", what);
    uint8_t *raw = room((size_t)count, (size_t)width);
    if (!packed) memcpy(raw, body, (size_t)bytes);
    if (packed) {
#ifdef RAW_ONLY
        stop(3, "built without zlib: write the certificate with codec raw");
#else
        uLongf size = (uLongf)(count * width) + 1, source = (uLongf)bytes;
        int code = uncompress2(raw, &size, body, &source);
        NEED(code == Z_OK && size == count * width && source == bytes, "array %s is damaged", what);
#endif
    }
    body += bytes;
    out.count = (size_t)count;
    out.value = room(out.count, sizeof(big));
    for (size_t i = 0; i < out.count; i++)
        for (size_t b = (size_t)width; b-- > 0;) {
            if (out.value[i] >> 118) stop(3, "beyond 127 bits");
            out.value[i] = out.value[i] << 8 | raw[i * (size_t)width + b];
        }
    free(raw);
    return out;
}

static int64_t N, T, E, scale_q, ranked; /* the trace */
static int64_t *indptr, *sizes;
static int32_t *items, *quality, *ranks, *arrivals, *weight;

static void *part(const uint8_t *data, size_t *from, int64_t count, size_t width) {
    void *p = room((size_t)count, width);
    memcpy(p, data + *from, (size_t)count * width);
    *from += (size_t)count * width;
    return p;
}
static void read_trace(const uint8_t *data, size_t size) {
    NEED(size >= 56 && !memcmp(data, "softhit-trace-1\n", 16), "the trace is not in canonical form");
    int64_t c[5];
    memcpy(c, data + 16, 40);
    N = c[0], T = c[1], E = c[2], scale_q = c[3], ranked = c[4];
    int possible = N >= 0 && T >= 0 && E >= 0 && N < 1LL << 31 && T < 1LL << 31 && E < 1LL << 40;
    possible = possible && (ranked == 0 || ranked == 1) && scale_q >= 1 && scale_q <= 1000000000;
    NEED(possible, "the trace states impossible counts");
    NEED(size == (size_t)(64 + 16 * T + (8 + 4 * ranked) * E + 8 * N), "the trace has a wrong length");
    size_t from = 56;
    indptr = part(data, &from, T + 1, 8);
    items = part(data, &from, E, 4);
    quality = part(data, &from, E, 4);
    if (ranked) ranks = part(data, &from, E, 4);
    arrivals = part(data, &from, T, 4);
    weight = part(data, &from, T, 4);
    sizes = part(data, &from, N, 8);
    NEED(indptr[0] == 0 && indptr[T] == E, "the trace's rows are out of order");
    for (int64_t t = 0; t < T; t++) {
        NEED(indptr[t] <= indptr[t + 1] && indptr[t + 1] <= E, "the trace's rows are out of order");
        int fits = weight[t] >= 0 && arrivals[t] >= -1 && arrivals[t] < N;
        NEED(fits, "step %lld is out of range", (long long)t);
        for (int64_t x = indptr[t]; x < indptr[t + 1]; x++) {
            NEED(items[x] >= 0 && items[x] < N && quality[x] >= 0 && quality[x] <= scale_q &&
                 (!ranked || ranks[x] >= 0), "an entry of step %lld is out of range", (long long)t);
            NEED(x == indptr[t] || items[x - 1] < items[x], "step %lld is not ascending", (long long)t);
        }
    }
    for (int64_t i = 0; i < N; i++) NEED(sizes[i] >= 1 && sizes[i] <= 1LL << 40, "a size is out of range");
}

/* ---- the model ---- */

enum { BEST, MEAN, COVERAGE };
static int aggregator;
static int64_t k;

static int64_t order_of(int64_t x, int by_rank) { return by_rank && ranked ? ranks[x] : -(int64_t)quality[x]; }

/* Utility, in units of 1/full, of the first k marked entries of step t: by rank (or quality), then by id. */
static big utility(int64_t t, const uint8_t *mark, int by_rank, int64_t *best, int64_t *number) {
    int64_t n = 0;
    for (int64_t x = indptr[t]; x < indptr[t + 1]; x++) {
        if (!mark[x - indptr[t]]) continue;
        int64_t to = n < k ? n++ : k;
        for (; to > 0 && order_of(best[to - 1], by_rank) > order_of(x, by_rank); to--)
            if (to < k) best[to] = best[to - 1];
        if (to < k) best[to] = x;
    }
    big sum = 0;
    if (aggregator != COVERAGE) {
        for (int64_t j = 0; j < n; j++) sum += quality[best[j]];
        return sum;
    }
    if (n == 0) return 0;
    memset(number, 0, (size_t)(n + 1) * sizeof *number); /* prod (scale - s) in base scale */
    number[0] = 1;
    for (int64_t j = 0; j < n; j++) {
        int64_t carry = 0;
        for (int64_t d = 0; d < n; d++) {
            int64_t value = number[d] * (scale_q - quality[best[j]]) + carry;
            number[d] = value % scale_q;
            carry = value / scale_q;
        }
        number[n] = number[n] * (scale_q - quality[best[j]]) + carry; /* all there is if the scale is 1 */
    }
    int below = 0;
    for (int64_t d = 0; d < n - 1; d++) below |= number[d] != 0;
    return scale_q - (number[n - 1] + number[n] * scale_q + below);
}

static void show(big p, big q) {
    char text[160], *c = text + 159;
    big g = gcd(p, q), a = p / g, b = q / g;
    int minus = a < 0;
    *c = 0;
    if (b != 1) { for (; b; b /= 10) *--c = (char)('0' + (int)(b % 10)); *--c = '/'; }
    if (minus) a = -a;
    do *--c = (char)('0' + (int)(a % 10)); while (a /= 10);
    if (minus) *--c = '-';
    printf("%s", c);
}

int main(int argc, char **argv) {
    if (argc != 3) stop(2, "usage: verify_certificate CERTIFICATE TRACE.sht");
    size_t size, trace_size;
    uint8_t *file = slurp(argv[1], &size), *trace = slurp(argv[2], &trace_size), digest[32];
    int known = size > 33 && !strncmp((char *)file, "{\"format\":\"softhit-certificate\",", 32);
    NEED(known, "this is no softhit certificate");
    sha256(file, size - 32, digest);
    int sealed = !memcmp(digest, file + size - 32, 32);
    header = at = (char *)file;
    if (next_is("{\"format\":\"softhit-certificate\",\"format_version\":") && *at >= '1' && *at <= '9') {
        int n = (int)strspn(at, "0123456789"); /* later versions may have other fields, and another seal */
        NEED(!strncmp(at, "1,", 2) || at[n] != ',' || n > 9, "the certificate has format version %.*s; %s%s", n,
             at, "this reader knows version 1", sealed ? "" : ", or the file is damaged");
    }
    NEED(sealed, "the file is damaged");
    uint8_t *end = memchr(file, '\n', size - 32);
    NEED(end && !memchr(file, 0, (size_t)(end - file)), "the header is not one line of text");
    *end = 0;
    body = end + 1;
    body_end = file + size - 32;
    read_trace(trace, trace_size);
    char hex[65];
    sha256(trace, trace_size, digest);
    for (int i = 0; i < 32; i++) sprintf(hex + 2 * i, "%02x", digest[i]);

    header = at = (char *)file;
    token("{\"format\":\"softhit-certificate\",\"format_version\":1");
    name("trace"), token("\"");
    NEED(next_is(hex), "the certificate is for another trace");
    token("\""), name("n_steps");
    NEED(whole() == T, "the certificate has another number of steps than the trace");
    big K, many, entry, p, q, lam_p, lam_q, grid_p, grid_q, claim_p, claim_q, cost_p, cost_q;
    name("capacity"), K = whole(), fraction("switch_cost", &lam_p, &lam_q);
    name("order");
    int delay = !choice((const char *[]){"serve_then_update", "update_then_serve", NULL});
    name("availability");
    int stream = !choice((const char *[]){"stream", "pool", NULL});
    name("fill");
    int free_fill = !choice((const char *[]){"free", "charged", NULL});
    name("aggregator");
    const char *aggregators[] = {"best", "mean_topk", "coverage", NULL};
    aggregator = choice(aggregators);
    name("top_k"), many = whole(), fraction("unit", &p, &q);
    name("entry"), entry = whole(), fraction("grid", &grid_p, &grid_q);
    fraction("lower_bound", &claim_p, &claim_q), fraction("upper_bound", &cost_p, &cost_q);
    NEED(K >= 1 && many >= 1 && (aggregator != BEST || many == 1), "a number is out of range");
    NEED(p > 0 && lam_p >= 0 && grid_p >= 0, "unit, switch_cost or grid is negative");
    int64_t longest = 1;
    for (int64_t t = 0; t < T; t++)
        if (indptr[t + 1] - indptr[t] > longest) longest = indptr[t + 1] - indptr[t];
    k = many < longest ? (int64_t)many : longest;
    big full = aggregator == MEAN ? mul(scale_q, many) : scale_q;
    NEED(mul(mul(entry, p), lam_q) <= mul(lam_p, q), "the price of an insertion is above the switching cost");
    big scale = mul(q / gcd(q, full), full), factor = mul(p, scale / q); /* prices become units of 1/scale */
    entry = mul(entry, factor);

    name("arrays"), token("[");
    list enter = take("enter", 1), length = take("length", 0), item = take("item", 0), when[3], price[3];
    static const char *where[] = {"slot_at", "serve_at", "credit_at"}, *what[] = {"slot", "serve", "credit"};
    big *dense[3] = {0};
    for (int a = 0; a < 3; a++) {
        if (a == 2 && *at == ']') break;
        when[a] = take(where[a], 0), price[a] = take(what[a], 0);
        NEED(when[a].count == price[a].count && (a < 2 || aggregator == COVERAGE), "bad prices %s", what[a]);
        dense[a] = room((size_t)T, sizeof(big));
        big step = 0;
        for (size_t i = 0; i < when[a].count; i++) {
            step = add(step, when[a].value[i]);
            NEED(step < T && (i == 0 || when[a].value[i] > 0), "%s names a wrong step", where[a]);
            dense[a][step] = mul(price[a].value[i], factor);
        }
    }
    token("]}");
    NEED(!*at && body == body_end, "there is something behind the last array");
    size_t stays = enter.count;
    NEED(length.count == stays && item.count == stays, "enter, length and item must have one length");

    /* who leaves when: a linked list of stays per step */
    size_t *leavers = room((size_t)T, sizeof(size_t)), *next = room(stays, sizeof(size_t));
    for (size_t s = 0; s < stays; s++) {
        enter.value[s] = add(enter.value[s], s ? enter.value[s - 1] : 0);
        big leave = add(enter.value[s], length.value[s]);
        NEED(length.value[s] >= 1 && leave <= T && item.value[s] < N, "stay %zu is out of range", s);
        if (leave < T) next[s] = leavers[leave], leavers[leave] = s + 1;
    }

    uint8_t *held = room((size_t)N, 1), *mark = room((size_t)longest, 1), *in = room((size_t)N, 1);
    int64_t *best = room((size_t)k, 8), *number = room((size_t)k + 2, 8);
    int64_t *chance = room((size_t)N, 8); /* latest boundary at which the item could enter, plus 1 */
    int64_t *since = room((size_t)N, 8);  /* boundary behind the last step that has the item in its row */
    big *off = room((size_t)N, sizeof(big)), *on = room((size_t)N, sizeof(big)); /* best value, out or in */
    big *paid = room((size_t)T + 1, sizeof(big));
    big missed = 0, inserted = 0, used = 0, total_weight = 0, low = 0;
    big miss_grid = grid_p ? mul(grid_p, full) / gcd(mul(grid_p, full), grid_q) : 1; /* of grid * full */
    size_t s = 0;
    for (int64_t t = 0; t < T; t++) {
        big w = weight[t];
        total_weight += w;
        paid[t + 1] = add(paid[t], dense[0][t]);
        for (int half = 0; half < 2; half++) {
            if (half == delay) { /* the update of step t */
                for (size_t l = leavers[t]; l; l = next[l - 1])
                    held[item.value[l - 1]] = 0, used -= sizes[item.value[l - 1]];
                for (; s < stays && enter.value[s] == t; s++) {
                    big i = item.value[s];
                    NEED(!held[i], "at step %lld an item enters that is already held", (long long)t);
                    NEED(!stream || arrivals[t] == i, "at step %lld not the arrival enters", (long long)t);
                    held[i] = 1, used += sizes[i], inserted += sizes[i];
                }
                NEED(used <= K, "after step %lld the cache holds more than its capacity", (long long)t);
                if (arrivals[t] >= 0) chance[arrivals[t]] = t + delay + 1;
                continue;
            }
            if (w == 0) continue;
            int64_t a = indptr[t], b = indptr[t + 1];
            for (int64_t x = a; x < b; x++) mark[x - a] = held[items[x]];
            missed = add(missed, mul(w, full - utility(t, mark, 1, best, number)));
            for (int64_t x = a; x < b; x++) { /* one step of each item's programme */
                int32_t i = items[x];
                int64_t open = stream ? chance[i] - 1 : t >= delay ? t : -1;
                mark[x - a] = open >= 0 && sizes[i] <= K;
                if (open < since[i] || !mark[x - a]) open = -1;
                if (in[i]) on[i] = sub(on[i], mul(sizes[i], paid[t + 1] - paid[since[i]]));
                if (open >= 0) {
                    big fresh = sub(off[i], mul(sizes[i], add(entry, paid[t + 1] - paid[open])));
                    if (!in[i] || fresh > on[i]) on[i] = fresh;
                    in[i] = 1;
                }
                big gain = mul(w * quality[x], scale / full);
                if (dense[2]) gain = up(mul(dense[2][t], quality[x]), full);
                gain = sub(gain, dense[1][t]);
                if (in[i] && gain > 0) on[i] = add(on[i], gain);
                if (in[i] && on[i] > off[i]) off[i] = on[i];
                since[i] = t + 1;
                if (aggregator != COVERAGE && grid_p)
                    NEED(w * quality[x] % miss_grid == 0, "not all costs are multiples of the grid");
            }
            if (dense[2]) { /* what the step keeps */
                big left = sub(mul(w, scale), dense[2][t]);
                NEED(left >= 0, "a credit is above the weight of its step");
                low = sub(low, up(mul(left, utility(t, mark, 0, best, number)), full));
            }
        }
        if (dense[2] && w == 0) NEED(dense[2][t] == 0, "a credit is above the weight of its step");
        int off_grid = aggregator == COVERAGE && grid_p && w % miss_grid;
        NEED(!off_grid, "not all costs are multiples of the grid");
        low = sub(low, mul(many, dense[1][t]));
    }
    NEED(s == stays, "a stay begins out of order");
    low = sub(add(low, mul(total_weight, scale)), mul(K, add(paid[T], free_fill ? entry : 0)));
    for (int64_t i = 0; i < N; i++) low = sub(low, off[i]);
    big low_q = scale;
    if (grid_p) {
        big moved = mul(lam_q, grid_p) / gcd(mul(lam_p, grid_q), mul(lam_q, grid_p)); /* of lambda / grid */
        int fits = mul(total_weight, full) % miss_grid == 0 && !(free_fill && K % moved);
        for (int64_t i = 0; i < N; i++) fits &= sizes[i] % moved == 0;
        NEED(fits, "not all costs are multiples of the grid");
        low = mul(up(mul(low, grid_q), mul(scale, grid_p)), grid_p);
        low_q = grid_q;
    }
    big charged = !free_fill ? inserted : inserted > K ? inserted - K : 0;
    big high = add(mul(missed, lam_q), mul(mul(lam_p, charged), full)), high_q = mul(full, lam_q);
    NEED(mul(high, cost_q) == mul(cost_p, high_q), "the schedule has another cost than the certificate says");
    NEED(mul(low, claim_q) == mul(claim_p, low_q), "the prices prove another bound than the certificate says");
    NEED(mul(low, high_q) <= mul(high, low_q), "the bounds cross: a bug of this checker");
    printf("proved: ");
    show(low, low_q);
    printf(" <= OPT <= ");
    show(high, high_q);
    printf(" for K = ");
    show(K, 1);
    printf(", lambda = ");
    show(lam_p, lam_q);
    printf(", %s/%s/%s/%s", delay ? "serve_then_update" : "update_then_serve", stream ? "stream" : "pool",
           free_fill ? "free" : "charged", aggregators[aggregator]);
    if (many > 1) { printf("("); show(many, 1); printf(")"); }
    printf(", trace %.12s\n", hex);
    return 0;
}
