/* Frames of CPython 3.12. The interpreter that leaves a frame also frees it, by functions that CPython does not export:
   what they do is done here with exported ones. */
#define Py_BUILD_CORE 1
#include <Python.h>

#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000

#include <internal/pycore_ceval.h>
#include <internal/pycore_code.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_object.h>
#include <internal/pycore_pystate.h>

#include "watch/frame.h"

/* An entry of the interpreter takes two units of C stack, which a call that it makes itself would not take here. */
enum { ENTRY_UNITS = 2 };

static PyObject* evaluate(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing, _PyFrameEvalFunction next) {
  thread->c_recursion_remaining += ENTRY_UNITS;
  PyObject* result = next(thread, raw, throwing);
  thread->c_recursion_remaining -= ENTRY_UNITS;
  return result;
}

/* Tools that this thread may hear of: sys.settrace and sys.setprofile register for all threads, call for their own. */
static uint8_t heard(const PyThreadState* thread) {
  uint8_t tools = 0xff;
  if (thread->c_profilefunc == NULL) tools &= (uint8_t)~(1u << PY_MONITORING_SYS_PROFILE_ID);
  if (thread->c_tracefunc == NULL) tools &= (uint8_t)~(1u << PY_MONITORING_SYS_TRACE_ID);
  return tools;
}

static int any(const uint8_t* tools, int count, uint8_t of) {
  for (int i = 0; i < count; i++) {
    if ((tools[i] & of) != 0) return 1;
  }
  return 0;
}

/* sys.monitoring; sys.settrace and sys.setprofile stand on it. */
static int monitored(PyThreadState* thread, PyCodeObject* code) {
  const uint8_t of = heard(thread);
  return any(thread->interp->monitors.tools, _PY_MONITORING_UNGROUPED_EVENTS, of) ||
         (code->_co_monitoring != NULL &&
          any(code->_co_monitoring->local_monitors.tools, _PY_MONITORING_LOCAL_EVENTS, of));
}

/* A tool that has registered may watch single functions, which may be called below this one. */
int saker_thread_traced(PyThreadState* thread) {
  if (thread->tracing) return 0;
  if (any(thread->interp->monitors.tools, _PY_MONITORING_UNGROUPED_EVENTS, heard(thread))) return 1;
  for (int tool = 0; tool < PY_MONITORING_SYS_PROFILE_ID; tool++) {
    if (thread->interp->monitoring_tool_names[tool] != NULL) return 1;
  }
  return 0;
}

static void unlink_frame(SakerFrame* frame, PyObject** top) {
  _PyFrame_SetStackPointer(frame->raw, top);
  frame->thread->cframe->current_frame = frame->raw->previous;
  frame->thread->py_recursion_remaining++;
}

PyObject** saker_frame_enter(PyThreadState* thread, _PyInterpreterFrame* raw, SakerFrame* frame) {
  PyCodeObject* code = raw->f_code;
  frame->thread = thread;
  frame->raw = raw;
  frame->code = code;
  frame->function = raw->f_funcobj;
  frame->globals = raw->f_globals;
  frame->builtins = raw->f_builtins;
  frame->slots = raw->localsplus;
  frame->bottom = raw->localsplus + code->co_nlocalsplus;
  frame->units = (uint16_t*)_PyCode_CODE(code);
  frame->position = (SakerPosition*)&raw->prev_instr;
  frame->breaker = (const volatile int*)&thread->interp->ceval.eval_breaker;
  frame->instrumentation = &thread->interp->monitoring_version;
  frame->entered_with = thread->interp->monitoring_version;
  frame->generator = raw->owner == FRAME_OWNED_BY_GENERATOR ? (PyObject*)_PyFrame_GetGenerator(raw) : NULL;
  PyObject** top = _PyFrame_GetStackPointer(raw);
  raw->stacktop = -1; /* running: the collector leaves the slots of a generator alone */
  raw->previous = thread->cframe->current_frame;
  thread->cframe->current_frame = raw;
  thread->py_recursion_remaining--;
  return top;
}

/* The thread's stack of frames: memory in chunks, from which the last frame goes first. */
static void pop_memory(PyThreadState* thread, _PyInterpreterFrame* raw) {
  PyObject** base = (PyObject**)raw;
  _PyStackChunk* chunk = thread->datastack_chunk;
  if (base != &chunk->data[0]) {
    thread->datastack_top = base;
    return;
  }
  _PyStackChunk* previous = chunk->previous;
  thread->datastack_chunk = previous;
  thread->datastack_top = &previous->data[previous->top];
  thread->datastack_limit = (PyObject**)((char*)previous + previous->size);
  PyObjectArenaAllocator allocator;
  PyObject_GetArenaAllocator(&allocator);
  allocator.free(allocator.ctx, chunk, chunk->size);
}

/* Somebody holds the frame object: it takes what the frame has. The frame's caller is the current frame again. */
static void move_into_object(PyFrameObject* object, _PyInterpreterFrame* raw) {
  Py_INCREF(raw->f_code);
  memcpy(object->_f_frame_data, raw, (size_t)((char*)&raw->localsplus[raw->stacktop] - (char*)raw));
  _PyInterpreterFrame* own = (_PyInterpreterFrame*)object->_f_frame_data;
  object->f_frame = own;
  own->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  if (_PyFrame_IsIncomplete(own)) own->prev_instr = _PyCode_CODE(own->f_code) + own->f_code->_co_firsttraceable;
  _PyInterpreterFrame* caller = _PyFrame_GetFirstComplete(raw->previous);
  own->previous = NULL;
  if (caller != NULL) {
    PyFrameObject* back = caller->frame_obj != NULL ? caller->frame_obj : PyEval_GetFrame();
    if (back != NULL) object->f_back = (PyFrameObject*)Py_NewRef(back);
  }
  if (!_PyObject_GC_IS_TRACKED((PyObject*)object)) PyObject_GC_Track(object);
}

/* Everything but the code. */
static void clear(_PyInterpreterFrame* raw) {
  PyFrameObject* object = raw->frame_obj;
  if (object != NULL) {
    raw->frame_obj = NULL;
    const int kept = Py_REFCNT(object) > 1;
    if (kept) move_into_object(object, raw);
    Py_DECREF(object);
    if (kept) return;
  }
  for (int i = 0; i < raw->stacktop; i++) Py_XDECREF(raw->localsplus[i]);
  Py_XDECREF(raw->f_locals);
  Py_DECREF(raw->f_funcobj);
}

static void pop_handled_exception(PyThreadState* thread, PyGenObject* generator) {
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = NULL;
}

void saker_frame_leave(SakerFrame* frame, PyObject** top) {
  PyThreadState* thread = frame->thread;
  _PyInterpreterFrame* raw = frame->raw;
  unlink_frame(frame, top);
  if (frame->generator == NULL) {
    thread->c_recursion_remaining--;
    clear(raw);
    Py_DECREF(raw->f_code);
    thread->c_recursion_remaining++;
    pop_memory(thread, raw);
    return;
  }
  PyGenObject* generator = (PyGenObject*)frame->generator;
  generator->gi_frame_state = FRAME_CLEARED;
  pop_handled_exception(thread, generator);
  thread->c_recursion_remaining--;
  clear(raw);
  thread->c_recursion_remaining++;
  raw->previous = NULL;
}

void saker_frame_suspend(SakerFrame* frame, PyObject** top) {
  PyGenObject* generator = (PyGenObject*)frame->generator;
  generator->gi_frame_state = FRAME_SUSPENDED;
  unlink_frame(frame, top);
  pop_handled_exception(frame->thread, generator);
  frame->raw->previous = NULL;
}

PyObject* saker_frame_hand_over(SakerFrame* frame, PyObject** top, int index) {
  unlink_frame(frame, top);
  frame->raw->prev_instr = _PyCode_CODE(frame->code) + index - 1;
  return evaluate(frame->thread, frame->raw, 0, _PyEval_EvalFrameDefault);
}

PyObject* saker_frame_pass(PyThreadState* thread, _PyInterpreterFrame* raw, int throwing, _PyFrameEvalFunction next) {
  return evaluate(thread, raw, throwing, next);
}

PyCodeObject* saker_raw_code(_PyInterpreterFrame* raw) { return raw->f_code; }
PyObject* saker_raw_function(_PyInterpreterFrame* raw) { return raw->f_funcobj; }

int saker_raw_kind(PyThreadState* thread, _PyInterpreterFrame* raw) {
  const int makes_generator = raw->owner == FRAME_OWNED_BY_THREAD &&
                              (raw->f_code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
  if (makes_generator || thread->py_recursion_remaining <= 0) return SAKER_IDLE;
  if (thread->interp->gc.collecting) return SAKER_FINALIZER;
  return monitored(thread, raw->f_code) ? SAKER_TRACED : SAKER_WATCHED;
}

int saker_raw_starts_generator(_PyInterpreterFrame* raw) {
  return raw->prev_instr < _PyCode_CODE(raw->f_code) + raw->f_code->_co_firsttraceable;
}

int saker_frame_traced(const SakerFrame* frame) { return monitored(frame->thread, frame->code); }

PyObject* saker_frame_namespace(const SakerFrame* frame) { return frame->raw->f_locals; }
int saker_frame_suspended(PyObject* generator) { return ((PyGenObject*)generator)->gi_frame_state == FRAME_SUSPENDED; }

int saker_generator_unbegun(PyObject* generator, SakerUnbegun* found) {
  PyGenObject* own = (PyGenObject*)generator;
  if ((signed char)own->gi_frame_state != FRAME_CREATED) return 0;
  _PyInterpreterFrame* raw = (_PyInterpreterFrame*)own->gi_iframe;
  found->code = raw->f_code;
  found->function = (PyObject*)raw->f_funcobj;
  found->globals = raw->f_globals;
  found->builtins = raw->f_builtins;
  found->slots = raw->localsplus;
  return 1;
}

int saker_generator_ended(PyObject* generator) {
  return (signed char)((PyGenObject*)generator)->gi_frame_state >= FRAME_COMPLETED;
}

/* An empty function: the interpreter that runs it does what is pending and what only it can do. */
static PyObject* empty_function(void) {
  static PyObject* function = NULL;
  if (function != NULL) return function;
  PyObject* names = PyDict_New();
  if (names == NULL) return NULL;
  PyObject* done = NULL;
  if (PyDict_SetItemString(names, "__builtins__", PyEval_GetBuiltins()) == 0) {
    done = PyRun_String("def poll(): pass\n", Py_file_input, names, names);
  }
  if (done != NULL) function = Py_XNewRef(PyDict_GetItemString(names, "poll"));
  Py_XDECREF(done);
  Py_DECREF(names);
  return function;
}

/* An asynchronous exception came up in the empty function, which must not be seen in its traceback. */
static void hide_empty_function(void) {
  PyObject* raised = PyErr_GetRaisedException();
  PyTracebackObject* entry = (PyTracebackObject*)PyException_GetTraceback(raised);
  if (entry != NULL) {
    PyBaseExceptionObject* exception = (PyBaseExceptionObject*)raised;
    Py_XSETREF(exception->traceback, Py_XNewRef((PyObject*)entry->tb_next));
    Py_DECREF(entry);
  }
  PyErr_SetRaisedException(raised);
}

int saker_frame_poll(const SakerFrame* frame) {
  struct _ceval_state* state = &frame->thread->interp->ceval;
  if (Py_MakePendingCalls() < 0) return -1; /* signals are among them; their handlers see this frame */
  if (_Py_atomic_load_relaxed(&state->gil_drop_request)) PyEval_RestoreThread(PyEval_SaveThread());
  if (!_Py_atomic_load_relaxed(&state->eval_breaker)) return 0;
  PyObject* function = empty_function(); /* a collection, an asynchronous exception */
  PyObject* none = function == NULL ? NULL : PyObject_CallNoArgs(function);
  if (none == NULL) {
    if (function != NULL) hide_empty_function();
    return -1;
  }
  Py_DECREF(none);
  return 0;
}

/* Monitoring was switched on by what this frame called: the events of the frame itself, by the table of callbacks, in
   which sys.settrace has its own too. -1: a callback raised. */
static int tell(const SakerFrame* frame, int index, int event) {
  PyThreadState* thread = frame->thread;
  const int tools = thread->interp->monitors.tools[event];
  if (tools == 0 || thread->tracing) return 0;
  PyObject* raised = PyErr_GetRaisedException();
  PyObject* offset = PyLong_FromLong(2 * index);
  PyObject* arguments[] = {NULL, (PyObject*)frame->code, offset, raised};
  int error = offset == NULL ? -1 : 0;
  for (int tool = 0; tool < PY_MONITORING_TOOL_IDS && error == 0; tool++) {
    PyObject* callback = thread->interp->monitoring_callables[tool][event];
    if ((tools & 1 << tool) == 0 || callback == NULL) continue;
    const int before = thread->what_event;
    thread->what_event = event;
    thread->tracing++;
    PyObject* result = PyObject_Vectorcall(callback, arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
    thread->tracing--;
    thread->what_event = before;
    if (result == NULL) error = -1;
    Py_XDECREF(result);
  }
  Py_XDECREF(offset);
  if (error == 0) {
    PyErr_SetRaisedException(raised);
  } else {
    Py_XDECREF(raised);
  }
  return error;
}

void saker_frame_raised(const SakerFrame* frame, int index) {
  if (!_PyFrame_IsIncomplete(frame->raw)) {
    PyFrameObject* object = PyEval_GetFrame();
    if (object != NULL) PyTraceBack_Here(object);
  }
  tell(frame, index, PY_MONITORING_EVENT_RAISE);
}

void saker_frame_reraised(const SakerFrame* frame, int index) { tell(frame, index, PY_MONITORING_EVENT_RERAISE); }

int saker_frame_handled(const SakerFrame* frame, int handler) {
  return tell(frame, handler, PY_MONITORING_EVENT_EXCEPTION_HANDLED);
}

void saker_frame_exhausted(const SakerFrame* frame, int index) { tell(frame, index, PY_MONITORING_EVENT_RAISE); }

void saker_frame_unwound(const SakerFrame* frame, int index) { tell(frame, index, PY_MONITORING_EVENT_PY_UNWIND); }

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
PyObject* saker_import_function(PyThreadState* thread) { return thread->interp->imports.import_func; }

#endif
