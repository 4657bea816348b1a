// Instructions of CPython 3.12.
#include "watch/decode.h"

#if PY_VERSION_HEX >= 0x030c0000 && PY_VERSION_HEX < 0x030d0000

#include <opcode.h>

#include <array>

namespace saker::watch {

namespace {

constexpr std::array<unsigned char, 256> countCaches() {
  std::array<unsigned char, 256> counts{};
  counts[BINARY_OP] = 1;
  counts[BINARY_SUBSCR] = 1;
  counts[STORE_SUBSCR] = 1;
  counts[UNPACK_SEQUENCE] = 1;
  counts[COMPARE_OP] = 1;
  counts[LOAD_ATTR] = 9;
  counts[STORE_ATTR] = 4;
  counts[LOAD_GLOBAL] = 4;
  counts[LOAD_SUPER_ATTR] = 1;
  counts[CALL] = 3;
  counts[FOR_ITER] = 1;
  counts[SEND] = 1;
  return counts;
}
constexpr std::array<unsigned char, 256> counts = countCaches();

// Instructions that mean the same, with the same operand.
constexpr std::array<LoopOp, 256> mapOpcodes() {
  std::array<LoopOp, 256> ops{};
  ops[NOP] = LoopOp::Nop;
  ops[RESUME] = LoopOp::Resume;
  ops[POP_TOP] = LoopOp::Pop;
  ops[END_FOR] = LoopOp::PopTwo;
  ops[END_SEND] = LoopOp::PopUnder;
  ops[PUSH_NULL] = LoopOp::PushNull;
  ops[COPY] = LoopOp::Copy;
  ops[SWAP] = LoopOp::Swap;
  ops[LOAD_CONST] = LoopOp::LoadConst;
  ops[LOAD_FAST] = LoopOp::LoadFast;
  ops[LOAD_FAST_CHECK] = LoopOp::LoadFast;
  ops[LOAD_FAST_AND_CLEAR] = LoopOp::LoadFastAndClear;
  ops[LOAD_CLOSURE] = LoopOp::LoadFast;
  ops[STORE_FAST] = LoopOp::StoreFast;
  ops[DELETE_FAST] = LoopOp::DeleteFast;
  ops[STORE_GLOBAL] = LoopOp::StoreGlobal;
  ops[DELETE_GLOBAL] = LoopOp::DeleteGlobal;
  ops[LOAD_NAME] = LoopOp::LoadName;
  ops[STORE_NAME] = LoopOp::StoreName;
  ops[DELETE_NAME] = LoopOp::DeleteName;
  ops[LOAD_LOCALS] = LoopOp::LoadNamespace;
  ops[LOAD_FROM_DICT_OR_GLOBALS] = LoopOp::LoadFromDictOrGlobals;
  ops[LOAD_FROM_DICT_OR_DEREF] = LoopOp::LoadFromDictOrCell;
  ops[LOAD_BUILD_CLASS] = LoopOp::LoadBuildClass;
  ops[LOAD_ASSERTION_ERROR] = LoopOp::LoadAssertionError;
  ops[SETUP_ANNOTATIONS] = LoopOp::SetupAnnotations;
  ops[MAKE_CELL] = LoopOp::MakeCell;
  ops[COPY_FREE_VARS] = LoopOp::CopyFreeVars;
  ops[LOAD_DEREF] = LoopOp::LoadCell;
  ops[STORE_DEREF] = LoopOp::StoreCell;
  ops[DELETE_DEREF] = LoopOp::DeleteCell;
  ops[STORE_ATTR] = LoopOp::StoreAttribute;
  ops[DELETE_ATTR] = LoopOp::DeleteAttribute;
  ops[UNARY_NEGATIVE] = LoopOp::UnaryNegative;
  ops[UNARY_INVERT] = LoopOp::UnaryInvert;
  ops[UNARY_NOT] = LoopOp::UnaryNot;
  ops[BINARY_OP] = LoopOp::BinaryOp;
  ops[IS_OP] = LoopOp::Is;
  ops[CONTAINS_OP] = LoopOp::Contains;
  ops[FORMAT_VALUE] = LoopOp::FormatValue;
  ops[BINARY_SUBSCR] = LoopOp::LoadItem;
  ops[STORE_SUBSCR] = LoopOp::StoreItem;
  ops[DELETE_SUBSCR] = LoopOp::DeleteItem;
  ops[BINARY_SLICE] = LoopOp::LoadSlice;
  ops[STORE_SLICE] = LoopOp::StoreSlice;
  ops[BUILD_TUPLE] = LoopOp::BuildTuple;
  ops[BUILD_LIST] = LoopOp::BuildList;
  ops[BUILD_SET] = LoopOp::BuildSet;
  ops[BUILD_MAP] = LoopOp::BuildMap;
  ops[BUILD_CONST_KEY_MAP] = LoopOp::BuildConstKeyMap;
  ops[BUILD_STRING] = LoopOp::BuildString;
  ops[BUILD_SLICE] = LoopOp::BuildSlice;
  ops[LIST_APPEND] = LoopOp::ListAppend;
  ops[SET_ADD] = LoopOp::SetAdd;
  ops[MAP_ADD] = LoopOp::MapAdd;
  ops[LIST_EXTEND] = LoopOp::ListExtend;
  ops[SET_UPDATE] = LoopOp::SetUpdate;
  ops[DICT_UPDATE] = LoopOp::DictUpdate;
  ops[DICT_MERGE] = LoopOp::DictMerge;
  ops[UNPACK_SEQUENCE] = LoopOp::Unpack;
  ops[UNPACK_EX] = LoopOp::UnpackStarred;
  ops[GET_ITER] = LoopOp::GetIter;
  ops[GET_YIELD_FROM_ITER] = LoopOp::GetYieldFromIter;
  ops[YIELD_VALUE] = LoopOp::Yield;
  ops[RETURN_VALUE] = LoopOp::Return;
  ops[RETURN_CONST] = LoopOp::ReturnConst;
  ops[GET_AWAITABLE] = LoopOp::GetAwaitable;
  ops[GET_AITER] = LoopOp::GetAsyncIter;
  ops[GET_ANEXT] = LoopOp::GetAsyncNext;
  ops[END_ASYNC_FOR] = LoopOp::EndAsyncFor;
  ops[CLEANUP_THROW] = LoopOp::CleanupThrow;
  ops[CALL_FUNCTION_EX] = LoopOp::CallSpread;
  ops[MAKE_FUNCTION] = LoopOp::MakeFunction;
  ops[IMPORT_NAME] = LoopOp::ImportName;
  ops[IMPORT_FROM] = LoopOp::ImportFrom;
  ops[BEFORE_WITH] = LoopOp::EnterWith;
  ops[BEFORE_ASYNC_WITH] = LoopOp::EnterAsyncWith;
  ops[WITH_EXCEPT_START] = LoopOp::ExitWith;
  ops[PUSH_EXC_INFO] = LoopOp::PushException;
  ops[POP_EXCEPT] = LoopOp::PopException;
  ops[CHECK_EXC_MATCH] = LoopOp::MatchException;
  ops[CHECK_EG_MATCH] = LoopOp::MatchExceptionGroup;
  ops[RAISE_VARARGS] = LoopOp::Raise;
  ops[RERAISE] = LoopOp::Reraise;
  ops[GET_LEN] = LoopOp::GetLength;
  ops[MATCH_MAPPING] = LoopOp::MatchMapping;
  ops[MATCH_SEQUENCE] = LoopOp::MatchSequence;
  ops[MATCH_KEYS] = LoopOp::MatchKeys;
  ops[MATCH_CLASS] = LoopOp::MatchClass;
  return ops;
}
constexpr std::array<LoopOp, 256> opcodes = mapOpcodes();

// The numbers of CPython's intrinsics, which its internal headers name. Those of generic classes and functions are not
// exported in any form: CPython goes on there.
LoopInstruction intrinsic(int number) {
  switch (number) {
    case 1:
      return {.op = LoopOp::PrintExpression, .extra = 1};
    case 2:
      return {.op = LoopOp::ImportStar, .extra = 1};
    case 3:
      return {.op = LoopOp::StopIterationError};
    case 4:
      return {.op = LoopOp::WrapAsyncValue};
    case 5:
      return {.op = LoopOp::UnaryPositive};
    case 6:
      return {.op = LoopOp::ListToTuple};
    default:
      return {.op = LoopOp::Unsupported};
  }
}

LoopInstruction jump(LoopOp op, const Unit& unit, int distance, int extra) {
  return {.op = op, .arg = unit.next + distance, .extra = extra};
}

// [KW_NAMES,] CALL are one instruction: the names of keywords would get lost if CPython went on in between.
LoopInstruction callWithNames(std::span<const unsigned char> bytes, const Unit& names) {
  const Unit call = readUnit(bytes, names.next, cacheCounts);
  return {.op = LoopOp::Call,
          .proper = static_cast<uint8_t>(call.proper - names.begin),
          .length = static_cast<uint8_t>(call.next - names.begin),
          .arg = call.arg,
          .extra = names.arg};
}

LoopInstruction translateOpcode(const Unit& unit) {
  const int arg = unit.arg;
  switch (unit.opcode) {
    case JUMP_FORWARD:
      return jump(LoopOp::Jump, unit, arg, 0);
    case JUMP_BACKWARD:
      return jump(LoopOp::Jump, unit, -arg, 1);
    case JUMP_BACKWARD_NO_INTERRUPT:
      return jump(LoopOp::Jump, unit, -arg, 0);
    case POP_JUMP_IF_TRUE:
      return jump(LoopOp::JumpIfTrue, unit, arg, 0);
    case POP_JUMP_IF_FALSE:
      return jump(LoopOp::JumpIfFalse, unit, arg, 0);
    case POP_JUMP_IF_NONE:
      return jump(LoopOp::JumpIfNone, unit, arg, 0);
    case POP_JUMP_IF_NOT_NONE:
      return jump(LoopOp::JumpIfNotNone, unit, arg, 0);
    case FOR_ITER:
      return jump(LoopOp::ForIter, unit, arg + 1, 0);  // over the END_FOR
    case SEND:
      return jump(LoopOp::Send, unit, arg, 1);
    case LOAD_GLOBAL:
      return {.op = LoopOp::LoadGlobal, .arg = arg >> 1, .extra = arg & 1};
    case LOAD_ATTR:
      return {.op = (arg & 1) != 0 ? LoopOp::LoadMethod : LoopOp::LoadAttribute, .arg = arg >> 1};
    case LOAD_SUPER_ATTR:
      return {.op = LoopOp::LoadSuper, .arg = arg >> 2, .extra = arg & 3};
    case COMPARE_OP:
      return {.op = LoopOp::Compare, .arg = arg >> 4};
    case CALL_INTRINSIC_1:
      return intrinsic(arg);
    case CALL_INTRINSIC_2:
      return {.op = arg == 1 ? LoopOp::PrepareReraise : LoopOp::Unsupported};
    case CALL:
      return {.op = LoopOp::Call, .arg = arg, .extra = -1};
    default:
      return {.op = opcodes[static_cast<size_t>(unit.opcode)], .arg = arg};
  }
}

}  // namespace

const unsigned char* const cacheCounts = counts.data();

LoopInstruction translate(std::span<const unsigned char> bytes, const Unit& unit) {
  if (unit.opcode == KW_NAMES) return callWithNames(bytes, unit);
  LoopInstruction instruction = translateOpcode(unit);
  instruction.proper = static_cast<uint8_t>(unit.proper - unit.begin);
  instruction.length = static_cast<uint8_t>(unit.next - unit.begin);
  return instruction;
}

}  // namespace saker::watch

#endif
