// The loop's own instruction set: what the instructions of all supported versions of CPython are turned into.
#pragma once

#include <cstdint>

namespace saker::watch {

// clang-format off
enum class LoopOp : uint8_t {
  Unsupported,  // must go on in CPython's interpreter
  // The stack, locals, constants.
  Nop, Resume, Pop, PopTwo, PopUnder, PushNull, Copy, Swap,
  LoadConst, LoadFast, LoadFastAndClear, StoreFast, DeleteFast,
  // Names and cells.
  LoadGlobal, StoreGlobal, DeleteGlobal, LoadName, StoreName, DeleteName, LoadNamespace, LoadFromDictOrGlobals,
  LoadFromDictOrCell, LoadClassCell, LoadBuildClass, LoadAssertionError, SetupAnnotations,
  MakeCell, CopyFreeVars, LoadCell, StoreCell, DeleteCell,
  // Attributes.
  LoadAttribute, LoadMethod, LoadSuper, StoreAttribute, DeleteAttribute,
  // Operators.
  UnaryNegative, UnaryPositive, UnaryInvert, UnaryNot, BinaryOp, Compare, Is, Contains, FormatValue,
  // Containers.
  LoadItem, StoreItem, DeleteItem, LoadSlice, StoreSlice,
  BuildTuple, BuildList, BuildSet, BuildMap, BuildConstKeyMap, BuildString, BuildSlice,
  ListToTuple, ListAppend, SetAdd, MapAdd, ListExtend, SetUpdate, DictUpdate, DictMerge,
  Unpack, UnpackStarred,
  // Jumps: `arg` is the target. `extra` is 1 for those backwards, at which CPython looks for signals.
  Jump, JumpIfTrue, JumpIfFalse, JumpIfNone, JumpIfNotNone, JumpIfTrueOrPop, JumpIfFalseOrPop,
  // Iteration and generators.
  GetIter, GetYieldFromIter, ForIter, Send, Yield, Return, ReturnConst,
  GetAwaitable, GetAsyncIter, GetAsyncNext, EndAsyncFor, WrapAsyncValue, CleanupThrow, StopIterationError,
  // Calls and functions.
  Call, CallSpread, MakeFunction, PrintExpression,
  // Imports.
  ImportName, ImportFrom, ImportStar,
  // with.
  EnterWith, EnterAsyncWith, ExitWith,
  // Exceptions.
  PushException, PopException, MatchException, MatchExceptionGroup, PrepareReraise, Raise, Reraise,
  // match.
  GetLength, MatchMapping, MatchSequence, MatchKeys, MatchClass,
};
// clang-format on

// One instruction with its prefixes and caches. Instructions stand in an array with one entry for each code unit; only
// the entries where an instruction begins are ever executed.
struct LoopInstruction {
  LoopOp op = LoopOp::Unsupported;
  uint8_t proper = 0;  // from the first prefix to the unit that CPython calls the instruction
  uint8_t length = 1;  // from the first prefix to the next instruction
  int32_t index = 0;   // of that unit
  int32_t arg = 0;
  int32_t extra = 0;
};

}  // namespace saker::watch
