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
  uint64_t monitoring;         /* of 3.12: which version of the instrumentation the frame began with */
  PyObject* generator;         /* whose frame this is, or NULL */
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
PyCodeObject* saker_raw_code(struct _PyInterpreterFrame* raw);
PyObject* saker_raw_function(struct _PyInterpreterFrame* raw);
int saker_raw_index(struct _PyInterpreterFrame* raw);            /* of the instruction before the next one */
int saker_raw_makes_generator(struct _PyInterpreterFrame* raw);  /* the call of a generator function: only makes it */
int saker_raw_starts_generator(struct _PyInterpreterFrame* raw); /* its first step */
int saker_raw_traced(PyThreadState* thread, struct _PyInterpreterFrame* raw);
int saker_thread_exhausted(PyThreadState* thread);  /* the recursion limit is reached */
int saker_thread_collecting(PyThreadState* thread); /* the collector runs: this frame is a finalizer's */

/* Is tracing, profiling or monitoring on, so that CPython must run the frame? */
int saker_frame_traced(const SakerFrame* frame);
PyObject* saker_frame_namespace(const SakerFrame* frame); /* the locals of a class body or of exec; may be NULL */
int saker_frame_suspended(PyObject* generator);           /* waits in a yield */

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
PyObject* saker_import_function(PyThreadState* thread);           /* the interpreter's own __import__, borrowed */

#ifdef __cplusplus
}
#endif
