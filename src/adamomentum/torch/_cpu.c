/* AdaMomentum on CPU tensors: all parameters of a group in one call.
 *
 * Nothing here links against torch. Tensors are read through the function table of DLPack's C
 * exchange API, which torch publishes on its Tensor type; that costs some ten nanoseconds a
 * tensor, so that every pointer, shape and dtype is read anew at every step and nothing can be
 * stale. Limited Python API: one build serves every Python from 3.10 on.
 */
#include "_cpu.h"

#include <stdlib.h>
#include <string.h>

/* Of what this module and _native.py say to each other; to be raised when that changes. */
enum { VERSION = 2 };

/* ---- DLPack, as far as it is needed: its stable ABI, major version 1 ---- */

typedef struct {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;

typedef struct {
    uint32_t major, minor;
    void *older;
    void *allocate, *export_owning, *import_owning;
    int (*view)(void *object, DLTensor *out);
    void *stream;
} DLExchange;

enum { DL_CPU = 1, DL_FLOAT = 2, DL_BFLOAT = 4 };

static const DLExchange *exchange;
static PyTypeObject *tensor_type, *parameter_type;
static PyObject *is_neg, *name_grad, *name_m, *name_v, *name_v_max, *name_t;

/* ---- gathering: which tensors may be updated through their pointers ---- */

static enum Type type_of(const DLTensor *t)
{
    if (t->lanes != 1) return UNSUPPORTED;
    if (t->code == DL_FLOAT && t->bits == 32) return F32;
    if (t->code == DL_FLOAT && t->bits == 64) return F64;
    if (t->code == DL_BFLOAT && t->bits == 16) return BF16;
#ifdef __FLT16_MAX__
    if (t->code == DL_FLOAT && t->bits == 16) return F16;
#endif
    return UNSUPPORTED;
}

/* Reads a plain CPU tensor; anything else, a subclass or a sparse one say, is refused. */
static int view(PyObject *object, DLTensor *out)
{
    PyTypeObject *type = Py_TYPE(object);
    if (type != tensor_type && type != parameter_type) return 0;
    if (exchange->view(object, out) != 0) {
        PyErr_Clear();
        return 0;
    }
    if (out->device_type != DL_CPU) return 0;
    out->data = (char *)out->data + out->byte_offset;
    return 1;
}

/* Row-major (2), dense in another order (1), or with gaps or overlaps (0). */
static int density(const DLTensor *t)
{
    int64_t expected = 1;
    int d;
    for (d = t->ndim - 1; d >= 0; d--) {
        if (t->shape[d] == 0) return 2;
        if (t->shape[d] == 1) continue;
        if (!t->strides || t->strides[d] == expected) expected *= t->shape[d];
        else break;
    }
    if (d < 0) return 2;
    expected = 1;
    for (int left = t->ndim; left > 0; left--) { /* the next stride must be the product so far */
        int found = 0;
        for (d = 0; d < t->ndim && !found; d++) {
            if (t->shape[d] > 1 && t->strides[d] == expected) {
                expected *= t->shape[d];
                found = 1;
            }
        }
        if (!found) break;
    }
    int64_t size = 1;
    for (d = 0; d < t->ndim; d++) size *= t->shape[d];
    return expected == size;
}

static int same_layout(const DLTensor *a, const DLTensor *b)
{
    if (a->ndim != b->ndim) return 0;
    int64_t expected = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        if (a->shape[d] != b->shape[d]) return 0;
        if (a->shape[d] > 1 && (a->strides ? a->strides[d] : expected) !=
                                   (b->strides ? b->strides[d] : expected))
            return 0;
        expected *= a->shape[d];
    }
    return 1;
}

/* Lazily negated: its memory holds the opposite of its value, which DLPack does not tell. */
static int is_negated(PyObject *tensor)
{
    PyObject *answer = PyObject_CallFunctionObjArgs(is_neg, tensor, NULL);
    if (!answer) {
        PyErr_Clear();
        return 1;
    }
    Py_DECREF(answer);
    return answer != Py_False;
}

/* Makes room for item `index` of a growing array. */
static int reserve(void **array, Py_ssize_t *room, Py_ssize_t index, size_t width)
{
    if (index < *room) return 1;
    const Py_ssize_t wanted = *room ? 2 * *room : 64;
    void *grown = realloc(*array, (size_t)wanted * width);
    if (!grown) {
        PyErr_NoMemory();
        return 0;
    }
    *array = grown;
    *room = wanted;
    return 1;
}

/* 1 added, 0 not eligible, -1 error. Order: param, grad, m, v, t, v_max or NULL. */
static int add(Plan *plan, PyObject *const objects[6], int stochastic)
{
    DLTensor tensors[6];
    const int count = objects[5] ? 6 : 5;
    for (int i = 0; i < count; i++)
        if (!objects[i] || !view(objects[i], &tensors[i])) return 0;
    const DLTensor *param = &tensors[0], *t = &tensors[4];
    const enum Type p = type_of(param), g = type_of(&tensors[1]), s = type_of(&tensors[2]);
    if (p == UNSUPPORTED || g == UNSUPPORTED || s == UNSUPPORTED || s == F16) return 0;
    if (p == F64 ? g != F64 || s != F64 : g == F64 || s == F64) return 0;
    if (g != p && g != F32) return 0;
    if (type_of(&tensors[3]) != s || (objects[5] && type_of(&tensors[5]) != s)) return 0;
    if (t->ndim != 0 || type_of(t) != F32 || !t->data) return 0;

    const int dense = density(param);
    /* Random bits go by the logical position, which is that in memory only row by row. */
    if (!dense || (dense == 1 && (s == BF16 || (stochastic && p == BF16)))) return 0;
    int64_t size = 1;
    for (int d = 0; d < param->ndim; d++) size *= param->shape[d];
    for (int i = 0; i < count; i++) {
        if (i != 4 && i != 0 && !same_layout(param, &tensors[i])) return 0;
        if (size && !tensors[i].data) return 0;
    }
    if (is_negated(objects[1])) return 0; /* AdaMomentum refuses such parameters */

    if (!reserve((void **)&plan->records, &plan->room, plan->size, sizeof(Record))) return -1;
    plan->distinct = -1; /* until steps() counts them */
    Record *r = &plan->records[plan->size++];
    *r = (Record){.param = param->data, .grad = tensors[1].data, .m = tensors[2].data,
                  .v = tensors[3].data, .v_max = objects[5] ? tensors[5].data : NULL,
                  .t = t->data, .size = size, .param_type = p, .grad_type = g, .state_type = s};
    for (int i = 0; i < count; i++) {
        Py_INCREF(objects[i]);
        r->alive[i] = objects[i];
    }
    return 1;
}

static void empty(Plan *plan)
{
    for (Py_ssize_t i = 0; i < plan->size; i++)
        for (int j = 0; j < 6; j++) Py_XDECREF(plan->records[i].alive[j]);
    plan->size = 0;
}

static Plan *plan_of(PyObject *capsule)
{
    if (!exchange) {
        PyErr_SetString(PyExc_RuntimeError, "bind() comes first");
        return NULL;
    }
    return PyCapsule_GetPointer(capsule, "adamomentum.plan");
}

/* The tables of the last plan, kept for the next: a step allocates none. */
static Plan *spare;

static void destroy(PyObject *capsule)
{
    Plan *plan = PyCapsule_GetPointer(capsule, "adamomentum.plan");
    if (!plan) return;
    empty(plan);
    if (!spare) {
        spare = plan;
        return;
    }
    free(plan->records);
    free(plan->steps);
    free(plan->seen);
    free(plan);
}

/* ---- what Python sees ---- */

static PyObject *py_bind(PyObject *module, PyObject *args)
{
    PyObject *capsule, *tensor, *parameter;
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &tensor, &parameter)) return NULL;
    const DLExchange *table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!table) return NULL;
    if (table->major != 1 || !table->view) {
        PyErr_SetString(PyExc_ImportError, "torch's DLPack exchange API is of another version");
        return NULL;
    }
    is_neg = PyObject_GetAttrString(tensor, "is_neg");
    if (!is_neg) return NULL;
    Py_INCREF(tensor);
    Py_INCREF(parameter);
    tensor_type = (PyTypeObject *)tensor;
    parameter_type = (PyTypeObject *)parameter;
    exchange = table;
    Py_RETURN_NONE;
}

static PyObject *py_plan(PyObject *module, PyObject *unused)
{
    Plan *plan = spare ? spare : calloc(1, sizeof(Plan));
    if (!plan) return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(plan, "adamomentum.plan", destroy);
    spare = capsule ? NULL : plan;
    return capsule;
}

/* The state of a parameter. States mostly have the order of the parameters, which spares the hash
 * of the key, a call into Python: looked at are the one behind the last, then the first. */
static PyObject *find(PyObject *states, PyObject *param, Py_ssize_t *position)
{
    PyObject *key, *state;
    Py_ssize_t next = *position;
    if (PyDict_Next(states, &next, &key, &state) && key == param) {
        *position = next;
        return state;
    }
    next = 0;
    if (*position && PyDict_Next(states, &next, &key, &state) && key == param) {
        *position = next;
        return state;
    }
    return PyDict_GetItemWithError(states, param);
}

static PyObject *py_gather(PyObject *module, PyObject *args)
{
    PyObject *capsule, *params, *states;
    int amsgrad, stochastic;
    static Py_ssize_t position; /* where the last group ended in its states; only a hint */
    if (!PyArg_ParseTuple(args, "OO!O!pp", &capsule, &PyList_Type, &params, &PyDict_Type, &states,
                          &amsgrad, &stochastic))
        return NULL;
    Plan *plan = plan_of(capsule);
    if (!plan) return NULL;
    empty(plan);
    PyObject *taken = PyList_New(0), *rest = PyList_New(0);
    if (!taken || !rest) goto failed;
    for (Py_ssize_t i = 0; i < PyList_Size(params); i++) {
        PyObject *param = PyList_GetItem(params, i);
        PyObject *grad = PyObject_GetAttr(param, name_grad);
        if (!grad) goto failed;
        int added = 0;
        if (grad != Py_None) {
            PyObject *state = find(states, param, &position);
            if (state && PyDict_Check(state)) {
                PyObject *const objects[6] = {
                    param,
                    grad,
                    PyDict_GetItemWithError(state, name_m),
                    PyDict_GetItemWithError(state, name_v),
                    PyDict_GetItemWithError(state, name_t),
                    amsgrad ? PyDict_GetItemWithError(state, name_v_max) : NULL,
                };
                added = amsgrad && !objects[5] ? 0 : add(plan, objects, stochastic);
            }
            if (added >= 0 && !PyErr_Occurred())
                added = PyList_Append(added ? taken : rest, param);
        }
        Py_DECREF(grad);
        if (added < 0 || PyErr_Occurred()) goto failed;
    }
    return Py_BuildValue("(NN)", taken, rest);
failed:
    empty(plan);
    Py_XDECREF(taken);
    Py_XDECREF(rest);
    return NULL;
}

static PyObject *py_add(PyObject *module, PyObject *args)
{
    PyObject *capsule, *objects[6];
    int stochastic;
    if (!PyArg_ParseTuple(args, "O(OOOOOO)p", &capsule, &objects[0], &objects[1], &objects[2],
                          &objects[3], &objects[5], &objects[4], &stochastic))
        return NULL;
    Plan *plan = plan_of(capsule);
    if (!plan) return NULL;
    if (objects[5] == Py_None) objects[5] = NULL;
    const int added = add(plan, objects, stochastic);
    return added < 0 ? NULL : PyBool_FromLong(added);
}

static int by_round(const void *a, const void *b)
{
    const Record *x = a, *y = b;
    return x->round < y->round ? -1 : x->round > y->round;
}

/* A parameter may stand in a group twice, and is then updated twice, but not by two threads at
 * once. Gives each record the number of its t's occurrences before it, and puts them in that
 * order. Returns 0 without memory. */
static int count_rounds(Plan *plan)
{
    Py_ssize_t room = 64, most = 0;
    while (room < 2 * plan->size) room *= 2;
    if (room > plan->seen_room) {
        Seen *grown = realloc(plan->seen, (size_t)room * sizeof(Seen));
        if (!grown) return 0;
        plan->seen = grown;
        plan->seen_room = room;
    }
    room = plan->seen_room;
    memset(plan->seen, 0, (size_t)room * sizeof(Seen));
    for (Py_ssize_t i = 0; i < plan->size; i++) {
        Record *r = &plan->records[i];
        size_t at = (size_t)(((uint64_t)(uintptr_t)r->t * 0x9E3779B97F4A7C15u) >> 20);
        for (at &= (size_t)room - 1; plan->seen[at].t && plan->seen[at].t != r->t;)
            at = (at + 1) & ((size_t)room - 1);
        plan->seen[at].t = r->t;
        r->round = plan->seen[at].count++;
        if (r->round > most) most = r->round;
    }
    if (most) qsort(plan->records, (size_t)plan->size, sizeof(Record), by_round);
    return 1;
}

static PyObject *py_steps(PyObject *module, PyObject *capsule)
{
    Plan *plan = plan_of(capsule);
    if (!plan) return NULL;
    if (!count_rounds(plan)) return PyErr_NoMemory();
    plan->distinct = 0;
    for (Py_ssize_t i = 0; i < plan->size; i++) {
        Record *r = &plan->records[i];
        const double t = (double)*r->t + 1 + (double)r->round;
        Py_ssize_t j = plan->distinct - 1;
        while (j >= 0 && plan->steps[j] != t) j--;
        if (j < 0) {
            j = plan->distinct++;
            if (!reserve((void **)&plan->steps, &plan->steps_room, j, sizeof(double))) return NULL;
            plan->steps[j] = t;
        }
        r->scalars = j;
    }
    PyObject *steps = PyList_New(plan->distinct);
    for (Py_ssize_t j = 0; steps && j < plan->distinct; j++) {
        PyObject *t = PyFloat_FromDouble(plan->steps[j]);
        if (!t || PyList_SetItem(steps, j, t) < 0) {
            Py_DECREF(steps);
            return NULL;
        }
    }
    return steps;
}

static PyObject *py_run(PyObject *module, PyObject *args)
{
    PyObject *capsule;
    const char *scalars;
    Py_ssize_t bytes;
    int coupled, amsgrad, nesterov, rectify, stochastic, threads;
    if (!PyArg_ParseTuple(args, "Oy#pppppi", &capsule, &scalars, &bytes, &coupled, &amsgrad,
                          &nesterov, &rectify, &stochastic, &threads))
        return NULL;
    Plan *plan = plan_of(capsule);
    if (!plan) return NULL;
    if (bytes != plan->distinct * (Py_ssize_t)sizeof(Scalars)) {
        PyErr_SetString(PyExc_ValueError, "there must be one row of scalars for each of steps()");
        return NULL;
    }
    plan->scalars = (const Scalars *)(const void *)scalars;
    const int flags = (coupled ? COUPLED : 0) | (amsgrad ? AMSGRAD : 0) |
                      (nesterov ? NESTEROV : 0) | (rectify ? RECTIFY : 0);
    PyThreadState *saved = PyEval_SaveThread();
    for (Py_ssize_t start = 0, end; start < plan->size; start = end) {
        for (end = start; end < plan->size && plan->records[end].round == plan->records[start].round;
             end++)
            *plan->records[end].t = (float)plan->steps[plan->records[end].scalars];
        update_all(plan, start, end, flags, stochastic, threads);
    }
    PyEval_RestoreThread(saved);
    empty(plan);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", py_bind, METH_VARARGS, "bind(exchange_api, Tensor, Parameter): once, first"},
    {"plan", py_plan, METH_NOARGS, "plan(): an empty table of parameters"},
    {"gather", py_gather, METH_VARARGS,
     "gather(plan, params, state, amsgrad, stochastic): fill the plan anew with the parameters "
     "that have a gradient; returns lists of those that are eligible and of those that are not"},
    {"add", py_add, METH_VARARGS, "add(plan, slot, stochastic): whether the slot was eligible"},
    {"steps", py_steps, METH_O,
     "steps(plan): the distinct numbers of the coming step; call it when the plan is complete"},
    {"run", py_run, METH_VARARGS,
     "run(plan, scalars, coupled, amsgrad, nesterov, rectify, stochastic, threads): one step of "
     "what the plan holds; scalars is an array of doubles, a row for each of steps(plan)"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_cpu", .m_doc = "AdaMomentum on CPU tensors.", .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__cpu(void)
{
    name_grad = PyUnicode_InternFromString("grad");
    name_m = PyUnicode_InternFromString("exp_avg");
    name_v = PyUnicode_InternFromString("exp_avg_momentum_sq");
    name_v_max = PyUnicode_InternFromString("max_exp_avg_momentum_sq");
    name_t = PyUnicode_InternFromString("step");
    if (!name_grad || !name_m || !name_v || !name_v_max || !name_t) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddIntConstant(module, "VERSION", VERSION) < 0) return NULL;
    return module;
}
