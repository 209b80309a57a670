/* The step for consecutive elements of type REAL. _cpu_loops.h includes this file for each type.
 *
 * The arithmetic is that of rule.py, with the scalars of _scalars.py. The learning rate multiplies
 * the quotient, not the numerator: lr * m could overflow where m / root does not.
 */
INLINE void NAME(step_body)(int64_t n, REAL *restrict param, const REAL *restrict grad,
                            REAL *restrict m, REAL *restrict v, REAL *restrict v_max,
                            const Scalars *s, const int flags)
{
    const REAL factor = s->factor, coupled = s->coupled, b1 = s->b1, w1 = s->w1, k = s->k,
               b2 = s->b2, w2 = s->w2, eps = s->eps, scale = s->scale, a = s->a, b = s->b,
               lr = s->lr, kept = s->kept;
    for (int64_t i = 0; i < n; i++) {
        REAL g = factor * grad[i];
        if (flags & COUPLED) g += coupled * param[i];
        const REAL mi = b1 * m[i] + w1 * g, ki = k * mi;
        const REAL vi = b2 * v[i] + w2 * (ki * ki) + eps;
        m[i] = mi;
        v[i] = vi;
        REAL most = vi;
        if (flags & AMSGRAD) { /* propagates NaN */
            const REAL old = v_max[i];
            most = old > vi || old != old ? old : vi;
            v_max[i] = most;
        }
        REAL root = SQRT(most == 0 ? 1 : most); /* 0/0 becomes 0, as in rule.py */
        root = flags & RECTIFY ? (scale > 0 ? (root + eps) * scale : 1) : root * scale;
        REAL numerator = a * mi;
        if (flags & NESTEROV) numerator += b * g;
        param[i] = kept * param[i] - lr * (numerator / root);
    }
}

/* Turns the flags into constants, so that the loops have no branches. */
#define CASE(FLAGS)                                                       \
    case FLAGS:                                                           \
        NAME(step_body)(n, param, grad, m, v, v_max, s, FLAGS);           \
        break;
#define CASES(FLAGS)                                                      \
    CASE(FLAGS)                                                           \
    CASE((FLAGS) | COUPLED)                                               \
    CASE((FLAGS) | NESTEROV)                                              \
    CASE((FLAGS) | NESTEROV | COUPLED)

static void NAME(step)(int64_t n, REAL *param, const REAL *grad, REAL *m, REAL *v, REAL *v_max,
                       const Scalars *s, int flags)
{
    switch (flags) {
        CASES(0)
        CASES(AMSGRAD)
        CASES(RECTIFY)
    }
}
#undef CASE
#undef CASES
