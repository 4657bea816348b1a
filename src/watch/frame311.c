/* Frames of CPython 3.11. Its caller frees a function's frame, the generator's sender a generator's. */
#define Py_BUILD_CORE 1
#include <Python.h>

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000

#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pystate.h>

#include "watch/frame.h"

static void unlink_frame(SakerFrame* frame, PyObject** top) {
  _PyFrame_SetStackPointer(frame->raw, top);
  frame->thread->cframe->current_frame = frame->raw->previous;
  frame->thread->recursion_remaining++;
}

PyObject** saker_frame_enter(PyThreadState* thread, _PyInterpreterFrame* raw, SakerFrame* frame) {
  PyCodeObject* code = raw->f_code;
  frame->thread = thread;
  frame->raw = raw;
  frame->code = code;
  frame->function = (PyObject*)raw->f_func;
  frame->globals = raw->f_globals;
  frame->builtins = raw->f_builtins;
  frame->slots = raw->localsplus;
  frame->bottom = raw->localsplus + code->co_nlocalsplus;
  frame->units = _PyCode_CODE(code);
  frame->position = &raw->prev_instr;
  frame->breaker = (const volatile int*)&thread->interp->ceval.eval_breaker;
  frame->generator = raw->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject*)_PyFrame_GetGenerator(raw) : NULL;
  PyObject** top = _PyFrame_GetStackPointer(raw);
  raw->stacktop = -1; /* running: the collector leaves the slots of a generator alone */
  raw->previous = thread->cframe->current_frame;
  thread->cframe->current_frame = raw;
  thread->recursion_remaining--;
  return top;
}

void saker_frame_leave(SakerFrame* frame, PyObject** top) { unlink_frame(frame, top); }

void saker_frame_suspend(SakerFrame* frame, PyObject** top) {
  ((PyGenObject*)frame->generator)->gi_frame_state = FRAME_SUSPENDED;
  unlink_frame(frame, top);
}

PyObject* saker_frame_hand_over(SakerFrame* frame, PyObject** top, int index) {
  unlink_frame(frame, top);
  frame->raw->prev_instr = frame->units + index - 1;
  return _PyEval_EvalFrameDefault(frame->thread, frame->raw, 0);
}

PyObject* saker_frame_pass(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing, _PyFrameEvalFunction next) {
  return next(thread, raw, throwing);
}

PyCodeObject* saker_raw_code(_PyInterpreterFrame* raw) { return raw->f_code; }
PyObject* saker_raw_function(_PyInterpreterFrame* raw) { return (PyObject*)raw->f_func; }

int saker_raw_kind(PyThreadState* thread, _PyInterpreterFrame* raw) {
  const int makes_generator = raw->owner == FRAME_OWNED_BY_THREAD &&
                              (raw->f_code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
  if (makes_generator || thread->recursion_remaining <= 0) return SAKER_IDLE;
  if (thread->interp->gc.collecting) return SAKER_FINALIZER;
  return thread->cframe->use_tracing ? SAKER_TRACED : SAKER_WATCHED;
}

int saker_raw_starts_generator(_PyInterpreterFrame* raw) {
  return raw->prev_instr < _PyCode_CODE(raw->f_code) + raw->f_code->_co_firsttraceable;
}

int saker_frame_traced(const SakerFrame* frame) { return frame->thread->cframe->use_tracing != 0; }
int saker_thread_traced(PyThreadState* thread) { return thread->cframe->use_tracing != 0; }
PyObject* saker_frame_namespace(const SakerFrame* frame) { return frame->raw->f_locals; }
int saker_frame_suspended(PyObject* generator) { return ((PyGenObject*)generator)->gi_frame_state == FRAME_SUSPENDED; }

int saker_generator_unbegun(PyObject* generator, SakerUnbegun* found) {
  PyGenObject* own = (PyGenObject*)generator;
  if ((signed char)own->gi_frame_state != FRAME_CREATED) return 0;
  _PyInterpreterFrame* raw = (_PyInterpreterFrame*)own->gi_iframe;
  found->code = raw->f_code;
  found->function = (PyObject*)raw->f_func;
  found->globals = raw->f_globals;
  found->builtins = raw->f_builtins;
  found->slots = raw->localsplus;
  return 1;
}

int saker_generator_ended(PyObject* generator) {
  return (signed char)((PyGenObject*)generator)->gi_frame_state >= FRAME_COMPLETED;
}

int saker_frame_poll(const SakerFrame* frame) {
  PyThreadState* thread = frame->thread;
  if (Py_MakePendingCalls() < 0) return -1; /* signals are among them */
  if (_Py_atomic_load_relaxed(&thread->interp->ceval.gil_drop_request)) PyEval_RestoreThread(PyEval_SaveThread());
  PyObject* raised = thread->async_exc;
  if (raised == NULL) return 0;
  thread->async_exc = NULL;
  PyErr_SetNone(raised);
  Py_DECREF(raised);
  return -1;
}

/* Tracing was switched on by what this frame called, which then raised: the frame's own 'exception' event. */
static void tell_tracer(PyThreadState* thread) {
  PyFrameObject* object = PyEval_GetFrame();
  if (object == NULL || thread->tracing) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyObject* argument = PyTuple_Pack(3, type, value != NULL ? value : Py_None, traceback != NULL ? traceback : Py_None);
  int error = -1;
  if (argument != NULL) {
    PyThreadState_EnterTracing(thread);
    error = thread->c_tracefunc(thread->c_traceobj, object, PyTrace_EXCEPTION, argument);
    PyThreadState_LeaveTracing(thread);
    Py_DECREF(argument);
  }
  if (error == 0) {
    PyErr_Restore(type, value, traceback);
    return;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

void saker_frame_raised(const SakerFrame* frame, int index) {
  (void)index;
  if (!_PyFrame_IsIncomplete(frame->raw)) {
    PyFrameObject* object = PyEval_GetFrame();
    if (object != NULL) PyTraceBack_Here(object);
  }
  if (frame->thread->c_tracefunc != NULL) tell_tracer(frame->thread);
}

void saker_frame_reraised(const SakerFrame* frame, int index) {
  (void)frame;
  (void)index;
}

int saker_frame_handled(const SakerFrame* frame, int handler) {
  (void)frame;
  (void)handler;
  return 0;
}

void saker_frame_exhausted(const SakerFrame* frame, int index) {
  (void)index;
  if (frame->thread->c_tracefunc != NULL) tell_tracer(frame->thread);
}

void saker_frame_unwound(const SakerFrame* frame, int index) {
  (void)frame;
  (void)index;
}

/* The way through the exported function is several times as long. */
struct CodeExtra {
  Py_ssize_t size;
  void* extras[1];
};

void* saker_code_extra(PyCodeObject* code, Py_ssize_t index) {
  const struct CodeExtra* extra = code->co_extra;
  return extra == NULL || extra->size <= index ? NULL : extra->extras[index];
}

PyObject* saker_lookup_special(PyObject* object, PyObject* name) { return _PyObject_LookupSpecial(object, name); }
PyObject* saker_import_function(PyThreadState* thread) { return thread->interp->import_func; }

#endif
