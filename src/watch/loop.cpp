// The loop: one instruction after the other until the frame is left. What only moves values between locals and the
// stack stands here; the rest is in the files of the families.
#include "watch/loop.h"

#include <utility>

#include "watch/decode.h"
#include "watch/handlers.h"
#include "watch/hook.h"

namespace saker::watch {

namespace {

Flow poll(Machine& m) { return m.poll(); }

// An exception has come up, or goes on: to its handler in this frame. False: there is none, the frame is left by it.
bool recover(Machine& m, Flow& flow) {
  if (flow == Flow::Error) {
    saker_frame_raised(&m.frame, m.index());
  } else {
    saker_frame_reraised(&m.frame, m.index());
  }
  m.result = nullptr;
  flow = Flow::Next;
  return unwind(m);
}

// Executes instructions until one of them leaves the frame, or wants it to be handed over. An exception goes to its
// handler here if the frame has one.
Flow interpret(Machine& m, bool throwing) {
  Flow flow = throwing ? Flow::Error : Flow::Next;
  if (throwing) {
    if (!recover(m, flow)) return Flow::Leave;
    if (m.disturbed()) {
      m.at = m.next;
      return Flow::Disturbed;
    }
  }
  PyObject** const slots = m.frame.slots;
  PyObject* const constants = m.frame.code->co_consts;
  // The machine's own are up to date whenever a handler runs.
  PyObject** sp = m.sp;
  const Instruction* next = m.next;
  const Instruction* at = nullptr;
  const auto save = [&] {
    m.sp = sp;
    m.at = at;
    m.next = next;
  };
  const auto run = [&](Flow (*handler)(Machine&)) {
    save();
    flow = handler(m);
    sp = m.sp;
    next = m.next;
  };
  while (true) {
    at = next;
    next = at + at->length;
    *m.frame.position = m.frame.units + at->index;
    switch (at->op) {
      // Nothing here can run other code, except by a destructor: on to the next instruction.
      case Op::Nop:
        continue;
      case Op::LoadConst: {
        PyObject* value = PyTuple_GET_ITEM(constants, at->arg);
        if (Py_TYPE(value) == &PyTuple_Type || Py_TYPE(value) == &PyFrozenSet_Type) [[unlikely]] {
          m.observer().constant(value);
        }
        *sp++ = newRef(value);
        continue;
      }
      case Op::LoadFast: {
        PyObject* value = slots[at->arg];
        if (value == nullptr) [[unlikely]] {
          run(unboundLocal);
          break;
        }
        *sp++ = newRef(value);
        continue;
      }
      case Op::LoadFastAndClear:
        *sp++ = std::exchange(slots[at->arg], nullptr);
        continue;
      case Op::StoreFast: {
        PyObject* before = std::exchange(slots[at->arg], *--sp);
        Py_XDECREF(before);
        continue;
      }
      case Op::DeleteFast: {
        PyObject* before = std::exchange(slots[at->arg], nullptr);
        if (before == nullptr) {
          run(unboundLocal);
          break;
        }
        Py_DECREF(before);
        continue;
      }
      case Op::PopTwo: {
        PyObject* value = *--sp;
        Py_DECREF(value);
        [[fallthrough]];
      }
      case Op::Pop: {
        PyObject* value = *--sp;
        Py_DECREF(value);
        continue;
      }
      case Op::PopUnder: {
        PyObject* value = *--sp;
        PyObject* under = std::exchange(sp[-1], value);
        Py_DECREF(under);
        continue;
      }
      case Op::PushNull:
        *sp++ = nullptr;
        continue;
      case Op::Copy: {
        PyObject* value = sp[-at->arg];
        Py_XINCREF(value);
        *sp++ = value;
        continue;
      }
      case Op::Swap:
        std::swap(sp[-1], sp[-at->arg]);
        continue;
      case Op::LoadAssertionError:
        *sp++ = newRef(PyExc_AssertionError);
        continue;
      case Op::Is:
        run(identity);
        break;
      case Op::JumpIfTrue:
        if (sp[-1] == Py_False) {
          --sp;
          Py_DECREF(Py_False);
          continue;
        }
        run(jumpIfTrue);
        break;
      case Op::JumpIfFalse:
        if (sp[-1] == Py_True) {
          --sp;
          Py_DECREF(Py_True);
          continue;
        }
        run(jumpIfFalse);
        break;
      case Op::Jump:
        next = m.code + at->arg;
        if (at->extra == 0 || *m.frame.breaker == 0) continue;
        run(poll);
        break;
      case Op::Resume:
        if (at->arg >= 2 || *m.frame.breaker == 0) continue;
        run(poll);
        break;

        // clang-format off
      case Op::JumpIfNone: run(jumpIfNone); break;
      case Op::JumpIfNotNone: run(jumpIfNotNone); break;
      case Op::JumpIfTrueOrPop: run(jumpIfTrueOrPop); break;
      case Op::JumpIfFalseOrPop: run(jumpIfFalseOrPop); break;
      case Op::LoadGlobal: run(loadGlobal); break;
      case Op::StoreGlobal: run(storeGlobal); break;
      case Op::DeleteGlobal: run(deleteGlobal); break;
      case Op::LoadName: run(loadName); break;
      case Op::StoreName: run(storeName); break;
      case Op::DeleteName: run(deleteName); break;
      case Op::LoadNamespace: run(loadNamespace); break;
      case Op::LoadFromDictOrGlobals: run(loadFromDictOrGlobals); break;
      case Op::LoadFromDictOrCell: run(loadFromDictOrCell); break;
      case Op::LoadClassCell: run(loadClassCell); break;
      case Op::LoadBuildClass: run(loadBuildClass); break;
      case Op::SetupAnnotations: run(setupAnnotations); break;
      case Op::MakeCell: run(makeCell); break;
      case Op::CopyFreeVars: run(copyFreeVars); break;
      case Op::LoadCell: run(loadCell); break;
      case Op::StoreCell: run(storeCell); break;
      case Op::DeleteCell: run(deleteCell); break;
      case Op::LoadAttribute: run(loadAttribute); break;
      case Op::LoadMethod: run(loadMethod); break;
      case Op::LoadSuper: run(loadSuper); break;
      case Op::StoreAttribute: run(storeAttribute); break;
      case Op::DeleteAttribute: run(deleteAttribute); break;
      case Op::UnaryNegative: run(unaryNegative); break;
      case Op::UnaryPositive: run(unaryPositive); break;
      case Op::UnaryInvert: run(unaryInvert); break;
      case Op::UnaryNot: run(unaryNot); break;
      case Op::BinaryOp: run(binaryOp); break;
      case Op::Compare: run(compare); break;
      case Op::Contains: run(contains); break;
      case Op::FormatValue: run(formatValue); break;
      case Op::LoadItem: run(loadItem); break;
      case Op::StoreItem: run(storeItem); break;
      case Op::DeleteItem: run(deleteItem); break;
      case Op::LoadSlice: run(loadSlice); break;
      case Op::StoreSlice: run(storeSlice); break;
      case Op::BuildTuple: run(buildTuple); break;
      case Op::BuildList: run(buildList); break;
      case Op::BuildSet: run(buildSet); break;
      case Op::BuildMap: run(buildMap); break;
      case Op::BuildConstKeyMap: run(buildConstKeyMap); break;
      case Op::BuildString: run(buildString); break;
      case Op::BuildSlice: run(buildSlice); break;
      case Op::ListToTuple: run(listToTuple); break;
      case Op::ListAppend: run(listAppend); break;
      case Op::SetAdd: run(setAdd); break;
      case Op::MapAdd: run(mapAdd); break;
      case Op::ListExtend: run(listExtend); break;
      case Op::SetUpdate: run(setUpdate); break;
      case Op::DictUpdate: run(dictUpdate); break;
      case Op::DictMerge: run(dictMerge); break;
      case Op::Unpack: run(unpack); break;
      case Op::UnpackStarred: run(unpackStarred); break;
      case Op::GetIter: run(getIter); break;
      case Op::ForIter: run(forIter); break;
      case Op::GetYieldFromIter: run(getYieldFromIter); break;
      case Op::Send: run(send); break;
      case Op::GetAwaitable: run(getAwaitable); break;
      case Op::GetAsyncIter: run(getAsyncIter); break;
      case Op::GetAsyncNext: run(getAsyncNext); break;
      case Op::EndAsyncFor: run(endAsyncFor); break;
      case Op::WrapAsyncValue: run(wrapAsyncValue); break;
      case Op::CleanupThrow: run(cleanupThrow); break;
      case Op::StopIterationError: run(stopIterationError); break;
      case Op::Call: run(call); break;
      case Op::CallSpread: run(callSpread); break;
      case Op::MakeFunction: run(makeFunction); break;
      case Op::PrintExpression: run(printExpression); break;
      case Op::ImportName: run(importName); break;
      case Op::ImportFrom: run(importFrom); break;
      case Op::ImportStar: run(importStar); break;
      case Op::EnterWith: run(enterWith); break;
      case Op::EnterAsyncWith: run(enterAsyncWith); break;
      case Op::ExitWith: run(exitWith); break;
      case Op::PushException: run(pushException); break;
      case Op::PopException: run(popException); break;
      case Op::MatchException: run(matchException); break;
      case Op::MatchExceptionGroup: run(matchExceptionGroup); break;
      case Op::PrepareReraise: run(prepareReraise); break;
      case Op::Raise: run(raise); break;
      case Op::Reraise: run(reraise); break;
      case Op::GetLength: run(getLength); break;
      case Op::MatchMapping: run(matchMapping); break;
      case Op::MatchSequence: run(matchSequence); break;
      case Op::MatchKeys: run(matchKeys); break;
      case Op::MatchClass: run(matchClass); break;
      // clang-format on

      // Destructors of the last instructions may have switched tracing on, which sees returns and yields.
      case Op::Return:
      case Op::ReturnConst:
      case Op::Yield:
        save();
        if (m.disturbed()) return Flow::Disturbed;
        if (at->op == Op::ReturnConst) {
          m.result = newRef(PyTuple_GET_ITEM(constants, at->arg));
          if (Py_TYPE(m.result) == &PyTuple_Type) m.observer().constant(m.result);
          return Flow::Leave;
        }
        m.result = m.pop();
        return at->op == Op::Yield ? Flow::Suspend : Flow::Leave;
      case Op::Unsupported:
        save();
        return Flow::Unknown;
    }
    // Who stops with an exception set wants it raised in place of the instruction.
    if (flow == Flow::Stop && PyErr_Occurred() == nullptr) m.observer().refused();
    if (flow == Flow::Stop && PyErr_Occurred() != nullptr) flow = Flow::Error;
    if (flow == Flow::Error || flow == Flow::Reraise) [[unlikely]] {
      if (!recover(m, flow)) return Flow::Leave;
      sp = m.sp;
      next = m.next;
    }
    if (flow != Flow::Next) return flow;
    if (m.disturbed()) [[unlikely]] {
      m.at = next;
      return Flow::Disturbed;
    }
  }
}

PyObject* leave(Machine& m) {
  m.observer().left(m.frame.code, m.result);
  m.session.innermost = m.outer;
  saker_frame_leave(&m.frame, m.sp);
  return m.result;
}

// CPython's interpreter goes on at the instruction that was not executed.
PyObject* handOver(Machine& m, Flow why) {
  Session& session = m.session;
  if (why == Flow::Stop || session.stopped) {
    session.stop();
    session.innermost = m.outer;
    return saker_frame_hand_over(&m.frame, m.sp, m.at->index - m.at->proper);
  }
  m.observer().unseen(why == Flow::Unknown ? Unseen::Instruction : Unseen::Traced);
  if (PyErr_Occurred() != nullptr) {
    saker_frame_raised(&m.frame, m.index());
    m.drain(m.frame.bottom);
    saker_frame_unwound(&m.frame, m.index());
    m.result = nullptr;
    return leave(m);
  }
  const Ref code = Ref::steal(newRef(reinterpret_cast<PyObject*>(m.frame.code)));
  const Ref generator = Ref::steal(Py_XNewRef(m.frame.generator));
  PyObject* result = nullptr;
  {
    const Unwatched unwatched;
    const Unhooked unhooked;
    session.innermost = m.outer;
    result = saker_frame_hand_over(&m.frame, m.sp, m.at->index - m.at->proper);
  }
  auto* left = reinterpret_cast<PyCodeObject*>(code.get());
  if (generator && saker_frame_suspended(generator.get())) {
    session.observer->suspended(left, result);
  } else {
    session.observer->left(left, result);
  }
  return result;
}

// Tells that the frame is entered. False: the observer stops.
bool tellEntry(Session& session, struct _PyInterpreterFrame* raw) {
  PyCodeObject* code = saker_raw_code(raw);
  constexpr int generators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  if ((code->co_flags & generators) != 0 && !saker_raw_starts_generator(raw)) return session.observer->resumes(code);
  return session.observer->enters(saker_raw_function(raw), code);
}

// For the time in which a frame runs: what it calls is called by a frame of this code.
class CalledBy {
 public:
  CalledBy(Session& session, PyCodeObject* passed)
      : session_(session), before_(std::exchange(session.passed, passed)) {}
  ~CalledBy() { session_.passed = before_; }
  CalledBy(const CalledBy&) = delete;
  CalledBy& operator=(const CalledBy&) = delete;

 private:
  Session& session_;
  PyCodeObject* before_;
};

}  // namespace

PyObject* execute(Session& session, PyThreadState* thread, struct _PyInterpreterFrame* raw, bool throwing) {
  PyCodeObject* const entered = saker_raw_code(raw);
  const Skip skip = session.observer->skips(entered, session.passed);
  if (skip == Skip::All) {
    const Skipping skipping(session);
    const Unhooked unhooked;
    return saker_frame_pass(thread, raw, throwing ? 1 : 0, nextHook());
  }
  const CalledBy caller(session, skip == Skip::Frame ? entered : nullptr);
  if (skip == Skip::Frame) return saker_frame_pass(thread, raw, throwing ? 1 : 0, nextHook());
  const Instruction* code = decoded(entered);
  if (code == nullptr || !tellEntry(session, raw)) {
    session.stop();
    const bool raises = throwing || PyErr_Occurred() != nullptr;
    return saker_frame_pass(thread, raw, raises ? 1 : 0, nextHook());
  }
  Machine m(session);
  m.sp = saker_frame_enter(thread, raw, &m.frame);
  m.code = code;
  m.next = code + (*m.frame.position - m.frame.units + 1);
  m.at = throwing ? m.next - 1 : m.next;  // an exception comes up where the generator waits
  const Flow flow = interpret(m, throwing);
  switch (flow) {
    case Flow::Leave:
      return leave(m);
    case Flow::Suspend:
      m.observer().suspended(m.frame.code, m.result);
      session.innermost = m.outer;
      saker_frame_suspend(&m.frame, m.sp);
      return m.result;
    default:
      return handOver(m, flow);
  }
}

}  // namespace saker::watch
