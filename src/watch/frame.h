/* CPython's live frames behind a small interface in C: everything that needs CPython's internal headers, of which some
   do not compile as C++. One file for each version implements it: frame311.c, frame312.c. */
#pragma once

#include <Python.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct _PyInterpreterFrame;

/* A code unit's address inside of a frame, whatever CPython's type for a unit is. */
typedef uint16_t* __attribute__((may_alias)) SakerPosition;

/* What the loop needs of a frame that it executes. Nothing is owned. */
typedef struct SakerFrame {
  PyThreadState* thread;
  struct _PyInterpreterFrame* raw;
  PyCodeObject* code;
  PyObject* function;
  PyObject* globals;
  PyObject* builtins;
  PyObject** slots;            /* locals, cells and free variables, then the value stack */
  PyObject** bottom;           /* where the value stack begins */
  uint16_t* units;             /* the first unit of the code */
  SakerPosition* position;     /* the frame's instruction: the running one, or the one before the next */
  const volatile int* breaker; /* not zero: something is pending (signals, the GIL) */
#if PY_VERSION_HEX >= 0x030c0000
  const uint64_t* instrumentation; /* its version now, and when the frame was entered */
  uint64_t entered_with;
#endif
  PyObject* generator; /* whose frame this is, or NULL */
} SakerFrame;

/* Fills `frame` from the frame that a PEP 523 hook was given, links it as the thread's current one and takes a unit of
   the recursion limit. Gives the top of its value stack. */
PyObject** saker_frame_enter(PyThreadState* thread, struct _PyInterpreterFrame* raw, SakerFrame* frame);

/* Ways out. The frame must not be touched afterwards. */
void saker_frame_leave(SakerFrame* frame, PyObject** top);   /* by a return, or an exception that nothing catches */
void saker_frame_suspend(SakerFrame* frame, PyObject** top); /* by a yield */
/* Gives the frame to CPython's interpreter, which goes on at instruction `index`. */
PyObject* saker_frame_hand_over(SakerFrame* frame, PyObject** top, int index);

/* An untouched frame goes to the next hook. */
PyObject* saker_frame_pass(PyThreadState* thread, struct _PyInterpreterFrame* raw, int throwing,
                           _PyFrameEvalFunction next);

/* Questions about a frame that was not entered yet. */
enum {
  SAKER_WATCHED, /* an ordinary frame */
  SAKER_IDLE,    /* nothing of the program's runs: a generator function that makes its generator, the recursion limit */
  SAKER_FINALIZER, /* the collector runs: this frame is a finalizer's */
  SAKER_TRACED,    /* tracing, profiling or monitoring is on: CPython must run the frame */
};
int saker_raw_kind(PyThreadState* thread, struct _PyInterpreterFrame* raw);
PyCodeObject* saker_raw_code(struct _PyInterpreterFrame* raw);
PyObject* saker_raw_function(struct _PyInterpreterFrame* raw);
int saker_raw_starts_generator(struct _PyInterpreterFrame* raw); /* its first step */

/* Has tracing, profiling or monitoring been switched on, so that CPython must run the frame? First a quick question. */
int saker_frame_traced(const SakerFrame* frame);
static inline int saker_frame_suspect(const SakerFrame* frame) {
#if PY_VERSION_HEX >= 0x030c0000
  return *frame->instrumentation != frame->entered_with || frame->code->_co_monitoring != NULL;
#else
  return frame->thread->cframe->use_tracing;
#endif
}
/* Would CPython tell a tracer, a profiler or a monitor about what this thread calls? */
int saker_thread_traced(PyThreadState* thread);
PyObject* saker_frame_namespace(const SakerFrame* frame); /* the locals of a class body or of exec; may be NULL */
int saker_frame_suspended(PyObject* generator);           /* waits in a yield */

/* A generator that has not begun: what its body will see. Nothing is owned. */
typedef struct SakerUnbegun {
  PyCodeObject* code;
  PyObject* function;
  PyObject* globals;
  PyObject* builtins;
  PyObject** slots; /* locals, cells and free variables: co_nlocalsplus of the code */
} SakerUnbegun;
int saker_generator_unbegun(PyObject* generator, SakerUnbegun* found); /* 0: it has begun */
int saker_generator_ended(PyObject* generator);

/* What CPython does at the beginning of functions, at backward jumps and after calls. -1: an exception is set. */
int saker_frame_poll(const SakerFrame* frame);

/* An exception leaves the frame's instruction: its traceback entry, the events that tracers are still due. */
void saker_frame_raised(const SakerFrame* frame, int index);
void saker_frame_reraised(const SakerFrame* frame, int index);
int saker_frame_handled(const SakerFrame* frame, int handler); /* -1: a tracer raised */
void saker_frame_exhausted(const SakerFrame* frame,
                           int index); /* a StopIteration that ends a loop is about to be cleared */
void saker_frame_unwound(const SakerFrame* frame, int index);

PyObject* saker_lookup_special(PyObject* object, PyObject* name); /* on the type, bound; NULL without one */
void* saker_code_extra(PyCodeObject* code, Py_ssize_t index); /* what a code object keeps for us; NULL: nothing yet */
PyObject* saker_import_function(PyThreadState* thread);       /* the interpreter's own __import__, borrowed */

#ifdef __cplusplus
}
#endif
