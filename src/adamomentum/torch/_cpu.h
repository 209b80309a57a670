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
    Py_ssize_t round; /* how often its t stands in the plan before it */
    Py_ssize_t scalars; /* index into the table of scalars, one for each distinct step */
    PyObject *alive[6];
} Record;

/* A row of the array that Python passes, Scalars of _scalars.py: the names and their order. */
typedef struct {
    double t, factor, coupled, b1, w1, k, b2, w2, eps, scale, shift, a, b, kept;
} Scalars;

/* Of each distinct t of a plan, how often it occurs. */
typedef struct {
    const float *t;
    Py_ssize_t count;
} Seen;

typedef struct {
    Record *records;
    double *steps; /* the distinct numbers of this step */
    Seen *seen;    /* a hash table */
    const Scalars *scalars;
    Py_ssize_t size, room, distinct, steps_room, seen_room;
} Plan;

/* One step of the records from `start` up to `end`, by at most so many threads. */
void update_all(const Plan *plan, Py_ssize_t start, Py_ssize_t end, int flags, int stochastic,
                int threads);

#endif
