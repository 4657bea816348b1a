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
constexpr std::array<LoopOp, 256> mapOpcodes() {
  std::array<LoopOp, 256> ops{};
  ops[NOP] = LoopOp::Nop;
  ops[RESUME] = LoopOp::Resume;
  ops[POP_TOP] = LoopOp::Pop;
  ops[PUSH_NULL] = LoopOp::PushNull;
  ops[COPY] = LoopOp::Copy;
  ops[SWAP] = LoopOp::Swap;
  ops[LOAD_CONST] = LoopOp::LoadConst;
  ops[LOAD_FAST] = LoopOp::LoadFast;
  ops[LOAD_CLOSURE] = LoopOp::LoadFast;
  ops[STORE_FAST] = LoopOp::StoreFast;
  ops[DELETE_FAST] = LoopOp::DeleteFast;
  ops[STORE_GLOBAL] = LoopOp::StoreGlobal;
  ops[DELETE_GLOBAL] = LoopOp::DeleteGlobal;
  ops[LOAD_NAME] = LoopOp::LoadName;
  ops[STORE_NAME] = LoopOp::StoreName;
  ops[DELETE_NAME] = LoopOp::DeleteName;
  ops[LOAD_CLASSDEREF] = LoopOp::LoadClassCell;
  ops[LOAD_BUILD_CLASS] = LoopOp::LoadBuildClass;
  ops[LOAD_ASSERTION_ERROR] = LoopOp::LoadAssertionError;
  ops[SETUP_ANNOTATIONS] = LoopOp::SetupAnnotations;
  ops[MAKE_CELL] = LoopOp::MakeCell;
  ops[COPY_FREE_VARS] = LoopOp::CopyFreeVars;
  ops[LOAD_DEREF] = LoopOp::LoadCell;
  ops[STORE_DEREF] = LoopOp::StoreCell;
  ops[DELETE_DEREF] = LoopOp::DeleteCell;
  ops[LOAD_ATTR] = LoopOp::LoadAttribute;
  ops[LOAD_METHOD] = LoopOp::LoadMethod;
  ops[STORE_ATTR] = LoopOp::StoreAttribute;
  ops[DELETE_ATTR] = LoopOp::DeleteAttribute;
  ops[UNARY_NEGATIVE] = LoopOp::UnaryNegative;
  ops[UNARY_POSITIVE] = LoopOp::UnaryPositive;
  ops[UNARY_INVERT] = LoopOp::UnaryInvert;
  ops[UNARY_NOT] = LoopOp::UnaryNot;
  ops[BINARY_OP] = LoopOp::BinaryOp;
  ops[COMPARE_OP] = LoopOp::Compare;
  ops[IS_OP] = LoopOp::Is;
  ops[CONTAINS_OP] = LoopOp::Contains;
  ops[FORMAT_VALUE] = LoopOp::FormatValue;
  ops[BINARY_SUBSCR] = LoopOp::LoadItem;
  ops[STORE_SUBSCR] = LoopOp::StoreItem;
  ops[DELETE_SUBSCR] = LoopOp::DeleteItem;
  ops[BUILD_TUPLE] = LoopOp::BuildTuple;
  ops[BUILD_LIST] = LoopOp::BuildList;
  ops[BUILD_SET] = LoopOp::BuildSet;
  ops[BUILD_MAP] = LoopOp::BuildMap;
  ops[BUILD_CONST_KEY_MAP] = LoopOp::BuildConstKeyMap;
  ops[BUILD_STRING] = LoopOp::BuildString;
  ops[BUILD_SLICE] = LoopOp::BuildSlice;
  ops[LIST_TO_TUPLE] = LoopOp::ListToTuple;
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
  ops[GET_AWAITABLE] = LoopOp::GetAwaitable;
  ops[GET_AITER] = LoopOp::GetAsyncIter;
  ops[GET_ANEXT] = LoopOp::GetAsyncNext;
  ops[END_ASYNC_FOR] = LoopOp::EndAsyncFor;
  ops[ASYNC_GEN_WRAP] = LoopOp::WrapAsyncValue;
  ops[CALL_FUNCTION_EX] = LoopOp::CallSpread;
  ops[MAKE_FUNCTION] = LoopOp::MakeFunction;
  ops[PRINT_EXPR] = LoopOp::PrintExpression;
  ops[IMPORT_NAME] = LoopOp::ImportName;
  ops[IMPORT_FROM] = LoopOp::ImportFrom;
  ops[IMPORT_STAR] = LoopOp::ImportStar;
  ops[BEFORE_WITH] = LoopOp::EnterWith;
  ops[BEFORE_ASYNC_WITH] = LoopOp::EnterAsyncWith;
  ops[WITH_EXCEPT_START] = LoopOp::ExitWith;
  ops[PUSH_EXC_INFO] = LoopOp::PushException;
  ops[POP_EXCEPT] = LoopOp::PopException;
  ops[CHECK_EXC_MATCH] = LoopOp::MatchException;
  ops[CHECK_EG_MATCH] = LoopOp::MatchExceptionGroup;
  ops[PREP_RERAISE_STAR] = LoopOp::PrepareReraise;
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

LoopInstruction jump(LoopOp op, const Unit& unit, int direction, bool polls) {
  return {.op = op, .arg = unit.next + direction * unit.arg, .extra = polls ? 1 : 0};
}

// [KW_NAMES,] PRECALL, CALL are one instruction: the names of keywords would get lost if CPython went on in between.
LoopInstruction call(std::span<const unsigned char> bytes, const Unit& first, int names) {
  Unit unit = first;
  while (unit.opcode != CALL) unit = readUnit(bytes, unit.next, cacheCounts);
  return {.op = LoopOp::Call,
          .proper = static_cast<uint8_t>(unit.proper - first.begin),
          .length = static_cast<uint8_t>(unit.next - first.begin),
          .arg = unit.arg,
          .extra = names};
}

LoopInstruction translateOpcode(std::span<const unsigned char> bytes, const Unit& unit) {
  switch (unit.opcode) {
    case JUMP_FORWARD:
      return jump(LoopOp::Jump, unit, 1, false);
    case JUMP_BACKWARD:
      return jump(LoopOp::Jump, unit, -1, true);
    case JUMP_BACKWARD_NO_INTERRUPT:
      return jump(LoopOp::Jump, unit, -1, false);
    case POP_JUMP_FORWARD_IF_TRUE:
      return jump(LoopOp::JumpIfTrue, unit, 1, false);
    case POP_JUMP_FORWARD_IF_FALSE:
      return jump(LoopOp::JumpIfFalse, unit, 1, false);
    case POP_JUMP_FORWARD_IF_NONE:
      return jump(LoopOp::JumpIfNone, unit, 1, false);
    case POP_JUMP_FORWARD_IF_NOT_NONE:
      return jump(LoopOp::JumpIfNotNone, unit, 1, false);
    case POP_JUMP_BACKWARD_IF_TRUE:
      return jump(LoopOp::JumpIfTrue, unit, -1, true);
    case POP_JUMP_BACKWARD_IF_FALSE:
      return jump(LoopOp::JumpIfFalse, unit, -1, true);
    case POP_JUMP_BACKWARD_IF_NONE:
      return jump(LoopOp::JumpIfNone, unit, -1, true);
    case POP_JUMP_BACKWARD_IF_NOT_NONE:
      return jump(LoopOp::JumpIfNotNone, unit, -1, true);
    case JUMP_IF_TRUE_OR_POP:
      return jump(LoopOp::JumpIfTrueOrPop, unit, 1, false);
    case JUMP_IF_FALSE_OR_POP:
      return jump(LoopOp::JumpIfFalseOrPop, unit, 1, false);
    case FOR_ITER:
      return jump(LoopOp::ForIter, unit, 1, false);
    case SEND:
      return jump(LoopOp::Send, unit, 1, false);
    case LOAD_GLOBAL:
      return {.op = LoopOp::LoadGlobal, .arg = unit.arg >> 1, .extra = unit.arg & 1};
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

LoopInstruction translate(std::span<const unsigned char> bytes, const Unit& unit) {
  LoopInstruction instruction = translateOpcode(bytes, unit);
  if (instruction.op != LoopOp::Call) {
    instruction.proper = static_cast<uint8_t>(unit.proper - unit.begin);
    instruction.length = static_cast<uint8_t>(unit.next - unit.begin);
  }
  return instruction;
}

}  // namespace saker::watch

#endif
