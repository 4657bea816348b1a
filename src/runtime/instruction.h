// What an Executable is made of: calls of operators and bodies of control flow, over numbered slots (tensors) and cells
// (numbers). All that can be known before a run is in here.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <memory>
#include <vector>

#include "ir/graph.h"
#include "runtime/fused.h"
#include "runtime/sizes.h"

namespace saker::aten {
class KeptKernel;
}

namespace saker::runtime {

struct Operand {
  uint32_t argument;
  uint32_t slot;
  bool last;           // nothing reads the slot afterwards
  bool fixed = false;  // the slot is the same in each run
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

// A view that is made without asking the operator: its layout is told. `source` is what it is a view of, or a view of
// a view of, whose own layout may have begun elsewhere in memory when it was recorded.
struct DirectView {
  uint32_t slot;
  uint32_t source;
  Told told, sourceTold;
};

// Instructions [begin, end) of a body, what they are given and what they give.
struct Body {
  uint32_t begin = 0, end = 0;
  std::vector<const ir::Value*> parameters;
  std::vector<ir::Arg> returned;
  std::vector<uint32_t> own;    // slots of parameters and of what is returned: nothing reads them behind it
  std::vector<uint32_t> stale;  // cells whose values depend on sizes that its operators find
};

struct Instruction {
  enum class Kind : uint8_t { Call, View, If, Loop, While, WhileBackward, Scan, Fused };
  Kind kind = Kind::Call;
  bool makes = false;  // takes no tensor, and is of the table
  const ir::Node* node = nullptr;
  std::optional<c10::OperatorHandle> handle;
  // The variant that computes into a tensor of the workspace, and which one.
  std::optional<c10::OperatorHandle> into;
  uint32_t place = 0;
  // The kernel that runs may enter directly, on tensors whose layouts are known, and which of the kept calls it is.
  const aten::KeptKernel* kernel = nullptr;
  uint32_t kept = kNone;
  std::vector<c10::IValue> arguments;  // with gaps for what follows
  std::vector<Operand> operands;
  std::vector<ListOperand> lists;
  std::vector<NumberOperand> numbers;
  std::vector<uint32_t> converted;  // arguments that are converted in each run
  std::vector<Result> results;
  std::vector<uint32_t> freed;  // slots that nothing reads from here on
  std::vector<Body> bodies;
  std::vector<DirectView> views;
  // Of a fused group: its kernels; by result, where in the workspace it lies (kNone: in memory of its own); the buffer
  // of its temporaries there; and operands that are parameters of the graph, which may lie otherwise than told.
  std::shared_ptr<const FusedCode> fused;
  std::vector<uint32_t> places;
  // By result: the operand in whose memory it lies, if nobody else has that (kNone: of none).
  std::vector<uint32_t> overwrites;
  uint32_t scratch = kNone;
  uint32_t together = 1;  // so many groups, from this one on, are launched as one
  std::vector<uint32_t> checked;
  // What the caller sees the version of: an operand or a result, once for each write to it.
  struct Counted {
    bool result;
    uint32_t number;
  };
  std::vector<Counted> counted;
};

}  // namespace saker::runtime
