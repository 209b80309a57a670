/* The arithmetic of AdaMomentum on CPU tensors: one pass over memory.
 *
 * _cpu_step.h has the step for one element type. _cpu_loops.h has all loops for one instruction
 * set. This file compiles the loops for each set, selects the best set of the processor, and
 * divides the work among threads.
 */
#include "_cpu.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- scalar functions used by the loops ---- */

INLINE uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return bits;
}

INLINE float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, 4);
    return x;
}

/* The generator of _rounding.py, bit for bit: a hash of evenly spaced numbers. */
#define STRIDE 0x9E3779B9u /* 2^32 over the golden ratio */

INLINE uint32_t scramble(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    return (x ^ (x >> 15)) * 0x846CA68Bu;
}

/* The number at position `start`. The next position adds STRIDE. */
INLINE uint32_t sequence(int64_t start, double t, uint32_t word)
{
    const uint32_t step = (uint32_t)(uint64_t)t;
    const uint32_t key = scramble(scramble(2 * step + word) + STRIDE * (uint32_t)(start >> 32));
    return scramble(key) + STRIDE * (uint32_t)start;
}

/* Adds noise below the last stored digit: random bits, or half a unit with ties to even. Infinities
 * and NaNs get no noise, which could carry into the sign. Arithmetic yields quiet NaNs only; their
 * mark is among the stored digits. */
INLINE uint16_t round_bf16(float x, uint32_t noise)
{
    const uint32_t bits = bits_of(x);
    return (uint16_t)((bits + ((bits & 0x7F800000) == 0x7F800000 ? 0 : noise)) >> 16);
}

INLINE uint32_t to_nearest(float x) { return 0x7FFF + ((bits_of(x) >> 16) & 1); }

/* Integer arithmetic only: torch.set_flush_denormal must not change small float16 values. */
INLINE float float_of_half(uint16_t half)
{
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31;
    uint32_t digits = half & 0x3FF;
    if (exponent == 31) return float_of(sign | 0x7F800000 | (digits ? 0x400000 | digits << 13 : 0));
    if (exponent) return float_of(sign | (exponent + 112) << 23 | digits << 13);
    if (!digits) return float_of(sign);
    uint32_t shift = 0;
    for (; !(digits & 0x400); digits <<= 1) shift++;
    return float_of(sign | (113 - shift) << 23 | (digits & 0x3FF) << 13);
}

/* Rounds to nearest, ties to even. */
INLINE uint16_t half_of_float(float x)
{
    const uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000, size = bits & 0x7FFFFFFF;
    if (size > 0x7F800000) return (uint16_t)(sign | 0x7E00 | ((size >> 13) & 0x3FF));
    if (size >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* 65,520 and more */
    if (size >= 0x38800000)
        return (uint16_t)(sign | ((size - 0x38000000 + 0xFFF + ((size >> 13) & 1)) >> 13));
    if (size <= 0x33000000) return (uint16_t)sign; /* at most half the smallest float16 */
    const uint32_t shift = 126 - (size >> 23), digits = (size & 0x7FFFFF) | 0x800000;
    const uint32_t kept = digits >> shift, rest = digits & ((1u << shift) - 1),
                   half = 1u << (shift - 1);
    return (uint16_t)(sign | (kept + (rest > half || (rest == half && (kept & 1)))));
}

/* ---- instruction sets ---- */

typedef struct {
    void (*step_f32)(int64_t, float *, const float *, float *, float *, float *, const Scalars *,
                     int);
    void (*step_f64)(int64_t, double *, const double *, double *, double *, double *,
                     const Scalars *, int);
    void (*small)(int, int64_t, float *, const float *, uint16_t *, uint16_t *, const Scalars *);
    void (*draw)(int, int64_t, double, uint32_t, uint32_t *);
    void (*widen_bf16)(int, const uint16_t *, float *);
    void (*narrow_bf16)(int, const float *, uint16_t *, const uint32_t *, int);
    void (*widen_f16)(int, const uint16_t *, float *);
    void (*narrow_f16)(int, const float *, uint16_t *);
} Loops;

#define WIDE 0
#define TARGET(name) name##_any
#include "_cpu_loops.h"
#undef TARGET
#undef WIDE

/* The same loops with AVX2, through pragmas that gcc 11 and clang support too. */
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
#define WIDE 1
#define TARGET(name) name##_avx2
#include "_cpu_loops.h"
#undef TARGET
#undef WIDE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static const Loops *best(void)
{
    unsigned a, b, c = 0, d;
    const int f16c = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
    __builtin_cpu_init(); /* also checks whether the system saves the wide registers */
    return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &loops_avx2
                                                                                   : &loops_any;
}
#else
static const Loops *best(void) { return &loops_any; }
#endif

/* ---- narrow types, one block at a time ---- */

enum { BLOCK = 1024 };

static void widen(const Loops *loops, enum Type type, int n, const char *from, float *to)
{
    if (type == F32) memcpy(to, from, (size_t)n * 4);
    else if (type == BF16) loops->widen_bf16(n, (const uint16_t *)from, to);
    else loops->widen_f16(n, (const uint16_t *)from, to);
}

static void narrow(const Loops *loops, enum Type type, int n, const float *from, char *to,
                   const uint32_t *random, int shift)
{
    if (type == F32) memcpy(to, from, (size_t)n * 4);
    else if (type == BF16) loops->narrow_bf16(n, from, (uint16_t *)to, random, shift);
    else loops->narrow_f16(n, from, (uint16_t *)to);
}

static const int width_of[] = {[F32] = 4, [F64] = 8, [BF16] = 2, [F16] = 2};

static void update_narrow(const Loops *loops, const Record *r, int64_t start, int n,
                          const Scalars *s, int flags, int stochastic)
{
    float param[BLOCK], grad[BLOCK], m[BLOCK], v[BLOCK], v_max[BLOCK];
    uint32_t random[BLOCK];
    const enum Type p = r->param_type, g = r->grad_type, state = r->state_type;
    char *const p_at = r->data[PARAM] + start * width_of[p];
    const int64_t offset = start * width_of[state];
    const int has_max = r->data[V_MAX] != NULL;
    widen(loops, p, n, p_at, param);
    widen(loops, g, n, r->data[GRAD] + start * width_of[g], grad);
    widen(loops, state, n, r->data[M] + offset, m);
    widen(loops, state, n, r->data[V] + offset, v);
    if (has_max) widen(loops, state, n, r->data[V_MAX] + offset, v_max);

    loops->step_f32(n, param, grad, m, v, v_max, s, flags);

    const int round_param = stochastic && p == BF16;
    if (state == BF16) loops->draw(n, start, s->t, 0, random);
    narrow(loops, state, n, m, r->data[M] + offset, random, 0);
    narrow(loops, state, n, v, r->data[V] + offset, random, 16);
    if (round_param || (has_max && state == BF16)) loops->draw(n, start, s->t, 1, random);
    narrow(loops, p, n, param, p_at, round_param ? random : NULL, 0);
    if (has_max) narrow(loops, state, n, v_max, r->data[V_MAX] + offset, random, 16);
}

/* ---- division of the work among threads ---- */

/* Pointer to element `start` of a tensor; NULL if there is no tensor. */
#define AT(type, role) (r->data[role] ? (type *)r->data[role] + start : NULL)

/* Updates blocks `from` to `to` of one record. */
static void update(const Loops *loops, const Record *r, int64_t from, int64_t to, const Scalars *s,
                   int flags, int stochastic)
{
    int64_t start = from * BLOCK;
    const int64_t end = to * BLOCK < r->size ? to * BLOCK : r->size;
    const int plain = r->param_type == F32 && r->grad_type == F32;
    if (plain && r->state_type == F32) {
        loops->step_f32(end - start, AT(float, PARAM), AT(float, GRAD), AT(float, M), AT(float, V),
                        AT(float, V_MAX), s, flags);
        return;
    }
    if (r->param_type == F64) {
        loops->step_f64(end - start, AT(double, PARAM), AT(double, GRAD), AT(double, M),
                        AT(double, V), AT(double, V_MAX), s, flags);
        return;
    }
    for (; start < end; start += BLOCK) {
        const int n = (int)(end - start < BLOCK ? end - start : BLOCK);
        if (plain && !flags)
            loops->small(n, start, AT(float, PARAM), AT(float, GRAD), AT(uint16_t, M),
                         AT(uint16_t, V), s);
        else
            update_narrow(loops, r, start, n, s, flags, stochastic);
    }
}

typedef struct {
    const char *start, *end;
    int written;
} Range;

static int by_start(const void *a, const void *b)
{
    const Range *x = a, *y = b;
    return x->start < y->start ? -1 : x->start > y->start;
}

/* Whether a tensor that the step writes shares memory with another tensor: a parameter listed twice,
 * two views of one storage, or the gradient of one parameter in another. Returns 1, 0, or -1 if out
 * of memory. */
static int overlap(const Plan *plan)
{
    Range *ranges = malloc((size_t)plan->size * STEP * sizeof(Range));
    if (!ranges) return -1;
    size_t count = 0;
    for (Py_ssize_t i = 0; i < plan->size; i++) {
        const Record *r = &plan->records[i];
        const uint8_t types[] = {r->param_type, r->grad_type, r->state_type};
        for (int role = PARAM; role < STEP && r->size; role++) {
            const char *start = r->data[role];
            const int64_t bytes = r->size * width_of[types[role < M ? role : M]];
            if (start) ranges[count++] = (Range){start, start + bytes, role != GRAD};
        }
    }
    qsort(ranges, count, sizeof(Range), by_start);
    const char *end = NULL, *end_written = NULL; /* of the ranges so far */
    int found = 0;
    for (const Range *r = ranges; r < ranges + count && !found; r++) {
        found = r->start < (r->written ? end : end_written);
        if (r->end > end) end = r->end;
        if (r->written && r->end > end_written) end_written = r->end;
    }
    free(ranges);
    return found;
}

INLINE int64_t blocks_of(const Record *r) { return (r->size + BLOCK - 1) / BLOCK; }

static const Loops *loops;

void choose_loops(void) { loops = best(); }

int update_all(const Plan *plan, int flags, int stochastic, int threads)
{
    int64_t total = 0, elements = 0;
    for (Py_ssize_t i = 0; i < plan->size; i++) {
        total += blocks_of(&plan->records[i]);
        elements += plan->records[i].size;
    }
    /* Waking a thread costs as much as updating about ten thousand elements. */
    if (threads > 1 + elements / 65536) threads = (int)(1 + elements / 65536);
    if (threads > 1) {
        const int shared = overlap(plan);
        if (shared < 0) return 0;
        if (shared) threads = 1; /* update one after the other, in the order of the group */
    }
    /* Many small parts, assigned dynamically: a thread that loses its core for a moment does not
     * delay the others. */
    const int parts = threads > 1 ? 16 * threads : 1;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int part = 0; part < parts; part++) {
        const int64_t first = total * part / parts, last = total * (part + 1) / parts;
        int64_t before = 0;
        for (Py_ssize_t i = 0; i < plan->size && before < last; i++) {
            const Record *r = &plan->records[i];
            const int64_t blocks = blocks_of(r), from = first - before, to = last - before;
            if (from < blocks)
                update(loops, r, from > 0 ? from : 0, to < blocks ? to : blocks,
                       &plan->scalars[r->scalars], flags, stochastic);
            before += blocks;
        }
    }
    return 1;
}
