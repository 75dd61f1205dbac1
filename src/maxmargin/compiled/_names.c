/* Columns of named features, for maxmargin.data.tokens.token_vectorizer.

   A slot of the hash table has 32 bits of the hash of a name and the number of its column. The name of
   {"word": "sun"}, "word=sun", is joined in a buffer: no Python object is made. Waiting for memory takes most of the
   time, so the slots of all features of a token are requested before the first one is read. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#ifdef _MSC_VER
#include <intrin.h>
#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)
#else
#define PREFETCH(p) __builtin_prefetch(p)
#endif

enum { MOST = 1024, BYTES = 1 << 16 };
typedef struct { uint32_t tag; int32_t column; } Slot; /* column -1: empty */
typedef struct { PyObject_HEAD PyObject *names; Slot *slots; size_t mask; } Names;
typedef struct { const char *text; size_t size; uint64_t hash; double value; int32_t likely; } Feature;
static struct { int n; char *at; char text[BYTES]; Feature features[MOST]; } token; /* used with the GIL held */

/* Write a string in UTF-8 and return its end; NULL if there is no room or it has surrogates. */
static char *write_text(PyObject *string, char *at)
{
    Py_ssize_t n = PyUnicode_GET_LENGTH(string);
    const void *data = PyUnicode_DATA(string);
    if (n >= (token.text + BYTES - at) / 4) return NULL;
    if (PyUnicode_IS_ASCII(string)) return (char *)memcpy(at, data, n) + n;
    for (Py_ssize_t i = 0; i < n; i++) {
        Py_UCS4 c = PyUnicode_READ(PyUnicode_KIND(string), data, i);
        int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
        if (c >= 0xD800 && c < 0xE000) return NULL;
        *at++ = (char)(more ? (0xFF80 >> more) | (c >> 6 * more) : c);
        while (more--) *at++ = (char)(0x80 | ((c >> 6 * more) & 0x3F));
    }
    return at;
}

/* Python's own hash of strings, with a seed that each process draws: nobody can prepare names that collide. */
static uint64_t hash_of(const char *text, size_t size)
{
    return (uint64_t)PyHash_GetFuncDef()->hash(text, (Py_ssize_t)size);
}

/* The slot of a name, or the empty one where it belongs. */
static Slot *slot_of(const Names *self, const char *text, size_t size, uint64_t hash)
{
    for (size_t k = hash & self->mask;; k = (k + 1) & self->mask) {
        Slot *slot = self->slots + k;
        if (slot->column < 0) return slot;
        if (slot->tag != (uint32_t)(hash >> 32)) continue;
        Py_ssize_t length; /* the UTF-8 of names in the table exists already */
        const char *name = PyUnicode_AsUTF8AndSize(PyList_GET_ITEM(self->names, slot->column), &length);
        if ((size_t)length == size && !memcmp(name, text, size)) return slot;
    }
}

/* Enter the names from number k on; a name that is repeated has its last number. -1 for an error. */
static int enter(Names *self, Py_ssize_t k)
{
    for (; k < PyList_GET_SIZE(self->names); k++) {
        PyObject *name = PyList_GET_ITEM(self->names, k);
        Py_ssize_t size;
        const char *text = PyUnicode_CheckExact(name) ? PyUnicode_AsUTF8AndSize(name, &size) : NULL;
        if (text != NULL) {
            uint64_t hash = hash_of(text, size);
            *slot_of(self, text, size, hash) = (Slot){(uint32_t)(hash >> 32), (int32_t)k};
        } else if (PyErr_Occurred()) {
            if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) return -1;
            PyErr_Clear(); /* surrogates: found in Python, like names that are not strings */
        }
    }
    return 0;
}

/* Double the table until at most half of it is used, and enter all names. */
static int rebuild(Names *self)
{
    size_t n = PyList_GET_SIZE(self->names), size = self->mask + 1;
    while (size < 2 * n + 64) size *= 2;
    Slot *slots = n < INT32_MAX ? PyMem_Malloc(size * sizeof(Slot)) : NULL;
    if (slots == NULL) return PyErr_NoMemory(), -1; /* the old table stays */
    memset(slots, 0xFF, size * sizeof(Slot));
    PyMem_Free(self->slots);
    self->slots = slots;
    self->mask = size - 1;
    return enter(self, 0);
}

/* Prepare the look-up of a feature; 0 if it is not of the usual types. A name alone has the value NULL. */
static int put(const Names *self, PyObject *name, PyObject *value)
{
    Feature *f = token.features + token.n;
    char *at;
    if (value == NULL && token.n < MOST && PyUnicode_CheckExact(name) && PyUnicode_IS_COMPACT_ASCII(name)
        && PyUnicode_GET_LENGTH(name) > 0) { /* Python keeps the hash of a string, and its text is UTF-8 already */
        *f = (Feature){PyUnicode_DATA(name), PyUnicode_GET_LENGTH(name), (uint64_t)PyObject_Hash(name), 1.0};
        PREFETCH(self->slots + (f->hash & self->mask));
        token.n++;
        return 1;
    }
    if (token.n == MOST || !PyUnicode_CheckExact(name) || (at = write_text(name, token.at)) == NULL) return 0;
    f->value = 1.0;
    if (value != NULL && PyList_CheckExact(value)) { /* of strings, one feature each */
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(value); i++)
            if (!PyUnicode_CheckExact(PyList_GET_ITEM(value, i)) || !put(self, name, PyList_GET_ITEM(value, i)))
                return 0;
        return 1;
    }
    if (value == NULL) ;
    else if (PyUnicode_CheckExact(value)) {
        *at++ = '=';
        if ((at = write_text(value, at)) == NULL) return 0;
    } else if (PyFloat_CheckExact(value)) f->value = PyFloat_AS_DOUBLE(value);
    else if (PyLong_CheckExact(value) || PyBool_Check(value)) {
        f->value = PyLong_AsDouble(value);
        if (f->value == -1.0 && PyErr_Occurred()) return PyErr_Clear(), 0;
    } else return 0;
    f->text = token.at;
    f->size = at - token.at;
    f->hash = hash_of(f->text, f->size);
    PREFETCH(self->slots + (f->hash & self->mask));
    token.at = at;
    token.n++;
    return 1;
}

/* Give the next column to a name, and return its number; -2 for an error. */
static int32_t add(Names *self, PyObject *name)
{
    Py_ssize_t n = PyList_GET_SIZE(self->names);
    int failed = PyList_Append(self->names, name) < 0
                 || ((size_t)n > self->mask / 2 ? rebuild(self) : enter(self, n)) < 0;
    return failed ? -2 : (int32_t)n;
}

/* The column of a feature; -1 if there is none, -2 for an error. */
static int32_t column_of(Names *self, const Feature *f, int adding)
{
    Slot *slot = slot_of(self, f->text, f->size, f->hash);
    if (slot->column >= 0 || !adding) return slot->column;
    PyObject *name = PyUnicode_FromStringAndSize(f->text, f->size);
    int32_t column = name == NULL ? -2 : add(self, name);
    Py_XDECREF(name);
    return column;
}

/* Request the names that the features of the token will be compared with: first their places in the list. */
static void prefetch_names(const Names *self)
{
    PyObject **names = PySequence_Fast_ITEMS(self->names);
    const Feature *end = token.features + token.n;
    for (Feature *f = token.features; f < end; f++) {
        f->likely = self->slots[f->hash & self->mask].column;
        if (f->likely >= 0) PREFETCH(names + f->likely);
    }
    for (const Feature *f = token.features; f < end; f++)
        if (f->likely >= 0) PREFETCH(names[f->likely]);
}

/* Sort the entries of a token by column, and join those of one column; return how many are left. In a list, a name
   that is repeated still means 1. Shell's method: a token has about twenty entries, and at most MOST. */
static Py_ssize_t sort_entries(int32_t *columns, double *values, Py_ssize_t n, int is_list)
{
    static const Py_ssize_t gaps[] = {301, 132, 57, 23, 10, 4, 1};
    for (size_t g = 0; g < sizeof(gaps) / sizeof(*gaps); g++)
        for (Py_ssize_t i = gaps[g]; i < n; i++) {
            int32_t column = columns[i];
            double value = values[i];
            Py_ssize_t k = i;
            for (; k >= gaps[g] && columns[k - gaps[g]] > column; k -= gaps[g]) {
                columns[k] = columns[k - gaps[g]];
                values[k] = values[k - gaps[g]];
            }
            columns[k] = column;
            values[k] = value;
        }
    Py_ssize_t left = n > 0;
    for (Py_ssize_t i = 1; i < n; i++) {
        if (columns[i] == columns[left - 1]) values[left - 1] = is_list ? 1.0 : values[left - 1] + values[i];
        else {
            columns[left] = columns[i];
            values[left++] = values[i];
        }
    }
    return left;
}

/* read(tokens, t, columns, values, ends, adding): append the features of the tokens from t on that have a column,
   and return the number of the first token that is not of the usual types. Without new names, the features of a
   token are sorted, and those of one column are joined. */
static PyObject *read_tokens(Names *self, PyObject *args)
{
    PyObject *tokens, *columns, *values, *ends, *name, *value, *bytes = (PyObject *)&PyByteArray_Type;
    Py_ssize_t t;
    int adding;
    if (!PyArg_ParseTuple(args, "O!nO!O!O!p", &PyList_Type, &tokens, &t, bytes, &columns, bytes, &values, bytes,
                          &ends, &adding))
        return NULL;
    if (t < 0) return PyErr_SetString(PyExc_ValueError, "t is negative."), NULL;
    if (columns == values || values == ends || ends == columns)
        return PyErr_SetString(PyExc_ValueError, "columns, values, and ends are not three arrays."), NULL;
    for (; t < PyList_GET_SIZE(tokens); t++) {
        PyObject *features = PyList_GET_ITEM(tokens, t);
        Py_ssize_t n = PyByteArray_GET_SIZE(values) / 8, m = PyByteArray_GET_SIZE(ends) / 8, at = 0, begin = n;
        int usual = 1;
        token.n = 0;
        token.at = token.text;
        if (PyDict_CheckExact(features))
            while (usual && PyDict_Next(features, &at, &name, &value)) usual = put(self, name, value);
        else if (PyList_CheckExact(features))
            while (usual && at < PyList_GET_SIZE(features)) usual = put(self, PyList_GET_ITEM(features, at++), NULL);
        else usual = put(self, features, NULL);
        if (!usual) break;
        if (PyByteArray_Resize(columns, 4 * (n + token.n)) < 0 || PyByteArray_Resize(values, 8 * (n + token.n)) < 0
            || PyByteArray_Resize(ends, 8 * (m + 1)) < 0)
            return NULL;
        prefetch_names(self);
        for (const Feature *f = token.features; f < token.features + token.n; f++) {
            int32_t column = column_of(self, f, adding);
            if (column < -1) return NULL;
            ((int32_t *)PyByteArray_AS_STRING(columns))[n] = column;
            ((double *)PyByteArray_AS_STRING(values))[n] = f->value;
            n += column >= 0;
        }
        if (!adding)
            n = begin + sort_entries((int32_t *)PyByteArray_AS_STRING(columns) + begin,
                                     (double *)PyByteArray_AS_STRING(values) + begin, n - begin,
                                     PyList_CheckExact(features));
        ((int64_t *)PyByteArray_AS_STRING(ends))[m] = n;
        if (PyByteArray_Resize(columns, 4 * n) < 0 || PyByteArray_Resize(values, 8 * n) < 0) return NULL;
    }
    return PyLong_FromSsize_t(t);
}

static PyObject *new(PyTypeObject *type, PyObject *args, PyObject *named)
{
    PyObject *names;
    if (!PyArg_ParseTuple(args, "O", &names)) return NULL;
    Names *self = (Names *)type->tp_alloc(type, 0);
    if (self != NULL && ((self->names = PySequence_List(names)) == NULL || rebuild(self) < 0)) Py_CLEAR(self);
    return (PyObject *)self;
}

static void dealloc(Names *self)
{
    Py_XDECREF(self->names);
    PyMem_Free(self->slots);
    Py_TYPE(self)->tp_free(self);
}

/* append(name): give the next column to a name of any type, and return its number. */
static PyObject *append(Names *self, PyObject *name)
{
    int32_t column = add(self, name);
    return column < 0 ? NULL : PyLong_FromLong(column);
}

/* A copy: slots refer to the places of names in the list. */
static PyObject *copy_names(Names *self, void *unused) { return PySequence_List(self->names); }

static PyMethodDef methods[] = {{"read", (PyCFunction)read_tokens, METH_VARARGS, ""},
                                {"append", (PyCFunction)append, METH_O, ""},
                                {NULL}};
static PyGetSetDef members[] = {{"names", (getter)copy_names, NULL, NULL, NULL}, {NULL}};
static PyTypeObject NamesType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "maxmargin.compiled._names.Names",
    .tp_basicsize = sizeof(Names),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = new,
    .tp_dealloc = (destructor)dealloc,
    .tp_methods = methods,
    .tp_getset = members,
};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_names", NULL, -1, NULL};

PyMODINIT_FUNC PyInit__names(void)
{
    PyObject *made = PyModule_Create(&module);
    if (made == NULL || PyType_Ready(&NamesType) < 0
        || PyModule_AddObjectRef(made, "Names", (PyObject *)&NamesType) < 0
        || PyModule_AddStringConstant(made, "BUILT_FROM", BUILT_FROM) < 0)
        return NULL;
    return made;
}
