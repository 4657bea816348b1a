// Our symbols as PyTorch sees them: a SymNodeImpl over an expression. Python meets it as torch.SymInt, torch.SymBool
// and torch.SymFloat; ATen, autograd and functorch compute with it. A question that facts answer leaves nothing behind;
// one that needs the example value leaves a guard in the context.
#pragma once

#include <c10/core/SymBool.h>
#include <c10/core/SymFloat.h>
#include <c10/core/SymInt.h>
#include <c10/core/SymNodeImpl.h>

#include <memory>
#include <optional>
#include <string>

#include "ir/context.h"
#include "symbolic/int.h"

namespace saker::aten {

using SharedContext = std::shared_ptr<ir::Context>;

class SymNode final : public c10::SymNodeImpl {
 public:
  SymNode(SharedContext context, const sym::Node* node) : context_(std::move(context)), node_(node) {}

  const SharedContext& context() const { return context_; }
  const sym::Node* node() const { return node_; }

 private:
  SharedContext context_;
  const sym::Node* node_;
};

// The node behind a symbol of ours; nullptr for plain numbers and for symbols of someone else.
const SymNode* ourNode(const c10::SymInt& value);

c10::SymInt toSymInt(const SharedContext& context, sym::Int value);

}  // namespace saker::aten
