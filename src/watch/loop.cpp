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
  const LoopInstruction* next = m.next;
  const LoopInstruction* at = nullptr;
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
      case LoopOp::Nop:
        continue;
      case LoopOp::LoadConst: {
        PyObject* value = PyTuple_GET_ITEM(constants, at->arg);
        if (Py_TYPE(value) == &PyTuple_Type || Py_TYPE(value) == &PyFrozenSet_Type) [[unlikely]] {
          m.observer().constant(value);
        }
        *sp++ = newRef(value);
        continue;
      }
      case LoopOp::LoadFast: {
        PyObject* value = slots[at->arg];
        if (value == nullptr) [[unlikely]] {
          run(unboundLocal);
          break;
        }
        *sp++ = newRef(value);
        continue;
      }
      case LoopOp::LoadFastAndClear:
        *sp++ = std::exchange(slots[at->arg], nullptr);
        continue;
      case LoopOp::StoreFast: {
        PyObject* before = std::exchange(slots[at->arg], *--sp);
        Py_XDECREF(before);
        continue;
      }
      case LoopOp::DeleteFast: {
        PyObject* before = std::exchange(slots[at->arg], nullptr);
        if (before == nullptr) {
          run(unboundLocal);
          break;
        }
        Py_DECREF(before);
        continue;
      }
      case LoopOp::PopTwo: {
        PyObject* value = *--sp;
        Py_DECREF(value);
        [[fallthrough]];
      }
      case LoopOp::Pop: {
        PyObject* value = *--sp;
        Py_DECREF(value);
        continue;
      }
      case LoopOp::PopUnder: {
        PyObject* value = *--sp;
        PyObject* under = std::exchange(sp[-1], value);
        Py_DECREF(under);
        continue;
      }
      case LoopOp::PushNull:
        *sp++ = nullptr;
        continue;
      case LoopOp::Copy: {
        PyObject* value = sp[-at->arg];
        Py_XINCREF(value);
        *sp++ = value;
        continue;
      }
      case LoopOp::Swap:
        std::swap(sp[-1], sp[-at->arg]);
        continue;
      case LoopOp::LoadAssertionError:
        *sp++ = newRef(PyExc_AssertionError);
        continue;
      case LoopOp::Is:
        run(identity);
        break;
      case LoopOp::JumpIfTrue:
        if (sp[-1] == Py_False) {
          --sp;
          Py_DECREF(Py_False);
          continue;
        }
        run(jumpIfTrue);
        break;
      case LoopOp::JumpIfFalse:
        if (sp[-1] == Py_True) {
          --sp;
          Py_DECREF(Py_True);
          continue;
        }
        run(jumpIfFalse);
        break;
      case LoopOp::Jump:
        next = m.code + at->arg;
        if (at->extra == 0 || *m.frame.breaker == 0) continue;
        run(poll);
        break;
      case LoopOp::Resume:
        if (at->arg >= 2 || *m.frame.breaker == 0) continue;
        run(poll);
        break;

        // clang-format off
      case LoopOp::JumpIfNone: run(jumpIfNone); break;
      case LoopOp::JumpIfNotNone: run(jumpIfNotNone); break;
      case LoopOp::JumpIfTrueOrPop: run(jumpIfTrueOrPop); break;
      case LoopOp::JumpIfFalseOrPop: run(jumpIfFalseOrPop); break;
      case LoopOp::LoadGlobal: run(loadGlobal); break;
      case LoopOp::StoreGlobal: run(storeGlobal); break;
      case LoopOp::DeleteGlobal: run(deleteGlobal); break;
      case LoopOp::LoadName: run(loadName); break;
      case LoopOp::StoreName: run(storeName); break;
      case LoopOp::DeleteName: run(deleteName); break;
      case LoopOp::LoadNamespace: run(loadNamespace); break;
      case LoopOp::LoadFromDictOrGlobals: run(loadFromDictOrGlobals); break;
      case LoopOp::LoadFromDictOrCell: run(loadFromDictOrCell); break;
      case LoopOp::LoadClassCell: run(loadClassCell); break;
      case LoopOp::LoadBuildClass: run(loadBuildClass); break;
      case LoopOp::SetupAnnotations: run(setupAnnotations); break;
      case LoopOp::MakeCell: run(makeCell); break;
      case LoopOp::CopyFreeVars: run(copyFreeVars); break;
      case LoopOp::LoadCell: run(loadCell); break;
      case LoopOp::StoreCell: run(storeCell); break;
      case LoopOp::DeleteCell: run(deleteCell); break;
      case LoopOp::LoadAttribute: run(loadAttribute); break;
      case LoopOp::LoadMethod: run(loadMethod); break;
      case LoopOp::LoadSuper: run(loadSuper); break;
      case LoopOp::StoreAttribute: run(storeAttribute); break;
      case LoopOp::DeleteAttribute: run(deleteAttribute); break;
      case LoopOp::UnaryNegative: run(unaryNegative); break;
      case LoopOp::UnaryPositive: run(unaryPositive); break;
      case LoopOp::UnaryInvert: run(unaryInvert); break;
      case LoopOp::UnaryNot: run(unaryNot); break;
      case LoopOp::BinaryOp: run(binaryOp); break;
      case LoopOp::Compare: run(compare); break;
      case LoopOp::Contains: run(contains); break;
      case LoopOp::FormatValue: run(formatValue); break;
      case LoopOp::LoadItem: run(loadItem); break;
      case LoopOp::StoreItem: run(storeItem); break;
      case LoopOp::DeleteItem: run(deleteItem); break;
      case LoopOp::LoadSlice: run(loadSlice); break;
      case LoopOp::StoreSlice: run(storeSlice); break;
      case LoopOp::BuildTuple: run(buildTuple); break;
      case LoopOp::BuildList: run(buildList); break;
      case LoopOp::BuildSet: run(buildSet); break;
      case LoopOp::BuildMap: run(buildMap); break;
      case LoopOp::BuildConstKeyMap: run(buildConstKeyMap); break;
      case LoopOp::BuildString: run(buildString); break;
      case LoopOp::BuildSlice: run(buildSlice); break;
      case LoopOp::ListToTuple: run(listToTuple); break;
      case LoopOp::ListAppend: run(listAppend); break;
      case LoopOp::SetAdd: run(setAdd); break;
      case LoopOp::MapAdd: run(mapAdd); break;
      case LoopOp::ListExtend: run(listExtend); break;
      case LoopOp::SetUpdate: run(setUpdate); break;
      case LoopOp::DictUpdate: run(dictUpdate); break;
      case LoopOp::DictMerge: run(dictMerge); break;
      case LoopOp::Unpack: run(unpack); break;
      case LoopOp::UnpackStarred: run(unpackStarred); break;
      case LoopOp::GetIter: run(getIter); break;
      case LoopOp::ForIter: run(forIter); break;
      case LoopOp::GetYieldFromIter: run(getYieldFromIter); break;
      case LoopOp::Send: run(send); break;
      case LoopOp::GetAwaitable: run(getAwaitable); break;
      case LoopOp::GetAsyncIter: run(getAsyncIter); break;
      case LoopOp::GetAsyncNext: run(getAsyncNext); break;
      case LoopOp::EndAsyncFor: run(endAsyncFor); break;
      case LoopOp::WrapAsyncValue: run(wrapAsyncValue); break;
      case LoopOp::CleanupThrow: run(cleanupThrow); break;
      case LoopOp::StopIterationError: run(stopIterationError); break;
      case LoopOp::Call: run(call); break;
      case LoopOp::CallSpread: run(callSpread); break;
      case LoopOp::MakeFunction: run(makeFunction); break;
      case LoopOp::PrintExpression: run(printExpression); break;
      case LoopOp::ImportName: run(importName); break;
      case LoopOp::ImportFrom: run(importFrom); break;
      case LoopOp::ImportStar: run(importStar); break;
      case LoopOp::EnterWith: run(enterWith); break;
      case LoopOp::EnterAsyncWith: run(enterAsyncWith); break;
      case LoopOp::ExitWith: run(exitWith); break;
      case LoopOp::PushException: run(pushException); break;
      case LoopOp::PopException: run(popException); break;
      case LoopOp::MatchException: run(matchException); break;
      case LoopOp::MatchExceptionGroup: run(matchExceptionGroup); break;
      case LoopOp::PrepareReraise: run(prepareReraise); break;
      case LoopOp::Raise: run(raise); break;
      case LoopOp::Reraise: run(reraise); break;
      case LoopOp::GetLength: run(getLength); break;
      case LoopOp::MatchMapping: run(matchMapping); break;
      case LoopOp::MatchSequence: run(matchSequence); break;
      case LoopOp::MatchKeys: run(matchKeys); break;
      case LoopOp::MatchClass: run(matchClass); break;
      // clang-format on

      // Destructors of the last instructions may have switched tracing on, which sees returns and yields.
      case LoopOp::Return:
      case LoopOp::ReturnConst:
      case LoopOp::Yield:
        save();
        if (m.disturbed()) return Flow::Disturbed;
        if (at->op == LoopOp::ReturnConst) {
          m.result = newRef(PyTuple_GET_ITEM(constants, at->arg));
          if (Py_TYPE(m.result) == &PyTuple_Type) m.observer().constant(m.result);
          return Flow::Leave;
        }
        m.result = m.pop();
        return at->op == LoopOp::Yield ? Flow::Suspend : Flow::Leave;
      case LoopOp::Unsupported:
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
  const LoopInstruction* code = decoded(entered);
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
