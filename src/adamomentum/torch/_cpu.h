/* What _cpu.c gathers from Python and _cpu_kernel.c updates. */
#ifndef ADAMOMENTUM_CPU_H
#define ADAMOMENTUM_CPU_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <stdint.h>

enum Type { F32, F64, BF16, F16, UNSUPPORTED };
enum Flag { COUPLED = 1, AMSGRAD = 2, NESTEROV = 4, RECTIFY = 8 };

typedef struct {
    char *param, *grad, *m, *v, *v_max;
    float *t;
    int64_t size;
    uint8_t param_type, grad_type, state_type;
    int scalars; /* index into the table of scalars, one for each distinct t */
    PyObject *alive[6];
} Record;

typedef struct {
    double t;
    double sign, coupled, b1, w1, k, b2, w2, eps, scale, shift, a, b, kept;
} Scalars;

typedef struct {
    Record *records;
    Scalars *scalars;
    Py_ssize_t size, room, distinct, scalars_room;
} Plan;

/* One step of the records from `start` up to `end`, by at most so many threads. */
void update_all(const Plan *plan, Py_ssize_t start, Py_ssize_t end, int flags, int stochastic,
                int threads);

#endif
