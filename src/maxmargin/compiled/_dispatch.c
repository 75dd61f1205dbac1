/* Find the precompiled function for the types of the arguments.

   Dispatcher is the base class of maxmargin.compiled.jit.Function. A call writes a short key of the types of
   its arguments (kind, number of dimensions, layout, and writability of arrays; the class of everything else)
   and looks it up in the dictionary `known`. What is not found there goes to the method `missing`. In Python
   this takes 2.5 microseconds more, as long as many of the calls themselves. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#ifdef _MSC_VER
#include <windows.h>
#endif

typedef struct {
    PyObject_HEAD
    PyObject *known;
} Dispatcher;

/* At most 16 bytes per argument; returns the new end, or NULL if there is no room or an array has an unusual
   data type, which its number does not determine. */
static unsigned char *write_key(PyObject *args, unsigned char *at, unsigned char *end)
{
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *x = PyTuple_GET_ITEM(args, i);
        if (end - at < 16) return NULL;
        if (PyArray_Check(x)) {
            PyArrayObject *a = (PyArrayObject *)x;
            int flags = PyArray_FLAGS(a);
            if (PyArray_TYPE(a) > NPY_CDOUBLE || !PyArray_ISNOTSWAPPED(a)) return NULL;
            *at++ = 'a';
            *at++ = (unsigned char)PyArray_TYPE(a);
            *at++ = (unsigned char)PyArray_NDIM(a);
            *at++ = (unsigned char)((flags & 3) | (flags & NPY_ARRAY_WRITEABLE ? 4 : 0)
                                    | (flags & NPY_ARRAY_ALIGNED ? 8 : 0));
        } else if (PyFloat_CheckExact(x)) *at++ = 'f';
        else if (PyLong_CheckExact(x)) *at++ = 'i';
        else if (x == Py_None) *at++ = 'n';
        else {
            PyTypeObject *type = Py_TYPE(x);
            *at++ = 't';
            memcpy(at, &type, sizeof type);
            at += sizeof type;
            if (PyTuple_Check(x)) {
                *at++ = '(';
                if ((at = write_key(x, at, end - 1)) == NULL) return NULL; /* one byte is left for the end */
                *at++ = ')';
            }
        }
    }
    return at;
}

static PyObject *call(PyObject *self, PyObject *args, PyObject *named)
{
    unsigned char buffer[1024];
    unsigned char *end = named ? NULL : write_key(args, buffer, buffer + sizeof buffer);
    PyObject *key = end ? PyBytes_FromStringAndSize((char *)buffer, end - buffer) : Py_NewRef(Py_None);
    if (key == NULL) return NULL;
    PyObject *known = ((Dispatcher *)self)->known; /* NULL if the garbage collector has cleared this object */
    PyObject *found = known ? PyDict_GetItemWithError(known, key) : NULL;
    PyObject *result = NULL;
    if (found != NULL) {
        Py_INCREF(found);
        result = PyObject_Call(found, args, NULL);
        Py_DECREF(found);
    } else if (!PyErr_Occurred())
        result = PyObject_CallMethod(self, "missing", "OOO", key, args, named ? named : Py_None);
    Py_DECREF(key);
    return result;
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    Dispatcher *self = (Dispatcher *)type->tp_alloc(type, 0);
    if (self != NULL && (self->known = PyDict_New()) == NULL) Py_CLEAR(self);
    return (PyObject *)self;
}

static int traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Dispatcher *)self)->known);
    return 0;
}

static int clear(PyObject *self)
{
    Py_CLEAR(((Dispatcher *)self)->known);
    return 0;
}

static void dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    clear(self);
    Py_TYPE(self)->tp_free(self);
}

static PyMemberDef members[] = {{"known", T_OBJECT_EX, offsetof(Dispatcher, known), READONLY, ""}, {NULL}};

static PyTypeObject DispatcherType = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "maxmargin.compiled._dispatch.Dispatcher",
    .tp_basicsize = sizeof(Dispatcher),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_new = new,
    .tp_call = call,
    .tp_traverse = traverse,
    .tp_clear = clear,
    .tp_dealloc = dealloc,
    .tp_members = members,
};

/* Whether this processor runs the precompiled code; this module itself is compiled for every processor. */
static int is_supported(void)
{
#if defined(_MSC_VER) && defined(_M_X64)
    return IsProcessorFeaturePresent(PF_AVX2_INSTRUCTIONS_AVAILABLE); /* all of them have the others, too */
#elif defined(__x86_64__)
    return __builtin_cpu_supports("x86-64-v3") != 0;
#else
    return 1;
#endif
}

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_dispatch", NULL, -1, NULL};

PyMODINIT_FUNC PyInit__dispatch(void)
{
    import_array();
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&DispatcherType) < 0
        || PyModule_AddObjectRef(made, "Dispatcher", (PyObject *)&DispatcherType) < 0
        || PyModule_AddObjectRef(made, "IS_SUPPORTED", is_supported() ? Py_True : Py_False) < 0
        || PyModule_AddStringConstant(made, "BUILT_WITH", BUILT_WITH) < 0
        || PyModule_AddStringConstant(made, "BUILT_FROM", BUILT_FROM) < 0)
        return NULL;
    return made;
}
