// What an Executable is made of: calls of operators and bodies of control flow, over numbered slots (tensors) and cells
// (numbers). All that can be known before a run is in here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <vector>

#include "ir/graph.h"
#include "runtime/geometry.h"

namespace saker::runtime {

inline constexpr uint32_t kNone = ~0u;

// A layout, of which some numbers may be known only in a run.
struct Told {
  Geometry numbers;
  std::vector<uint32_t> cells;  // of the sizes, the strides and the offset, kNone where it is a number. Empty: all are
};

struct Operand {
  uint32_t argument;
  uint32_t slot;
  bool last;  // nothing reads the slot afterwards
};

struct ListOperand {
  uint32_t argument;
  bool optional;                // some may be None
  std::vector<uint32_t> slots;  // kNone for None
};

// An integer, or a list of integers, with parts that are known only in a run.
struct NumberOperand {
  uint32_t argument;
  bool list;
  std::vector<int64_t> numbers;
  std::vector<uint32_t> cells;  // kNone where it is a number
};

struct Result {
  uint32_t slot = kNone;  // kNone: nothing reads it
  uint32_t cell = kNone;  // of a number
  bool fresh = false;     // no view, and no argument that was written
  bool foreign = false;   // of an operator that nothing is known of
  bool tensor = false;
  Told told;
  std::vector<std::pair<uint32_t, uint32_t>> binds;  // dimension, cell: sizes that only the operator knows
  const ir::Value* value = nullptr;
};

// Instructions [begin, end) of a body, what they are given and what they give.
struct Body {
  uint32_t begin = 0, end = 0;
  std::vector<const ir::Value*> parameters;
  std::vector<ir::Arg> returned;
};

struct Instruction {
  enum class Kind : uint8_t { Call, If, Loop };
  Kind kind = Kind::Call;
  // How a call of a recording is made (runtime/program_run.cpp).
  bool gradMode = true, otherInference = false, shown = false, ownVersion = false, makes = false;
  const ir::Node* node = nullptr;
  std::optional<c10::OperatorHandle> handle;
  std::vector<c10::IValue> arguments;  // with gaps for what follows
  std::vector<Operand> operands;
  std::vector<ListOperand> lists;
  std::vector<NumberOperand> numbers;
  std::vector<uint32_t> converted;  // arguments that are converted in each run
  std::vector<Result> results;
  std::vector<uint32_t> freed;  // slots that nothing reads from here on
  size_t steps = 0;             // of the list of expressions that must have run before
  std::vector<Body> bodies;
};

}  // namespace saker::runtime
