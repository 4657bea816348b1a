// Rewriting arguments in place.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "support/arena.h"

namespace saker::passes {

// Replaces constants and values inside the arguments of nodes. F: bool(Arg&), which changes what is neither a list
// and says whether it did.
class ArgRewriter {
 public:
  explicit ArgRewriter(ir::Graph& graph) : graph_(graph) {}

  template <typename F>
  bool rewrite(ir::Node* node, F&& f) {
    Arena::Mark mark = scratch_.mark();
    changed_.assign(node->args().begin(), node->args().end());
    bool any = false;
    for (ir::Arg& arg : changed_) any |= rewrite(arg, f);
    if (any) graph_.setArgs(node, changed_);
    scratch_.reset(mark);
    return any;
  }

 private:
  template <typename F>
  bool rewrite(ir::Arg& arg, F& f) {
    if (!arg.isList()) return f(arg);
    // Copied when the first element changes.
    std::span<ir::Arg> copy;
    for (size_t i = 0; i < arg.toList().size(); ++i) {
      ir::Arg element = arg.toList()[i];
      if (!rewrite(element, f)) continue;
      if (copy.empty()) copy = scratch_.copy(arg.toList());
      copy[i] = element;
    }
    if (copy.empty()) return false;
    arg = ir::Arg::list(copy);
    return true;
  }

  ir::Graph& graph_;
  Arena scratch_;
  std::vector<ir::Arg> changed_;
};

}  // namespace saker::passes
