/* The arithmetic of AdaMomentum on CPU tensors: one pass over memory.
 *
 * It is rule.py's with its scalars gathered, as in _scalars.py:
 *     m = b1 m + (1-b1) g;  v = b2 v + (1-b2) (k m)^2 + eps
 *     param = kept param + (a m + b g) / (sqrt(v) scale + shift)
 */
#include "_cpu.h"

#include <float.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__)
/* Chosen when the module is loaded; the first has AVX2, FMA and F16C. */
#define CLONES __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define CLONES
#endif
#define INLINE static inline __attribute__((always_inline))

enum { BLOCK = 1024 };

#define ARITHMETIC(REAL, MOST, SQRT, NAME)                                                        \
    INLINE void NAME##_body(int64_t n, REAL *restrict param, const REAL *restrict grad,           \
                            REAL *restrict m, REAL *restrict v, REAL *restrict v_max,             \
                            const Scalars *s, const int flags)                                    \
    {                                                                                             \
        const REAL factor = s->factor, coupled = s->coupled, b1 = s->b1, w1 = s->w1, k = s->k,        \
                   b2 = s->b2, w2 = s->w2, eps = s->eps, scale = s->scale, shift = s->shift,      \
                   a = s->a, b = s->b, kept = s->kept;                                            \
        for (int64_t i = 0; i < n; i++) {                                                         \
            REAL g = factor * grad[i];                                                            \
            if (flags & COUPLED) g += coupled * param[i];                                         \
            const REAL mi = b1 * m[i] + w1 * g, ki = k * mi;                                      \
            const REAL vi = b2 * v[i] + w2 * (ki * ki) + eps;                                     \
            m[i] = mi;                                                                            \
            v[i] = vi;                                                                            \
            REAL most = vi;                                                                       \
            if (flags & AMSGRAD) {                                                                \
                most = vi <= v_max[i] ? v_max[i] : vi; /* a NaN in v wins */                      \
                v_max[i] = most;                                                                  \
            }                                                                                     \
            REAL root = SQRT(most == 0 ? 1 : most); /* 0/0 becomes 0, as in rule.py */            \
            if (flags & RECTIFY) { /* before it sets in, scale is 0, and inf * 0 would be NaN */  \
                root = root < MOST ? root : MOST;                                                 \
                root = (root + eps) * scale + shift;                                              \
            } else {                                                                              \
                root *= scale;                                                                    \
            }                                                                                     \
            REAL numerator = a * mi;                                                              \
            if (flags & NESTEROV) numerator += b * g;                                             \
            param[i] = kept * param[i] + numerator / root;                                        \
        }                                                                                         \
    }                                                                                             \
    CLONES static void NAME(int64_t n, REAL *param, const REAL *grad, REAL *m, REAL *v,           \
                            REAL *v_max, const Scalars *s, int flags)                             \
    {                                                                                             \
        switch (flags) { /* constants, so that each loop is free of branches */                   \
            CASES(NAME, 0)                                                                        \
            CASES(NAME, AMSGRAD)                                                                  \
            CASES(NAME, RECTIFY)                                                                  \
        }                                                                                         \
    }
#define CASE(NAME, FLAGS)                                             \
    case FLAGS:                                                       \
        NAME##_body(n, param, grad, m, v, v_max, s, FLAGS);           \
        break;
#define CASES(NAME, FLAGS)                                            \
    CASE(NAME, FLAGS)                                                 \
    CASE(NAME, ((FLAGS) | COUPLED))                                   \
    CASE(NAME, ((FLAGS) | NESTEROV))                                  \
    CASE(NAME, ((FLAGS) | NESTEROV | COUPLED))

ARITHMETIC(float, FLT_MAX, __builtin_sqrtf, update_f32)
ARITHMETIC(double, DBL_MAX, __builtin_sqrt, update_f64)

/* ---- narrow types, a block at a time ---- */

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

/* The generator of _rounding.py, bit for bit: a sequence of even steps, scrambled. */
#define STRIDE 0x9E3779B9u /* 2^32 over the golden ratio */

INLINE uint32_t scramble(uint32_t x)
{
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    return (x ^ (x >> 15)) * 0x846CA68Bu;
}

/* The sequence at position `start`; the next one is STRIDE further. */
INLINE uint32_t sequence(int64_t start, double t, uint32_t word)
{
    const uint32_t step = (uint32_t)(uint64_t)t;
    const uint32_t key = scramble(scramble(2 * step + word) + STRIDE * (uint32_t)(start >> 32));
    return scramble(key) + STRIDE * (uint32_t)start;
}

CLONES static void draw(int n, int64_t start, double t, uint32_t word, uint32_t *restrict random)
{
    uint32_t x = sequence(start, t, word);
    for (int i = 0; i < n; i++, x += STRIDE) random[i] = scramble(x);
}

/* The noise is added below the last digit kept: random bits, or half a unit with ties to even.
 * Infinities and NaNs take none, which could carry into the sign; a NaN that has come out of
 * arithmetic is a quiet one, whose mark is among the digits kept. */
INLINE uint16_t round_bf16(float x, uint32_t noise)
{
    const uint32_t bits = bits_of(x);
    return (uint16_t)((bits + ((bits & 0x7F800000) == 0x7F800000 ? 0 : noise)) >> 16);
}

INLINE uint32_t to_nearest(float x) { return 0x7FFF + ((bits_of(x) >> 16) & 1); }

CLONES static void widen_bf16(int n, const uint16_t *restrict from, float *restrict to)
{
    for (int i = 0; i < n; i++) to[i] = float_of((uint32_t)from[i] << 16);
}

CLONES static void narrow_bf16(int n, const float *restrict from, uint16_t *restrict to,
                               const uint32_t *restrict random, int shift)
{
    if (random)
        for (int i = 0; i < n; i++) to[i] = round_bf16(from[i], (random[i] >> shift) & 0xFFFF);
    else
        for (int i = 0; i < n; i++) to[i] = round_bf16(from[i], to_nearest(from[i]));
}

/* The plain step with bfloat16 moments and float32 parameters, which is worth a pass of its own;
 * other combinations go through wide copies of a block. With an eps, v is never 0. Arithmetic, not
 * memory, is its limit: constants are gathered, and no element is asked whether it is finite.
 * Infinities need not be, their low half being 0; nor NaNs, but for those of a gradient whose every
 * digit is set: the bits of v, at least those of +0, tell whether there was a NaN at all. */
INLINE void update_small_body(int n, int64_t start, float *restrict param,
                              const float *restrict grad, uint16_t *restrict m,
                              uint16_t *restrict v, const Scalars *s, const int has_eps)
{
    const float b1 = s->b1, w1 = s->w1 * s->factor, b2 = s->b2, w2 = s->w2 * s->k * s->k,
                eps = s->eps, a = s->a / s->scale, kept = s->kept;
    uint32_t x = sequence(start, s->t, 0), most = 0;
    for (int i = 0; i < n; i++, x += STRIDE) {
        const float mi = b1 * float_of((uint32_t)m[i] << 16) + w1 * grad[i];
        const float vi = (b2 * float_of((uint32_t)v[i] << 16) + eps) + (w2 * mi) * mi;
        param[i] = kept * param[i] + a * mi / __builtin_sqrtf(!has_eps && vi == 0 ? 1 : vi);
        const uint32_t bits = bits_of(vi), random = scramble(x);
        most = bits > most ? bits : most;
        m[i] = (uint16_t)((bits_of(mi) + (random & 0xFFFF)) >> 16);
        v[i] = (uint16_t)((bits + (random >> 16)) >> 16);
    }
    if (most > 0x7F800000)
        for (int i = 0; i < n; i++)
            if (grad[i] != grad[i]) m[i] = v[i] = 0x7FC0;
}

CLONES static void update_small(int n, int64_t start, float *param, const float *grad,
                                uint16_t *m, uint16_t *v, const Scalars *s)
{
    if (s->eps >= FLT_MIN) update_small_body(n, start, param, grad, m, v, s, 1);
    else update_small_body(n, start, param, grad, m, v, s, 0);
}

#ifdef __FLT16_MAX__
CLONES static void widen_f16(int n, const _Float16 *restrict from, float *restrict to)
{
    for (int i = 0; i < n; i++) to[i] = (float)from[i];
}

CLONES static void narrow_f16(int n, const float *restrict from, _Float16 *restrict to)
{
    for (int i = 0; i < n; i++) to[i] = (_Float16)from[i];
}
#endif

static void widen(enum Type type, int n, const char *from, float *to)
{
    if (type == F32) memcpy(to, from, (size_t)n * 4);
    else if (type == BF16) widen_bf16(n, (const uint16_t *)from, to);
#ifdef __FLT16_MAX__
    else widen_f16(n, (const _Float16 *)from, to);
#endif
}

static void narrow(enum Type type, int n, const float *from, char *to, const uint32_t *random,
                   int shift)
{
    if (type == F32) memcpy(to, from, (size_t)n * 4);
    else if (type == BF16) narrow_bf16(n, from, (uint16_t *)to, random, shift);
#ifdef __FLT16_MAX__
    else narrow_f16(n, from, (_Float16 *)to);
#endif
}

static const int width_of[] = {4, 8, 2, 2};

static void update_narrow(const Record *r, int64_t start, int n, const Scalars *s, int flags,
                          int stochastic)
{
    float param[BLOCK], grad[BLOCK], m[BLOCK], v[BLOCK], v_max[BLOCK];
    uint32_t random[BLOCK];
    const int64_t p_at = start * width_of[r->param_type], s_at = start * width_of[r->state_type];
    widen(r->param_type, n, r->param + p_at, param);
    widen(r->grad_type, n, r->grad + start * width_of[r->grad_type], grad);
    widen(r->state_type, n, r->m + s_at, m);
    widen(r->state_type, n, r->v + s_at, v);
    if (r->v_max) widen(r->state_type, n, r->v_max + s_at, v_max);

    update_f32(n, param, grad, m, v, v_max, s, flags);

    const int round_param = stochastic && r->param_type == BF16;
    if (r->state_type == BF16) draw(n, start, s->t, 0, random);
    narrow(r->state_type, n, m, r->m + s_at, random, 0);
    narrow(r->state_type, n, v, r->v + s_at, random, 16);
    if (round_param || (r->v_max && r->state_type == BF16)) draw(n, start, s->t, 1, random);
    narrow(r->param_type, n, param, r->param + p_at, round_param ? random : NULL, 0);
    if (r->v_max) narrow(r->state_type, n, v_max, r->v_max + s_at, random, 16);
}

/* Blocks `from` to `to` of one record. */
static void update(const Record *r, int64_t from, int64_t to, const Scalars *s, int flags,
                   int stochastic)
{
    const int64_t start = from * BLOCK;
    const int64_t n = (to * BLOCK < r->size ? to * BLOCK : r->size) - start;
    if (r->param_type == F32 && r->grad_type == F32 && r->state_type == F32)
        update_f32(n, (float *)r->param + start, (float *)r->grad + start, (float *)r->m + start,
                   (float *)r->v + start, r->v_max ? (float *)r->v_max + start : NULL, s, flags);
    else if (r->param_type == F64)
        update_f64(n, (double *)r->param + start, (double *)r->grad + start,
                   (double *)r->m + start, (double *)r->v + start,
                   r->v_max ? (double *)r->v_max + start : NULL, s, flags);
    else if (r->param_type == F32 && r->grad_type == F32 && !flags)
        for (int64_t i = start; i < start + n; i += BLOCK)
            update_small((int)(start + n - i < BLOCK ? start + n - i : BLOCK), i,
                         (float *)r->param + i, (float *)r->grad + i, (uint16_t *)r->m + i,
                         (uint16_t *)r->v + i, s);
    else
        for (int64_t i = start; i < start + n; i += BLOCK)
            update_narrow(r, i, (int)(start + n - i < BLOCK ? start + n - i : BLOCK), s, flags,
                          stochastic);
}

INLINE int64_t blocks_of(const Record *r) { return (r->size + BLOCK - 1) / BLOCK; }

void update_all(const Plan *plan, Py_ssize_t start, Py_ssize_t end, int flags, int stochastic,
                int threads)
{
    int64_t total = 0, elements = 0;
    for (Py_ssize_t i = start; i < end; i++) {
        total += blocks_of(&plan->records[i]);
        elements += plan->records[i].size;
    }
    /* Waking a thread costs as much as some ten thousand elements. */
    if (threads > 1 + elements / 65536) threads = (int)(1 + elements / 65536);
    /* In parts that are handed out as threads ask for them: one that lost its core for a moment
     * does not keep the others waiting. */
    const int parts = threads > 1 ? 16 * threads : 1;
#pragma omp parallel for schedule(dynamic) num_threads(threads) if (threads > 1)
    for (int part = 0; part < parts; part++) {
        const int64_t first = total * part / parts, last = total * (part + 1) / parts;
        int64_t before = 0;
        for (Py_ssize_t i = start; i < end && before < last; i++) {
            const Record *r = &plan->records[i];
            const int64_t blocks = blocks_of(r), from = first - before, to = last - before;
            if (from < blocks)
                update(r, from > 0 ? from : 0, to < blocks ? to : blocks,
                       &plan->scalars[r->scalars], flags, stochastic);
            before += blocks;
        }
    }
}
