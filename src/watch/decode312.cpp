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
constexpr std::array<Op, 256> mapOpcodes() {
  std::array<Op, 256> ops{};
  ops[NOP] = Op::Nop;
  ops[RESUME] = Op::Resume;
  ops[POP_TOP] = Op::Pop;
  ops[END_FOR] = Op::PopTwo;
  ops[END_SEND] = Op::PopUnder;
  ops[PUSH_NULL] = Op::PushNull;
  ops[COPY] = Op::Copy;
  ops[SWAP] = Op::Swap;
  ops[LOAD_CONST] = Op::LoadConst;
  ops[LOAD_FAST] = Op::LoadFast;
  ops[LOAD_FAST_CHECK] = Op::LoadFast;
  ops[LOAD_FAST_AND_CLEAR] = Op::LoadFastAndClear;
  ops[LOAD_CLOSURE] = Op::LoadFast;
  ops[STORE_FAST] = Op::StoreFast;
  ops[DELETE_FAST] = Op::DeleteFast;
  ops[STORE_GLOBAL] = Op::StoreGlobal;
  ops[DELETE_GLOBAL] = Op::DeleteGlobal;
  ops[LOAD_NAME] = Op::LoadName;
  ops[STORE_NAME] = Op::StoreName;
  ops[DELETE_NAME] = Op::DeleteName;
  ops[LOAD_LOCALS] = Op::LoadNamespace;
  ops[LOAD_FROM_DICT_OR_GLOBALS] = Op::LoadFromDictOrGlobals;
  ops[LOAD_FROM_DICT_OR_DEREF] = Op::LoadFromDictOrCell;
  ops[LOAD_BUILD_CLASS] = Op::LoadBuildClass;
  ops[LOAD_ASSERTION_ERROR] = Op::LoadAssertionError;
  ops[SETUP_ANNOTATIONS] = Op::SetupAnnotations;
  ops[MAKE_CELL] = Op::MakeCell;
  ops[COPY_FREE_VARS] = Op::CopyFreeVars;
  ops[LOAD_DEREF] = Op::LoadCell;
  ops[STORE_DEREF] = Op::StoreCell;
  ops[DELETE_DEREF] = Op::DeleteCell;
  ops[STORE_ATTR] = Op::StoreAttribute;
  ops[DELETE_ATTR] = Op::DeleteAttribute;
  ops[UNARY_NEGATIVE] = Op::UnaryNegative;
  ops[UNARY_INVERT] = Op::UnaryInvert;
  ops[UNARY_NOT] = Op::UnaryNot;
  ops[BINARY_OP] = Op::BinaryOp;
  ops[IS_OP] = Op::Is;
  ops[CONTAINS_OP] = Op::Contains;
  ops[FORMAT_VALUE] = Op::FormatValue;
  ops[BINARY_SUBSCR] = Op::LoadItem;
  ops[STORE_SUBSCR] = Op::StoreItem;
  ops[DELETE_SUBSCR] = Op::DeleteItem;
  ops[BINARY_SLICE] = Op::LoadSlice;
  ops[STORE_SLICE] = Op::StoreSlice;
  ops[BUILD_TUPLE] = Op::BuildTuple;
  ops[BUILD_LIST] = Op::BuildList;
  ops[BUILD_SET] = Op::BuildSet;
  ops[BUILD_MAP] = Op::BuildMap;
  ops[BUILD_CONST_KEY_MAP] = Op::BuildConstKeyMap;
  ops[BUILD_STRING] = Op::BuildString;
  ops[BUILD_SLICE] = Op::BuildSlice;
  ops[LIST_APPEND] = Op::ListAppend;
  ops[SET_ADD] = Op::SetAdd;
  ops[MAP_ADD] = Op::MapAdd;
  ops[LIST_EXTEND] = Op::ListExtend;
  ops[SET_UPDATE] = Op::SetUpdate;
  ops[DICT_UPDATE] = Op::DictUpdate;
  ops[DICT_MERGE] = Op::DictMerge;
  ops[UNPACK_SEQUENCE] = Op::Unpack;
  ops[UNPACK_EX] = Op::UnpackStarred;
  ops[GET_ITER] = Op::GetIter;
  ops[GET_YIELD_FROM_ITER] = Op::GetYieldFromIter;
  ops[YIELD_VALUE] = Op::Yield;
  ops[RETURN_VALUE] = Op::Return;
  ops[RETURN_CONST] = Op::ReturnConst;
  ops[GET_AWAITABLE] = Op::GetAwaitable;
  ops[GET_AITER] = Op::GetAsyncIter;
  ops[GET_ANEXT] = Op::GetAsyncNext;
  ops[END_ASYNC_FOR] = Op::EndAsyncFor;
  ops[CLEANUP_THROW] = Op::CleanupThrow;
  ops[CALL_FUNCTION_EX] = Op::CallSpread;
  ops[MAKE_FUNCTION] = Op::MakeFunction;
  ops[IMPORT_NAME] = Op::ImportName;
  ops[IMPORT_FROM] = Op::ImportFrom;
  ops[BEFORE_WITH] = Op::EnterWith;
  ops[BEFORE_ASYNC_WITH] = Op::EnterAsyncWith;
  ops[WITH_EXCEPT_START] = Op::ExitWith;
  ops[PUSH_EXC_INFO] = Op::PushException;
  ops[POP_EXCEPT] = Op::PopException;
  ops[CHECK_EXC_MATCH] = Op::MatchException;
  ops[CHECK_EG_MATCH] = Op::MatchExceptionGroup;
  ops[RAISE_VARARGS] = Op::Raise;
  ops[RERAISE] = Op::Reraise;
  ops[GET_LEN] = Op::GetLength;
  ops[MATCH_MAPPING] = Op::MatchMapping;
  ops[MATCH_SEQUENCE] = Op::MatchSequence;
  ops[MATCH_KEYS] = Op::MatchKeys;
  ops[MATCH_CLASS] = Op::MatchClass;
  return ops;
}
constexpr std::array<Op, 256> opcodes = mapOpcodes();

// The numbers of CPython's intrinsics, which its internal headers name. Those of generic classes and functions are not
// exported in any form: CPython goes on there.
Instruction intrinsic(int number) {
  switch (number) {
    case 1:
      return {.op = Op::PrintExpression, .extra = 1};
    case 2:
      return {.op = Op::ImportStar, .extra = 1};
    case 3:
      return {.op = Op::StopIterationError};
    case 4:
      return {.op = Op::WrapAsyncValue};
    case 5:
      return {.op = Op::UnaryPositive};
    case 6:
      return {.op = Op::ListToTuple};
    default:
      return {.op = Op::Unsupported};
  }
}

Instruction jump(Op op, const Unit& unit, int distance, int extra) {
  return {.op = op, .arg = unit.next + distance, .extra = extra};
}

// [KW_NAMES,] CALL are one instruction: the names of keywords would get lost if CPython went on in between.
Instruction callWithNames(std::span<const unsigned char> bytes, const Unit& names) {
  const Unit call = readUnit(bytes, names.next, cacheCounts);
  return {.op = Op::Call,
          .proper = static_cast<uint8_t>(call.proper - names.begin),
          .length = static_cast<uint8_t>(call.next - names.begin),
          .arg = call.arg,
          .extra = names.arg};
}

Instruction translateOpcode(const Unit& unit) {
  const int arg = unit.arg;
  switch (unit.opcode) {
    case JUMP_FORWARD:
      return jump(Op::Jump, unit, arg, 0);
    case JUMP_BACKWARD:
      return jump(Op::Jump, unit, -arg, 1);
    case JUMP_BACKWARD_NO_INTERRUPT:
      return jump(Op::Jump, unit, -arg, 0);
    case POP_JUMP_IF_TRUE:
      return jump(Op::JumpIfTrue, unit, arg, 0);
    case POP_JUMP_IF_FALSE:
      return jump(Op::JumpIfFalse, unit, arg, 0);
    case POP_JUMP_IF_NONE:
      return jump(Op::JumpIfNone, unit, arg, 0);
    case POP_JUMP_IF_NOT_NONE:
      return jump(Op::JumpIfNotNone, unit, arg, 0);
    case FOR_ITER:
      return jump(Op::ForIter, unit, arg + 1, 0);  // over the END_FOR
    case SEND:
      return jump(Op::Send, unit, arg, 1);
    case LOAD_GLOBAL:
      return {.op = Op::LoadGlobal, .arg = arg >> 1, .extra = arg & 1};
    case LOAD_ATTR:
      return {.op = (arg & 1) != 0 ? Op::LoadMethod : Op::LoadAttribute, .arg = arg >> 1};
    case LOAD_SUPER_ATTR:
      return {.op = Op::LoadSuper, .arg = arg >> 2, .extra = arg & 3};
    case COMPARE_OP:
      return {.op = Op::Compare, .arg = arg >> 4};
    case CALL_INTRINSIC_1:
      return intrinsic(arg);
    case CALL_INTRINSIC_2:
      return {.op = arg == 1 ? Op::PrepareReraise : Op::Unsupported};
    case CALL:
      return {.op = Op::Call, .arg = arg, .extra = -1};
    default:
      return {.op = opcodes[static_cast<size_t>(unit.opcode)], .arg = arg};
  }
}

}  // namespace

const unsigned char* const cacheCounts = counts.data();

Instruction translate(std::span<const unsigned char> bytes, const Unit& unit) {
  if (unit.opcode == KW_NAMES) return callWithNames(bytes, unit);
  Instruction instruction = translateOpcode(unit);
  instruction.proper = static_cast<uint8_t>(unit.proper - unit.begin);
  instruction.length = static_cast<uint8_t>(unit.next - unit.begin);
  return instruction;
}

}  // namespace saker::watch

#endif
