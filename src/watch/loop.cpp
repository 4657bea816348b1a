// The loop: one instruction after the other until the frame is left. What only moves values between locals and the
// stack stands here; the rest is in the files of the families.
#include "watch/loop.h"

#include "watch/decode.h"
#include "watch/handlers.h"
#include "watch/hook.h"

namespace saker::watch {

namespace {

Flow copy(Machine& m) {
  PyObject* value = m.top(m.arg());
  Py_XINCREF(value);
  m.push(value);
  return Flow::Next;
}

Flow jumpIfNone(Machine& m, bool wanted) {
  const bool none = m.top() == Py_None;
  m.drop();
  if (none != wanted) return Flow::Next;
  m.next = m.arg();
  return m.at->extra != 0 ? m.poll() : Flow::Next;
}

// Executes instructions until one of them leaves the frame, or wants it to be handed over. An exception goes to its
// handler here if the frame has one.
Flow interpret(Machine& m, const Instruction* code, bool throwing) {
  PyObject** const slots = m.frame.slots;
  Flow flow = throwing ? Flow::Error : Flow::Next;
  if (throwing) goto outcome;
  while (true) {
    m.begin = m.next;
    m.at = code + m.begin;
    m.next = m.begin + m.at->length;
    *m.frame.position = m.frame.units + m.begin + m.at->proper;
    switch (m.at->op) {
      // Nothing here can run other code, except by a destructor: on to the next instruction.
      case Op::Nop:
        continue;
      case Op::LoadConst:
        m.push(newRef(m.constant(m.arg())));
        continue;
      case Op::LoadFast: {
        PyObject* value = slots[m.arg()];
        if (value == nullptr) {
          flow = unboundLocal(m);
          break;
        }
        m.push(newRef(value));
        continue;
      }
      case Op::LoadFastAndClear:
        m.push(std::exchange(slots[m.arg()], nullptr));
        continue;
      case Op::StoreFast: {
        PyObject* before = std::exchange(slots[m.arg()], m.top());
        m.pop();
        Py_XDECREF(before);
        continue;
      }
      case Op::DeleteFast: {
        if (slots[m.arg()] == nullptr) {
          flow = unboundLocal(m);
          break;
        }
        PyObject* before = std::exchange(slots[m.arg()], nullptr);
        Py_DECREF(before);
        continue;
      }
      case Op::Pop:
        m.drop();
        continue;
      case Op::PopTwo:
        m.drop(2);
        continue;
      case Op::PopUnder: {
        PyObject* value = m.pop();
        PyObject* under = std::exchange(m.top(), value);
        Py_DECREF(under);
        continue;
      }
      case Op::PushNull:
        m.push(nullptr);
        continue;
      case Op::Copy:
        copy(m);
        continue;
      case Op::Swap:
        std::swap(m.top(), m.top(m.arg()));
        continue;
      case Op::LoadAssertionError:
        m.push(newRef(PyExc_AssertionError));
        continue;
      case Op::Is: {
        const bool same = m.top() == m.top(2);
        m.consume(2);
        m.push(truth(same != (m.arg() != 0)));
        continue;
      }

      case Op::Resume:
        flow = m.arg() < 2 ? m.poll() : Flow::Next;
        break;
      case Op::Jump:
        m.next = m.arg();
        if (m.at->extra == 0) continue;
        flow = m.poll();
        break;
      case Op::JumpIfTrue:
        flow = jumpIfTrue(m);
        break;
      case Op::JumpIfFalse:
        flow = jumpIfFalse(m);
        break;
      case Op::JumpIfNone:
        flow = jumpIfNone(m, true);
        break;
      case Op::JumpIfNotNone:
        flow = jumpIfNone(m, false);
        break;
      case Op::JumpIfTrueOrPop:
        flow = jumpIfTrueOrPop(m);
        break;
      case Op::JumpIfFalseOrPop:
        flow = jumpIfFalseOrPop(m);
        break;

        // clang-format off
      case Op::LoadGlobal: flow = loadGlobal(m); break;
      case Op::StoreGlobal: flow = storeGlobal(m); break;
      case Op::DeleteGlobal: flow = deleteGlobal(m); break;
      case Op::LoadName: flow = loadName(m); break;
      case Op::StoreName: flow = storeName(m); break;
      case Op::DeleteName: flow = deleteName(m); break;
      case Op::LoadNamespace: flow = loadNamespace(m); break;
      case Op::LoadFromDictOrGlobals: flow = loadFromDictOrGlobals(m); break;
      case Op::LoadFromDictOrCell: flow = loadFromDictOrCell(m); break;
      case Op::LoadClassCell: flow = loadClassCell(m); break;
      case Op::LoadBuildClass: flow = loadBuildClass(m); break;
      case Op::SetupAnnotations: flow = setupAnnotations(m); break;
      case Op::MakeCell: flow = makeCell(m); break;
      case Op::CopyFreeVars: flow = copyFreeVars(m); break;
      case Op::LoadCell: flow = loadCell(m); break;
      case Op::StoreCell: flow = storeCell(m); break;
      case Op::DeleteCell: flow = deleteCell(m); break;

      case Op::LoadAttribute: flow = loadAttribute(m); break;
      case Op::LoadMethod: flow = loadMethod(m); break;
      case Op::LoadSuper: flow = loadSuper(m); break;
      case Op::StoreAttribute: flow = storeAttribute(m); break;
      case Op::DeleteAttribute: flow = deleteAttribute(m); break;

      case Op::UnaryNegative: flow = unaryNegative(m); break;
      case Op::UnaryPositive: flow = unaryPositive(m); break;
      case Op::UnaryInvert: flow = unaryInvert(m); break;
      case Op::UnaryNot: flow = unaryNot(m); break;
      case Op::BinaryOp: flow = binaryOp(m); break;
      case Op::Compare: flow = compare(m); break;
      case Op::Contains: flow = contains(m); break;
      case Op::FormatValue: flow = formatValue(m); break;

      case Op::LoadItem: flow = loadItem(m); break;
      case Op::StoreItem: flow = storeItem(m); break;
      case Op::DeleteItem: flow = deleteItem(m); break;
      case Op::LoadSlice: flow = loadSlice(m); break;
      case Op::StoreSlice: flow = storeSlice(m); break;
      case Op::BuildTuple: flow = buildTuple(m); break;
      case Op::BuildList: flow = buildList(m); break;
      case Op::BuildSet: flow = buildSet(m); break;
      case Op::BuildMap: flow = buildMap(m); break;
      case Op::BuildConstKeyMap: flow = buildConstKeyMap(m); break;
      case Op::BuildString: flow = buildString(m); break;
      case Op::BuildSlice: flow = buildSlice(m); break;
      case Op::ListToTuple: flow = listToTuple(m); break;
      case Op::ListAppend: flow = listAppend(m); break;
      case Op::SetAdd: flow = setAdd(m); break;
      case Op::MapAdd: flow = mapAdd(m); break;
      case Op::ListExtend: flow = listExtend(m); break;
      case Op::SetUpdate: flow = setUpdate(m); break;
      case Op::DictUpdate: flow = dictUpdate(m); break;
      case Op::DictMerge: flow = dictMerge(m); break;
      case Op::Unpack: flow = unpack(m); break;
      case Op::UnpackStarred: flow = unpackStarred(m); break;

      case Op::GetIter: flow = getIter(m); break;
      case Op::ForIter: flow = forIter(m); break;
      case Op::GetYieldFromIter: flow = getYieldFromIter(m); break;
      case Op::Send: flow = send(m); break;
      case Op::GetAwaitable: flow = getAwaitable(m); break;
      case Op::GetAsyncIter: flow = getAsyncIter(m); break;
      case Op::GetAsyncNext: flow = getAsyncNext(m); break;
      case Op::EndAsyncFor: flow = endAsyncFor(m); break;
      case Op::WrapAsyncValue: flow = wrapAsyncValue(m); break;
      case Op::CleanupThrow: flow = cleanupThrow(m); break;
      case Op::StopIterationError: flow = stopIterationError(m); break;

      case Op::Call: flow = call(m); break;
      case Op::CallSpread: flow = callSpread(m); break;
      case Op::MakeFunction: flow = makeFunction(m); break;
      case Op::PrintExpression: flow = printExpression(m); break;

      case Op::ImportName: flow = importName(m); break;
      case Op::ImportFrom: flow = importFrom(m); break;
      case Op::ImportStar: flow = importStar(m); break;

      case Op::EnterWith: flow = enterWith(m); break;
      case Op::EnterAsyncWith: flow = enterAsyncWith(m); break;
      case Op::ExitWith: flow = exitWith(m); break;

      case Op::PushException: flow = pushException(m); break;
      case Op::PopException: flow = popException(m); break;
      case Op::MatchException: flow = matchException(m); break;
      case Op::MatchExceptionGroup: flow = matchExceptionGroup(m); break;
      case Op::PrepareReraise: flow = prepareReraise(m); break;
      case Op::Raise: flow = raise(m); break;
      case Op::Reraise: flow = reraise(m); break;

      case Op::GetLength: flow = getLength(m); break;
      case Op::MatchMapping: flow = matchMapping(m); break;
      case Op::MatchSequence: flow = matchSequence(m); break;
      case Op::MatchKeys: flow = matchKeys(m); break;
      case Op::MatchClass: flow = matchClass(m); break;
      // clang-format on

      // Destructors of the last instructions may have switched tracing on, which sees returns and yields.
      case Op::Return:
        if (m.disturbed()) return Flow::Disturbed;
        m.result = m.pop();
        return Flow::Leave;
      case Op::ReturnConst:
        if (m.disturbed()) return Flow::Disturbed;
        m.result = newRef(m.constant(m.arg()));
        return Flow::Leave;
      case Op::Yield:
        if (m.disturbed()) return Flow::Disturbed;
        m.result = m.pop();
        return Flow::Suspend;
      case Op::Unsupported:
        return Flow::Unknown;
    }
  outcome:
    // Who stops with an exception set wants it raised in place of the instruction.
    if (flow == Flow::Stop && PyErr_Occurred() != nullptr) flow = Flow::Error;
    if (flow == Flow::Error || flow == Flow::Reraise) {
      if (flow == Flow::Error) {
        saker_frame_raised(&m.frame, m.index());
      } else {
        saker_frame_reraised(&m.frame, m.index());
      }
      if (!unwind(m)) {
        m.result = nullptr;
        return Flow::Leave;
      }
      flow = Flow::Next;
    }
    if (flow != Flow::Next) return flow;
    if (m.disturbed()) [[unlikely]] {
      m.begin = m.next;
      return Flow::Disturbed;
    }
  }
}

// CPython's interpreter goes on at the instruction that was not executed.
PyObject* handOver(Machine& m, Flow why) {
  Session& session = m.session;
  if (why == Flow::Stop || session.stopped) {
    session.stop();
    session.innermost = m.outer;
    return saker_frame_hand_over(&m.frame, m.sp, m.begin);
  }
  m.observer().unseen(why == Flow::Unknown ? "an instruction that the loop does not know"
                                           : "tracing or monitoring is on");
  const Owned code(newRef(reinterpret_cast<PyObject*>(m.frame.code)));
  const Owned generator(Py_XNewRef(m.frame.generator));
  PyObject* result = nullptr;
  {
    const Unwatched unwatched;
    const Unhooked unhooked;
    session.innermost = m.outer;
    result = saker_frame_hand_over(&m.frame, m.sp, m.begin);
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

}  // namespace

PyObject* execute(Session& session, PyThreadState* thread, struct _PyInterpreterFrame* raw, bool throwing) {
  if (session.observer->skips(saker_raw_code(raw))) {
    const Unwatched unwatched;
    const Unhooked unhooked;
    return saker_frame_pass(thread, raw, throwing ? 1 : 0, nextHook());
  }
  const Instruction* code = decoded(saker_raw_code(raw));
  if (code == nullptr || !tellEntry(session, raw)) {
    session.stop();
    return saker_frame_pass(thread, raw, throwing ? 1 : 0, nextHook());
  }
  Machine m(session);
  m.sp = saker_frame_enter(thread, raw, &m.frame);
  m.begin = static_cast<int>(*m.frame.position - m.frame.units);  // for an exception thrown into a generator
  m.at = code + (throwing ? m.begin : 0);
  m.next = m.begin + 1;
  const Flow flow = interpret(m, code, throwing);
  switch (flow) {
    case Flow::Leave:
      m.observer().left(m.frame.code, m.result);
      session.innermost = m.outer;
      saker_frame_leave(&m.frame, m.sp);
      return m.result;
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
