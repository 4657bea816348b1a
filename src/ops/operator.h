// An operator answers for itself: its schema, what its results look like, what it reads and writes, whether it draws
// random numbers, how much it costs. Passes ask here; none carries a list of operator names.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/context.h"
#include "ir/graph.h"
#include "ir/schema.h"

namespace saker::ops {

class Infer;
using InferFn = void (*)(Infer&);
// What one element of a result is (element.h).
class Element;
struct Along;
struct Num;
using ElementFn = Num (*)(Element& e);
using AlongFn = std::optional<Along> (*)(const Infer& in, size_t result);
struct Operator;
using ItemFn = const Operator* (*)();

// How the time of an operator is spent; what to fuse and what to recompute follows from it.
#define SAKER_COSTS(X)                                                                      \
  X(View, "view")                   /* metadata only, no memory is touched */               \
  X(Fill, "fill")                   /* writes a result without reading a tensor */          \
  X(Pointwise, "pointwise")         /* one result element from one element of each input */ \
  X(Reduction, "reduction")         /* reads a dimension or more for each result element */ \
  X(Normalization, "normalization") /* reductions and pointwise work in one */              \
  X(Indexing, "indexing")           /* moves memory: gather, scatter, cat, pad, copy */     \
  X(Scan, "scan")                   /* cumulative along a dimension */                      \
  X(Sort, "sort")                                                                           \
  X(Pooling, "pooling") /* windows: pooling, interpolation */                               \
  X(Matmul, "matmul")                                                                       \
  X(Convolution, "convolution")                                                             \
  X(Attention, "attention")                                                                 \
  X(Library, "library") /* anything else that only a library does */

enum class Cost : uint8_t {
#define X(enumerator, name) enumerator,
  SAKER_COSTS(X)
#undef X
};
std::string_view name(Cost cost);

// What a schema does not say.
enum Trait : uint32_t {
  kNone = 0,
  kRandom = 1 << 0,            // draws from a generator: never dead, never merged
  kFailsOnData = 1 << 1,       // may raise because of the values in its inputs (TRACE rule 13)
  kDataDependent = 1 << 2,     // its result is a Python number read from data
  kDynamicShape = 1 << 3,      // its result's shape depends on data
  kMayAlias = 1 << 4,          // the result is the input, a view of it, or fresh, depending on the arguments
  kOwnWrites = 1 << 5,         // the rule itself describes what is written (in-place and out= are not derived)
  kExactOut = 1 << 6,          // out= must have exactly the dtype of the result
  kReadsState = 1 << 7,        // reads something that is no argument (a generator's state, a global)
  kEffect = 1 << 8,            // does something beyond its results and writes: never dead, never moved
  kNondeterministic = 1 << 9,  // may give another result for the same input (order of atomic additions)
  kCopiedOut = 1 << 10,        // out= gets a copy of a fresh result: of exactly its dtype, row-major when resized
  kSetsStorage = 1 << 11,      // changes which bytes its argument sees, or how many there are (set_, resize_)
  kHostResult = 1 << 12        // PyTorch's own C++ code reads its result without an operator
};

enum class Variant : uint8_t { Functional, Inplace, Out, View };

// One line of the table, as an operator's file writes it.
struct Row {
  std::string schema;
  InferFn infer;
  Cost cost;
  uint32_t traits = kNone;
  // Arguments that are written although the schema does not say so.
  std::vector<std::string_view> hiddenWrites = {};
  uint8_t bodies = 0;                // of branches and loops (control_flow.h)
  ir::OpDef::Check check = nullptr;  // and what must hold of their bodies
  ItemFn item = nullptr;             // of an operator on lists: the one that is done to each item
};

struct Operator : ir::OpDef {
  ir::Schema parsed;
  InferFn infer = nullptr;
  Cost cost = Cost::Library;
  uint32_t traits = kNone;
  Variant variant = Variant::Functional;
  uint8_t bodies = 0;
  uint64_t writes = 0;              // bit i: argument i is written
  std::vector<int8_t> resultAlias;  // per schema return: the argument it is or is a view of, or -1
  ElementFn element = nullptr;      // nullptr: only a library does it
  AlongFn along = nullptr;          // of reductions and normalisations: along which dimensions
  ItemFn item = nullptr;            // of an operator on lists: the one that is done to each item, one after the other

  bool has(Trait trait) const { return traits & trait; }
  bool isRandom() const { return has(kRandom); }
  // May a call write this argument? Of a node, ask eachWritten() of effects.h.
  bool writesArgument(size_t i) const { return i < 64 && (writes >> i & 1); }
  // A result is this argument or a view of it.
  bool returnsArgument(size_t i) const;
  bool returnsAnyArgument() const;
  // A call writes nothing, and no result lies in memory that was there before.
  bool ownMemory = false;
  // No effect but its results: may be removed when unused.
  bool isRemovable() const { return writes == 0 && !has(kRandom) && !has(kEffect) && !has(kDataDependent); }
  // Same arguments, same results, nothing aliased or written: two may become one.
  bool isPure() const;
};

// The table: built once, immutable afterwards.
const Operator* find(std::string_view qualified);
std::span<const Operator* const> all();               // sorted by name
const ir::OpDef* lookup(std::string_view qualified);  // for ir::Context
inline const Operator* of(const ir::OpDef* def) {
  return def && def->registered ? static_cast<const Operator*>(def) : nullptr;
}
inline const Operator* of(const ir::Node* node) { return of(node->op()); }

}  // namespace saker::ops
