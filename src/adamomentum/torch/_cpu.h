/* The data that _cpu.c reads from Python and _cpu_kernel.c updates. */
#ifndef ADAMOMENTUM_CPU_H
#define ADAMOMENTUM_CPU_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <stdint.h>

enum Type { F32, F64, BF16, F16, UNSUPPORTED };
enum Flag { COUPLED = 1, AMSGRAD = 2, NESTEROV = 4, RECTIFY = 8 };

/* The tensors of one parameter, in the order in which they are read. */
enum Role { PARAM, GRAD, M, V, V_MAX, STEP, ROLES };

/* One parameter. Its pointers are valid while `alive` holds the tensors, and `storages` their memory,
 * which other threads may take from them. No tensor may be resized. */
typedef struct {
    char *data[ROLES]; /* data[V_MAX] is NULL without AMSGrad */
    int64_t size;
    uint8_t param_type, grad_type, state_type, step_type;
    double t;           /* the number of this step */
    Py_ssize_t scalars; /* its row in the table of scalars, one for each distinct step */
    PyObject *alive[ROLES], *storages[ROLES];
} Record;

/* A row of the array that Python passes: the fields of Scalars in _scalars.py, in their order. */
typedef struct {
    double t, factor, coupled, b1, w1, k, b2, w2, eps, scale, a, b, lr, kept;
} Scalars;

/* A hash table from a nonzero key to a number. */
typedef struct {
    uint64_t key;
    Py_ssize_t value;
} Entry;

typedef struct {
    Record *records;
    Py_ssize_t size, room;
    double *steps; /* the distinct numbers of this step */
    Py_ssize_t distinct, steps_room;
    Entry *table; /* scratch memory */
    Py_ssize_t table_room;
    const Scalars *scalars;
    int hold; /* whether other threads are there, so that storages must be held */
} Plan;

/* Call it once, first. */
void choose_loops(void);

/* Takes one step for every record, with at most `threads` threads. Returns 0 if out of memory. */
int update_all(const Plan *plan, int flags, int stochastic, int threads);

#endif
