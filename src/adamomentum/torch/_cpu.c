/* AdaMomentum on CPU tensors: all parameters of a group in one call.
 *
 * This file does not link against torch. It reads tensors through the function table of DLPack's C
 * exchange API, which torch publishes on its Tensor type. Every pointer, shape and dtype is read
 * again at every step, so nothing can be stale. It uses the limited Python API: one build works
 * with every Python from 3.10 on.
 */
#include "_cpu.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Version of the interface to _native.py. Increase it in both files when the interface changes. */
enum { VERSION = 3 };

/* ---- the part of DLPack used here: its stable ABI, major version 1 ---- */

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

_Static_assert(offsetof(DLTensor, ndim) == sizeof(void *) + 8, "DLTensor.ndim");
_Static_assert(offsetof(DLTensor, lanes) == sizeof(void *) + 14, "DLTensor.dtype");
_Static_assert(offsetof(DLTensor, shape) == sizeof(void *) + 16, "DLTensor.shape");
_Static_assert(offsetof(DLTensor, byte_offset) == 3 * sizeof(void *) + 16, "DLTensor.byte_offset");
_Static_assert(offsetof(DLExchange, view) == 8 + 4 * sizeof(void *), "DLPackExchangeAPI");

enum { DL_CPU = 1, DL_FLOAT = 2, DL_BFLOAT = 4 };

static const DLExchange *exchange;
static PyTypeObject *tensor_type, *parameter_type;
static PyObject *name_grad, *name_of[ROLES], *count_threads;

/* A method of Tensor without arguments. A direct call of its C function is cheaper. */
typedef struct {
    PyObject *name;
    PyCFunction function; /* NULL if it is not a plain C function */
} Method;

static Method is_neg, untyped_storage;

static PyObject *call(const Method *method, PyObject *tensor)
{
    return method->function ? method->function(tensor, NULL)
                            : PyObject_CallMethodObjArgs(tensor, method->name, NULL);
}

/* ---- gathering: which tensors can be updated through their pointers ---- */

static enum Type type_of(const DLTensor *t)
{
    if (t->lanes != 1) return UNSUPPORTED;
    if (t->code == DL_FLOAT && t->bits == 32) return F32;
    if (t->code == DL_FLOAT && t->bits == 64) return F64;
    if (t->code == DL_BFLOAT && t->bits == 16) return BF16;
    if (t->code == DL_FLOAT && t->bits == 16) return F16;
    return UNSUPPORTED;
}

static int is_plain(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    return type == tensor_type || type == parameter_type;
}

/* Whether a tensor is lazily negated: its memory holds minus its value. DLPack does not report
 * this. The call lets other threads run. */
static int is_negated(PyObject *tensor)
{
    PyObject *answer = call(&is_neg, tensor);
    if (!answer) {
        PyErr_Clear();
        return 1;
    }
    Py_DECREF(answer);
    return answer != Py_False;
}

/* Reads a plain CPU tensor; fails for anything else. */
static int view(PyObject *object, DLTensor *out)
{
    if (exchange->view(object, out) != 0) {
        PyErr_Clear();
        return 0;
    }
    if (out->device_type != DL_CPU) return 0;
    if (out->data) out->data = (char *)out->data + out->byte_offset;
    return 1;
}

/* Layout: 2 row-major, 1 dense in another order, 0 with gaps or overlaps. */
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

/* Whether the tensors of one parameter do not overlap; the loops rely on it. */
static int lie_apart(const DLTensor tensors[], int64_t size)
{
    if (!size) return 1;
    for (int i = PARAM; i <= V_MAX; i++) {
        const char *a = tensors[i].data;
        for (int j = i + 1; a && j <= V_MAX; j++) {
            const char *b = tensors[j].data;
            if (b && a < b + size * (tensors[j].bits / 8) && b < a + size * (tensors[i].bits / 8))
                return 0;
        }
    }
    return 1;
}

/* Grows an array so that it has room for item `index`. */
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

/* Like `add`; sets `storages` to new references if they must be held. */
static int add_held(Plan *plan, PyObject *const objects[ROLES], PyObject *storages[ROLES],
                    int stochastic)
{
    /* Calls that let other threads run come first; the pointers are read after them. */
    for (int i = 0; i < ROLES; i++) {
        if (!objects[i]) {
            if (i != V_MAX) return 0;
        } else if (!is_plain(objects[i]) || is_negated(objects[i])) {
            return 0;
        }
    }
    for (int i = 0; plan->hold && i < ROLES; i++) {
        if (objects[i] && !(storages[i] = call(&untyped_storage, objects[i]))) {
            PyErr_Clear();
            return 0;
        }
    }
    DLTensor tensors[ROLES] = {{0}};
    for (int i = 0; i < ROLES; i++) {
        if (!objects[i]) continue;
        if (!view(objects[i], &tensors[i])) return 0;
        if ((uintptr_t)tensors[i].data % (tensors[i].bits < 8 ? 1 : tensors[i].bits / 8)) return 0;
    }
    const DLTensor *param = &tensors[PARAM], *t = &tensors[STEP];
    const enum Type p = type_of(param), g = type_of(&tensors[GRAD]), s = type_of(&tensors[M]);
    if (p == UNSUPPORTED || g == UNSUPPORTED || s == UNSUPPORTED || s == F16) return 0;
    if (p == F64 ? g != F64 || s != F64 : g == F64 || s == F64) return 0;
    if (g != p && g != F32) return 0;
    if (type_of(&tensors[V]) != s || (objects[V_MAX] && type_of(&tensors[V_MAX]) != s)) return 0;
    if (t->ndim != 0 || (type_of(t) != F32 && type_of(t) != F64) || !t->data) return 0;

    const int dense = density(param);
    /* Random bits depend on the logical position, which is that in memory only if row-major. */
    if (!dense || (dense == 1 && (s == BF16 || (stochastic && p == BF16)))) return 0;
    int64_t size = 1;
    for (int d = 0; d < param->ndim; d++) size *= param->shape[d];
    for (int i = PARAM; i <= V_MAX; i++) {
        if (!objects[i]) continue;
        if (i != PARAM && !same_layout(param, &tensors[i])) return 0;
        if (size && !tensors[i].data) return 0;
    }
    if (!lie_apart(tensors, size)) return 0;

    if (!reserve((void **)&plan->records, &plan->room, plan->size, sizeof(Record))) return -1;
    plan->distinct = -1; /* until steps() counts them */
    Record *r = &plan->records[plan->size++];
    *r = (Record){.size = size, .param_type = p, .grad_type = g, .state_type = s,
                  .step_type = type_of(t)};
    for (int i = 0; i < ROLES; i++) {
        r->data[i] = tensors[i].data;
        r->alive[i] = objects[i];
        r->storages[i] = storages[i];
        Py_XINCREF(objects[i]);
        Py_XINCREF(storages[i]);
    }
    return 1;
}

/* Adds a parameter to the plan. Returns 1 (added), 0 (not eligible) or -1 (error). `objects` are in
 * the order of Role; the caller holds references to them. objects[V_MAX] may be NULL. */
static int add(Plan *plan, PyObject *const objects[ROLES], int stochastic)
{
    PyObject *storages[ROLES] = {NULL};
    const int added = add_held(plan, objects, storages, stochastic);
    for (int i = 0; plan->hold && i < ROLES; i++) Py_XDECREF(storages[i]);
    return added;
}

static void empty(Plan *plan)
{
    const Py_ssize_t size = plan->size;
    plan->size = 0;
    for (Py_ssize_t i = 0; i < size; i++) {
        for (int j = 0; j < ROLES; j++) {
            Py_XDECREF(plan->records[i].alive[j]);
            Py_XDECREF(plan->records[i].storages[j]);
        }
    }
}

static Plan *plan_of(PyObject *capsule)
{
    if (!exchange) {
        PyErr_SetString(PyExc_RuntimeError, "call bind() first");
        return NULL;
    }
    return PyCapsule_GetPointer(capsule, "adamomentum.plan");
}

/* The tables of the last plan. The next plan reuses them, so that a step does not allocate. */
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
    free(plan->table);
    free(plan);
}

/* ---- Python interface ---- */

static int find_method(Method *method, PyObject *tensor)
{
    PyObject *bound = PyObject_GetAttr(tensor, method->name);
    if (!bound) return 0;
    if (PyCFunction_CheckExact(bound) && PyCFunction_GetFlags(bound) == METH_NOARGS)
        method->function = PyCFunction_GetFunction(bound);
    Py_DECREF(bound);
    return 1;
}

static PyObject *py_bind(PyObject *module, PyObject *args)
{
    PyObject *capsule, *tensor, *parameter;
    if (!PyArg_ParseTuple(args, "OOO", &capsule, &tensor, &parameter)) return NULL;
    const DLExchange *table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (!table) return NULL;
    if (table->major != 1 || !table->view) {
        PyErr_SetString(PyExc_ImportError, "unsupported version of torch's DLPack exchange API");
        return NULL;
    }
    if (!find_method(&is_neg, tensor) || !find_method(&untyped_storage, tensor)) return NULL;
    PyObject *threads = PyImport_ImportModule("_thread");
    if (!threads) return NULL;
    count_threads = PyObject_GetAttrString(threads, "_count");
    Py_DECREF(threads);
    if (!count_threads) return NULL;
    tensor_type = (PyTypeObject *)Py_NewRef((PyObject *)Py_TYPE(tensor));
    parameter_type = (PyTypeObject *)Py_NewRef(parameter);
    exchange = table;
    Py_RETURN_NONE;
}

static PyObject *py_plan(PyObject *module, PyObject *unused)
{
    if (!count_threads) {
        PyErr_SetString(PyExc_RuntimeError, "call bind() first");
        return NULL;
    }
    PyObject *threads = PyObject_CallNoArgs(count_threads); /* besides the main thread */
    if (!threads) return NULL;
    const long others = PyLong_AsLong(threads);
    Py_DECREF(threads);
    Plan *plan = spare ? spare : calloc(1, sizeof(Plan));
    spare = NULL;
    if (!plan) return PyErr_NoMemory();
    plan->hold = others != 0;
    PyObject *capsule = PyCapsule_New(plan, "adamomentum.plan", destroy);
    if (!capsule) spare = plan;
    return capsule;
}

/* Returns the state of a parameter (a new reference) or NULL. States usually have the order of the
 * parameters. So the entry after the last one is tried first, then the first entry. This avoids
 * hashing the key, which calls into Python. */
static PyObject *find(PyObject *states, PyObject *param, Py_ssize_t *position)
{
    PyObject *key, *state;
    Py_ssize_t next = *position;
    if (PyDict_Next(states, &next, &key, &state) && key == param) {
        *position = next;
        return Py_NewRef(state);
    }
    next = 0;
    if (*position && PyDict_Next(states, &next, &key, &state) && key == param) {
        *position = next;
        return Py_NewRef(state);
    }
    return Py_XNewRef(PyDict_GetItemWithError(states, param));
}

/* Adds the parameter objects[0] if it has a state. Returns 1, 0 or -1 like `add`. Takes a reference
 * to every object, because other threads may replace the values of a dictionary. */
static int add_with_state(Plan *plan, PyObject *objects[ROLES], PyObject *state, int amsgrad,
                          int stochastic)
{
    if (!PyDict_Check(state)) return 0;
    for (int i = M; i < ROLES; i++) {
        if (i == V_MAX && !amsgrad) continue;
        objects[i] = Py_XNewRef(PyDict_GetItemWithError(state, name_of[i]));
        if (!objects[i]) return PyErr_Occurred() ? -1 : 0;
    }
    return add(plan, objects, stochastic);
}

static PyObject *py_gather(PyObject *module, PyObject *args)
{
    PyObject *capsule, *params, *states;
    int amsgrad, stochastic;
    static Py_ssize_t position; /* a hint: where the last group ended in its states */
    if (!PyArg_ParseTuple(args, "OO!O!pp", &capsule, &PyList_Type, &params, &PyDict_Type, &states,
                          &amsgrad, &stochastic))
        return NULL;
    Plan *plan = plan_of(capsule);
    if (!plan) return NULL;
    empty(plan);
    PyObject *taken = PyList_New(0), *rest = PyList_New(0);
    int added = taken && rest ? 0 : -1;
    for (Py_ssize_t i = 0; added >= 0 && i < PyList_Size(params); i++) {
        PyObject *objects[ROLES] = {Py_NewRef(PyList_GetItem(params, i))};
        objects[GRAD] = PyObject_GetAttr(objects[PARAM], name_grad);
        if (!objects[GRAD]) {
            added = -1;
        } else if (objects[GRAD] != Py_None) {
            PyObject *state = find(states, objects[PARAM], &position);
            if (state) added = add_with_state(plan, objects, state, amsgrad, stochastic);
            else added = PyErr_Occurred() ? -1 : 0;
            Py_XDECREF(state);
            if (added >= 0) added = PyList_Append(added ? taken : rest, objects[PARAM]);
        }
        for (int j = 0; j < ROLES; j++) Py_XDECREF(objects[j]);
    }
    if (added >= 0) return Py_BuildValue("(NN)", taken, rest);
    empty(plan);
    Py_XDECREF(taken);
    Py_XDECREF(rest);
    return NULL;
}

static PyObject *py_add(PyObject *module, PyObject *args)
{
    PyObject *capsule, *objects[ROLES];
    int stochastic;
    if (!PyArg_ParseTuple(args, "O(OOOOOO)p", &capsule, &objects[PARAM], &objects[GRAD],
                          &objects[M], &objects[V], &objects[V_MAX], &objects[STEP], &stochastic))
        return NULL;
    Plan *plan = plan_of(capsule);
    if (!plan) return NULL;
    if (objects[V_MAX] == Py_None) objects[V_MAX] = NULL;
    const int added = add(plan, objects, stochastic);
    return added < 0 ? NULL : PyBool_FromLong(added);
}

/* Clears the hash table and makes room for all records of the plan. Returns 0 if out of memory. */
static int clear_table(Plan *plan)
{
    Py_ssize_t room = 64;
    while (room < 2 * plan->size) room *= 2;
    if (room > plan->table_room) {
        Entry *grown = realloc(plan->table, (size_t)room * sizeof(Entry));
        if (!grown) return 0;
        plan->table = grown;
        plan->table_room = room;
    }
    memset(plan->table, 0, (size_t)plan->table_room * sizeof(Entry));
    return 1;
}

static Entry *look_up(const Plan *plan, uint64_t key)
{
    const uint64_t mask = (uint64_t)plan->table_room - 1;
    uint64_t at = ((key * 0x9E3779B97F4A7C15u) >> 20) & mask;
    while (plan->table[at].key && plan->table[at].key != key) at = (at + 1) & mask;
    plan->table[at].key = key;
    return &plan->table[at];
}

/* Sets the step number of each record. A parameter that is listed twice takes two steps. */
static void count_steps(Plan *plan)
{
    for (Py_ssize_t i = 0; i < plan->size; i++) {
        Record *r = &plan->records[i];
        const char *step = r->data[STEP];
        const double before = r->step_type == F32 ? *(const float *)step : *(const double *)step;
        r->t = before + 1 + (double)look_up(plan, (uint64_t)(uintptr_t)step)->value++;
    }
}

/* Collects the distinct step numbers, and stores for each record the index of its own. */
static int list_steps(Plan *plan)
{
    plan->distinct = 0;
    for (Py_ssize_t i = 0; i < plan->size; i++) {
        Record *r = &plan->records[i];
        if (i && r->t == r[-1].t) {
            r->scalars = r[-1].scalars;
            continue;
        }
        uint64_t key;
        memcpy(&key, &r->t, 8);
        Entry *entry = look_up(plan, key + 1); /* a key is not 0 */
        if (!entry->value) {
            const Py_ssize_t j = plan->distinct;
            if (!reserve((void **)&plan->steps, &plan->steps_room, j, sizeof(double))) return 0;
            plan->steps[j] = r->t;
            entry->value = ++plan->distinct;
        }
        r->scalars = entry->value - 1;
    }
    return 1;
}

static PyObject *py_steps(PyObject *module, PyObject *capsule)
{
    Plan *plan = plan_of(capsule);
    if (!plan) return NULL;
    if (!clear_table(plan)) return PyErr_NoMemory();
    count_steps(plan);
    clear_table(plan);
    if (!list_steps(plan)) return NULL;
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
        PyErr_SetString(PyExc_ValueError, "expected one row of scalars for each of steps()");
        return NULL;
    }
    plan->scalars = (const Scalars *)(const void *)scalars;
    const int flags = (coupled ? COUPLED : 0) | (amsgrad ? AMSGRAD : 0) |
                      (nesterov ? NESTEROV : 0) | (rectify ? RECTIFY : 0);
    PyThreadState *saved = PyEval_SaveThread();
    const int done = update_all(plan, flags, stochastic, threads);
    for (Py_ssize_t i = 0; done && i < plan->size; i++) {
        const Record *r = &plan->records[i];
        if (r->step_type == F32) *(float *)r->data[STEP] = (float)r->t;
        else *(double *)r->data[STEP] = r->t;
    }
    PyEval_RestoreThread(saved);
    empty(plan);
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", py_bind, METH_VARARGS, "bind(exchange_api, a Tensor, Parameter): call it once, first"},
    {"plan", py_plan, METH_NOARGS, "plan(): create an empty table of parameters"},
    {"gather", py_gather, METH_VARARGS,
     "gather(plan, params, state, amsgrad, stochastic): refill the plan with the parameters that "
     "have a gradient and can be updated; return these, and the others that have a gradient"},
    {"add", py_add, METH_VARARGS,
     "add(plan, (param, grad, m, v, v_max, t), stochastic): add one parameter; return False if it "
     "cannot be updated"},
    {"steps", py_steps, METH_O,
     "steps(plan): return the distinct step numbers; call it when the plan is complete"},
    {"run", py_run, METH_VARARGS,
     "run(plan, scalars, coupled, amsgrad, nesterov, rectify, stochastic, threads): take the step "
     "with a row of scalars for each of steps()"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_cpu", .m_doc = "AdaMomentum on CPU tensors.", .m_size = -1,
    .m_methods = methods,
};

PyMODINIT_FUNC PyInit__cpu(void)
{
    static const char *const names[ROLES] = {[M] = "exp_avg", [V] = "exp_avg_momentum_sq",
                                             [V_MAX] = "max_exp_avg_momentum_sq",
                                             [STEP] = "step"};
    name_grad = PyUnicode_InternFromString("grad");
    is_neg.name = PyUnicode_InternFromString("is_neg");
    untyped_storage.name = PyUnicode_InternFromString("untyped_storage");
    if (!name_grad || !is_neg.name || !untyped_storage.name) return NULL;
    for (int i = M; i < ROLES; i++)
        if (!(name_of[i] = PyUnicode_InternFromString(names[i]))) return NULL;
    choose_loops();
    PyObject *module = PyModule_Create(&definition);
    if (!module || PyModule_AddIntConstant(module, "VERSION", VERSION) < 0) return NULL;
    return module;
}
