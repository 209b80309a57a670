/* All loops over elements; _cpu_kernel.c includes this file once for each instruction set.
 *
 * TARGET(name) is the name of a function for that set. WIDE is set if it has AVX2 and F16C.
 */

#define REAL float
#define SQRT __builtin_sqrtf
#define NAME(x) TARGET(x##_f32)
#include "_cpu_step.h"
#undef REAL
#undef SQRT
#undef NAME

#define REAL double
#define SQRT __builtin_sqrt
#define NAME(x) TARGET(x##_f64)
#include "_cpu_step.h"
#undef REAL
#undef SQRT
#undef NAME

/* ---- bfloat16 ---- */

static void TARGET(draw)(int n, int64_t start, double t, uint32_t word, uint32_t *restrict random)
{
    uint32_t x = sequence(start, t, word);
    for (int i = 0; i < n; i++, x += STRIDE) random[i] = scramble(x);
}

static void TARGET(widen_bf16)(int n, const uint16_t *restrict from, float *restrict to)
{
    for (int i = 0; i < n; i++) to[i] = float_of((uint32_t)from[i] << 16);
}

static void TARGET(narrow_bf16)(int n, const float *restrict from, uint16_t *restrict to,
                                const uint32_t *restrict random, int shift)
{
    if (random)
        for (int i = 0; i < n; i++) to[i] = round_bf16(from[i], (random[i] >> shift) & 0xFFFF);
    else
        for (int i = 0; i < n; i++) to[i] = round_bf16(from[i], to_nearest(from[i]));
}

/* The plain step with bfloat16 moments and float32 parameters, in a single pass. Other combinations
 * use wide copies of a block. Arithmetic is the bottleneck here, not memory: so constants are
 * combined, and no element is tested for being finite. An infinity keeps its value, because its low
 * half is 0. A NaN could carry into the sign only if all its digits are set. Only a gradient can
 * bring such a NaN in; the bits of v show whether there was a NaN at all. */
INLINE void TARGET(small_body)(int n, int64_t start, float *restrict param,
                               const float *restrict grad, uint16_t *restrict m,
                               uint16_t *restrict v, const Scalars *s, const int has_eps)
{
    const float b1 = s->b1, w1 = s->w1 * s->factor, b2 = s->b2, w2 = s->w2 * s->k * s->k,
                eps = s->eps, a = s->a / s->scale, lr = s->lr, kept = s->kept;
    uint32_t x = sequence(start, s->t, 0), most = 0;
    for (int i = 0; i < n; i++, x += STRIDE) {
        const float mi = b1 * float_of((uint32_t)m[i] << 16) + w1 * grad[i];
        const float vi = (b2 * float_of((uint32_t)v[i] << 16) + eps) + (w2 * mi) * mi;
        const float root = __builtin_sqrtf(!has_eps && vi == 0 ? 1 : vi);
        param[i] = kept * param[i] - lr * (a * mi / root);
        const uint32_t bits = bits_of(vi), random = scramble(x);
        most = bits > most ? bits : most;
        m[i] = (uint16_t)((bits_of(mi) + (random & 0xFFFF)) >> 16);
        v[i] = (uint16_t)((bits + (random >> 16)) >> 16);
    }
    if (most > 0x7F800000)
        for (int i = 0; i < n; i++)
            if (grad[i] != grad[i]) m[i] = v[i] = 0x7FC0;
}

static void TARGET(small)(int n, int64_t start, float *param, const float *grad, uint16_t *m,
                          uint16_t *v, const Scalars *s)
{
    if (s->eps >= FLT_MIN) TARGET(small_body)(n, start, param, grad, m, v, s, 1);
    else TARGET(small_body)(n, start, param, grad, m, v, s, 0);
}

/* ---- float16 ---- */

static void TARGET(widen_f16)(int n, const uint16_t *restrict from, float *restrict to)
{
    int i = 0;
#if WIDE
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from + i))));
#endif
    for (; i < n; i++) to[i] = float_of_half(from[i]);
}

static void TARGET(narrow_f16)(int n, const float *restrict from, uint16_t *restrict to)
{
    int i = 0;
#if WIDE
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
#endif
    for (; i < n; i++) to[i] = half_of_float(from[i]);
}

static const Loops TARGET(loops) = {
    .step_f32 = TARGET(step_f32),
    .step_f64 = TARGET(step_f64),
    .small = TARGET(small),
    .draw = TARGET(draw),
    .widen_bf16 = TARGET(widen_bf16),
    .narrow_bf16 = TARGET(narrow_bf16),
    .widen_f16 = TARGET(widen_f16),
    .narrow_f16 = TARGET(narrow_f16),
};
