// What one call does, its bodies included: what it writes, whose memory its results lie in, what else can be seen of
// it. Passes, autograd and the runtime ask here. memory.h of src/passes answers the same for a whole graph.
#pragma once

#include <cstdint>

#include "ir/each_value.h"
#include "ir/graph.h"
#include "ops/operator.h"
#include "ops/view_inverse.h"

namespace saker::ops {

struct Effects {
  uint32_t traits = 0;   // Trait, of the operator and of those in its bodies
  bool unknown = false;  // one of them is not in the table: it may do anything
  bool writes = false;   // one of them writes; not what the call leaves unwritten although the operator may write

  bool has(Trait trait) const { return traits & trait; }
  // Nothing is seen of it but its results: the node may be removed when they are unused.
  bool removable() const { return !unknown && !writes && !has(kRandom) && !has(kEffect) && !has(kDataDependent); }
  // Only its place among others like it says what it does: it draws, reads a state, or is seen from outside.
  bool ordered() const { return unknown || has(kReadsState) || has(kRandom) || has(kEffect); }
};

Effects effectsOf(const ir::Node& node);

// Does the call itself write, its bodies aside? Not where its operator may, but this call does not (statistics that are
// only read). An operator that is not in the table is not asked here.
bool writes(const ir::Node& node);

// The tensors that the call itself writes. F: void(ir::Value*).
template <typename F>
void eachWritten(const ir::Node& node, F&& f) {
  if (!writes(node)) return;
  const Operator& op = *of(&node);
  for (size_t i = 0; i < node.args().size(); ++i) {
    if (op.writesArgument(i)) ir::eachValue(node.arg(i), f);
  }
}

// Whose memory the results of a call lie in, its bodies aside. F: void(ir::Value* result, ir::Value* argument, bool
// surely). The argument is nullptr where the result may be anything that was there before; an operator that is not in
// the table is not asked here.
template <typename F>
void eachShared(const ir::Node& node, F&& f);

// The argument whose memory a result lies in, or nullptr: memory of its own. Where there may be several, the first one.
ir::Value* sharedArgument(const ir::Value* result);

namespace detail {

// The results of a node that a return of its schema stands for. Those of a list stand flat; with several lists it is
// not written where one ends, so each result may be any.
struct ResultRange {
  size_t first, last;
};
ResultRange resultsOf(const ir::Node& node, size_t schemaReturn);

}  // namespace detail

template <typename F>
void eachShared(const ir::Node& node, F&& f) {
  const Operator* op = of(&node);
  if (!op || op->ownMemory) return;
  if (!op->writes) {
    for (size_t i = 0; i < node.resultCount(); ++i) {
      if (sharing(node, i) != Sharing::None) f(node.result(i), node.arg(0).toValue(), true);
    }
  }
  for (size_t r = 0; r < op->resultAlias.size(); ++r) {
    const int8_t alias = op->resultAlias[r];
    bool isArgument = op->writes && alias >= 0, isAnything = alias < 0 && !op->parsed.returns[r].alias.empty();
    if (!isArgument && !isAnything) continue;
    detail::ResultRange range = detail::resultsOf(node, r);
    for (size_t i = range.first; i < range.last; ++i) {
      if (isAnything) {
        f(node.result(i), static_cast<ir::Value*>(nullptr), false);
      } else {
        ir::eachValue(node.arg(static_cast<size_t>(alias)),
                      [&](ir::Value* argument) { f(node.result(i), argument, !op->has(kMayAlias)); });
      }
    }
  }
}

}  // namespace saker::ops
