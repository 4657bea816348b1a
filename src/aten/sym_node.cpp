#include "aten/sym_node.h"

namespace saker::aten {

const SymNode* ourNode(const c10::SymInt& value) {
  if (!value.is_heap_allocated()) return nullptr;
  return dynamic_cast<const SymNode*>(value.toSymNodeImplUnowned());
}

c10::SymInt toSymInt(const SharedContext& context, sym::Int value) {
  if (value.isConst()) return value.constant();
  return c10::SymInt(c10::SymNode(c10::make_intrusive<SymNode>(context, value.node())));
}

}  // namespace saker::aten
