#include "aot/autocast.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "aten/autocast_state.h"
#include "aten/call_node.h"
#include "aten/enums.h"
#include "ops/operator.h"

namespace saker::aot {

namespace {

bool hasKernel(const ir::Node& node, c10::DispatchKey key) {
  auto op = aten::findOperator(node.op()->qualified);
  return op && op->hasKernelForDispatchKey(key);
}

// Products are made in the lower precision; what else autocast knows, in the higher one.
bool isChanged(const ir::Node& node) {
  const ops::Operator* op = ops::of(&node);
  bool product =
      op && (op->cost == ops::Cost::Matmul || op->cost == ops::Cost::Convolution || op->cost == ops::Cost::Attention);
  for (const ir::Use& use : node.operands()) {
    const ir::TensorType* type = use.value->tensor();
    if (!type) continue;
    c10::ScalarType dtype = aten::fromDType(type->dtype);
    bool lower = dtype == c10::kHalf || dtype == c10::kBFloat16;
    if (product ? dtype != c10::kFloat : !lower) continue;
    c10::DeviceType device = aten::fromDevice(type->device).type();
    if (!aten::autocast::isAvailable(device)) continue;
    if (hasKernel(node, aten::autocast::keyOf(device))) return true;
  }
  return false;
}

}  // namespace

bool autocastMatters(const ir::Graph& graph) {
  for (const ir::Node* node = graph.top()->first(); node; node = node->next()) {
    if (!node->isReturn() && isChanged(*node)) return true;
  }
  return false;
}

bool autocastIsOn() {
  c10::DispatchKeySet off = c10::impl::tls_local_dispatch_key_set().excluded_ & c10::autocast_dispatch_keyset;
  return off != c10::autocast_dispatch_keyset;
}

}  // namespace saker::aot
