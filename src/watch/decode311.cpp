// Instructions of CPython 3.11.
#include "watch/decode.h"

#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030c0000

#include <opcode.h>

#include <array>

namespace saker::watch {

namespace {

constexpr std::array<unsigned char, 256> countCaches() {
  std::array<unsigned char, 256> counts{};
  counts[BINARY_SUBSCR] = 4;
  counts[STORE_SUBSCR] = 1;
  counts[UNPACK_SEQUENCE] = 1;
  counts[STORE_ATTR] = 4;
  counts[LOAD_ATTR] = 4;
  counts[COMPARE_OP] = 2;
  counts[LOAD_GLOBAL] = 5;
  counts[BINARY_OP] = 1;
  counts[LOAD_METHOD] = 10;
  counts[PRECALL] = 1;
  counts[CALL] = 4;
  return counts;
}
constexpr std::array<unsigned char, 256> counts = countCaches();

// Instructions that mean the same, with the same operand.
constexpr std::array<Op, 256> mapOpcodes() {
  std::array<Op, 256> ops{};
  ops[NOP] = Op::Nop;
  ops[RESUME] = Op::Resume;
  ops[POP_TOP] = Op::Pop;
  ops[PUSH_NULL] = Op::PushNull;
  ops[COPY] = Op::Copy;
  ops[SWAP] = Op::Swap;
  ops[LOAD_CONST] = Op::LoadConst;
  ops[LOAD_FAST] = Op::LoadFast;
  ops[LOAD_CLOSURE] = Op::LoadFast;
  ops[STORE_FAST] = Op::StoreFast;
  ops[DELETE_FAST] = Op::DeleteFast;
  ops[STORE_GLOBAL] = Op::StoreGlobal;
  ops[DELETE_GLOBAL] = Op::DeleteGlobal;
  ops[LOAD_NAME] = Op::LoadName;
  ops[STORE_NAME] = Op::StoreName;
  ops[DELETE_NAME] = Op::DeleteName;
  ops[LOAD_CLASSDEREF] = Op::LoadClassCell;
  ops[LOAD_BUILD_CLASS] = Op::LoadBuildClass;
  ops[LOAD_ASSERTION_ERROR] = Op::LoadAssertionError;
  ops[SETUP_ANNOTATIONS] = Op::SetupAnnotations;
  ops[MAKE_CELL] = Op::MakeCell;
  ops[COPY_FREE_VARS] = Op::CopyFreeVars;
  ops[LOAD_DEREF] = Op::LoadCell;
  ops[STORE_DEREF] = Op::StoreCell;
  ops[DELETE_DEREF] = Op::DeleteCell;
  ops[LOAD_ATTR] = Op::LoadAttribute;
  ops[LOAD_METHOD] = Op::LoadMethod;
  ops[STORE_ATTR] = Op::StoreAttribute;
  ops[DELETE_ATTR] = Op::DeleteAttribute;
  ops[UNARY_NEGATIVE] = Op::UnaryNegative;
  ops[UNARY_POSITIVE] = Op::UnaryPositive;
  ops[UNARY_INVERT] = Op::UnaryInvert;
  ops[UNARY_NOT] = Op::UnaryNot;
  ops[BINARY_OP] = Op::BinaryOp;
  ops[COMPARE_OP] = Op::Compare;
  ops[IS_OP] = Op::Is;
  ops[CONTAINS_OP] = Op::Contains;
  ops[FORMAT_VALUE] = Op::FormatValue;
  ops[BINARY_SUBSCR] = Op::LoadItem;
  ops[STORE_SUBSCR] = Op::StoreItem;
  ops[DELETE_SUBSCR] = Op::DeleteItem;
  ops[BUILD_TUPLE] = Op::BuildTuple;
  ops[BUILD_LIST] = Op::BuildList;
  ops[BUILD_SET] = Op::BuildSet;
  ops[BUILD_MAP] = Op::BuildMap;
  ops[BUILD_CONST_KEY_MAP] = Op::BuildConstKeyMap;
  ops[BUILD_STRING] = Op::BuildString;
  ops[BUILD_SLICE] = Op::BuildSlice;
  ops[LIST_TO_TUPLE] = Op::ListToTuple;
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
  ops[GET_AWAITABLE] = Op::GetAwaitable;
  ops[GET_AITER] = Op::GetAsyncIter;
  ops[GET_ANEXT] = Op::GetAsyncNext;
  ops[END_ASYNC_FOR] = Op::EndAsyncFor;
  ops[ASYNC_GEN_WRAP] = Op::WrapAsyncValue;
  ops[CALL_FUNCTION_EX] = Op::CallSpread;
  ops[MAKE_FUNCTION] = Op::MakeFunction;
  ops[PRINT_EXPR] = Op::PrintExpression;
  ops[IMPORT_NAME] = Op::ImportName;
  ops[IMPORT_FROM] = Op::ImportFrom;
  ops[IMPORT_STAR] = Op::ImportStar;
  ops[BEFORE_WITH] = Op::EnterWith;
  ops[BEFORE_ASYNC_WITH] = Op::EnterAsyncWith;
  ops[WITH_EXCEPT_START] = Op::ExitWith;
  ops[PUSH_EXC_INFO] = Op::PushException;
  ops[POP_EXCEPT] = Op::PopException;
  ops[CHECK_EXC_MATCH] = Op::MatchException;
  ops[CHECK_EG_MATCH] = Op::MatchExceptionGroup;
  ops[PREP_RERAISE_STAR] = Op::PrepareReraise;
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

Instruction jump(Op op, const Unit& unit, int direction, bool polls) {
  return {.op = op, .arg = unit.next + direction * unit.arg, .extra = polls ? 1 : 0};
}

// [KW_NAMES,] PRECALL, CALL are one instruction: the names of keywords would get lost if CPython went on in between.
Instruction call(std::span<const unsigned char> bytes, const Unit& first, int names) {
  Unit unit = first;
  while (unit.opcode != CALL) unit = readUnit(bytes, unit.next, cacheCounts);
  return {.op = Op::Call,
          .proper = static_cast<uint8_t>(unit.proper - first.begin),
          .length = static_cast<uint8_t>(unit.next - first.begin),
          .arg = unit.arg,
          .extra = names};
}

Instruction translateOpcode(std::span<const unsigned char> bytes, const Unit& unit) {
  switch (unit.opcode) {
    case JUMP_FORWARD:
      return jump(Op::Jump, unit, 1, false);
    case JUMP_BACKWARD:
      return jump(Op::Jump, unit, -1, true);
    case JUMP_BACKWARD_NO_INTERRUPT:
      return jump(Op::Jump, unit, -1, false);
    case POP_JUMP_FORWARD_IF_TRUE:
      return jump(Op::JumpIfTrue, unit, 1, false);
    case POP_JUMP_FORWARD_IF_FALSE:
      return jump(Op::JumpIfFalse, unit, 1, false);
    case POP_JUMP_FORWARD_IF_NONE:
      return jump(Op::JumpIfNone, unit, 1, false);
    case POP_JUMP_FORWARD_IF_NOT_NONE:
      return jump(Op::JumpIfNotNone, unit, 1, false);
    case POP_JUMP_BACKWARD_IF_TRUE:
      return jump(Op::JumpIfTrue, unit, -1, true);
    case POP_JUMP_BACKWARD_IF_FALSE:
      return jump(Op::JumpIfFalse, unit, -1, true);
    case POP_JUMP_BACKWARD_IF_NONE:
      return jump(Op::JumpIfNone, unit, -1, true);
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return jump(Op::JumpIfNotNone, unit, -1, true);
    case JUMP_IF_TRUE_OR_POP:
      return jump(Op::JumpIfTrueOrPop, unit, 1, false);
    case JUMP_IF_FALSE_OR_POP:
      return jump(Op::JumpIfFalseOrPop, unit, 1, false);
    case FOR_ITER:
      return jump(Op::ForIter, unit, 1, false);
    case SEND:
      return jump(Op::Send, unit, 1, false);
    case LOAD_GLOBAL:
      return {.op = Op::LoadGlobal, .arg = unit.arg >> 1, .extra = unit.arg & 1};
    case KW_NAMES:
      return call(bytes, unit, unit.arg);
    case PRECALL:
      return call(bytes, unit, -1);
    default:
      return {.op = opcodes[static_cast<size_t>(unit.opcode)], .arg = unit.arg};
  }
}

}  // namespace

const unsigned char* const cacheCounts = counts.data();

Instruction translate(std::span<const unsigned char> bytes, const Unit& unit) {
  Instruction instruction = translateOpcode(bytes, unit);
  if (instruction.op != Op::Call) {
    instruction.proper = static_cast<uint8_t>(unit.proper - unit.begin);
    instruction.length = static_cast<uint8_t>(unit.next - unit.begin);
  }
  return instruction;
}

}  // namespace saker::watch

#endif
