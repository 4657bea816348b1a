#include "lower/in_place.h"

#include <algorithm>
#include <optional>

namespace saker::lower {
namespace {

using kernel::Node;
using kernel::Op;

// How many steps all loops have; nothing where that is not known, or where they have an order.
std::optional<int64_t> stepsOf(const kernel::Kernel& kernel) {
  int64_t steps = 1;
  for (const kernel::Axis& axis : kernel.axes) {
    if (!axis.extent.isNumber() || axis.chunkOf != kernel::kNone || axis.ordered) return std::nullopt;
    steps *= axis.extent.number;
  }
  return steps;
}

// As many steps as the result has elements, and each writes one: then each has its own, and no other step reads it.
bool storesOneEachStep(const kernel::Kernel& kernel, uint32_t store, int64_t elements) {
  std::optional<int64_t> steps = stepsOf(kernel);
  if (!steps || *steps != elements || kernel.nodes[store].operands[1] != kernel::kNone) return false;
  bool reduces = std::any_of(kernel.axes.begin(), kernel.axes.end(), [](const auto& axis) { return axis.reduced; });
  for (const kernel::Phase& phase : kernel.phases) {
    if (phase.begin <= store && store < phase.end) return phase.loop == reduces;
  }
  return false;
}

// Does every load of `from` come before all stores to `to`, at the same place?
bool readsBeforeItWrites(const kernel::Kernel& kernel, uint32_t from, uint32_t to, int64_t elements) {
  if (kernel.buffers[from].written || kernel.buffers[from].dtype != kernel.buffers[to].dtype) return false;
  std::optional<uint32_t> store;
  for (uint32_t i = 0; i < kernel.nodes.size(); ++i) {
    const Node& node = kernel.nodes[i];
    bool touches = (node.op == Op::Load || node.op == Op::Store) && (node.at == to || node.at == from);
    if (!touches) continue;
    if (node.at == to) {
      if (node.op != Op::Store || store || !node.index.values.empty()) return false;
      store = i;
    } else if (store) {
      return false;
    }
  }
  if (!store || !storesOneEachStep(kernel, *store, elements)) return false;
  return std::all_of(kernel.nodes.begin(), kernel.nodes.end(), [&](const Node& node) {
    return node.op != Op::Load || node.at != from || node.index == kernel.nodes[*store].index;
  });
}

std::optional<uint32_t> bufferOf(const Launch& launch, Operand operand) {
  auto found = std::find(launch.buffers.begin(), launch.buffers.end(), operand);
  if (found == launch.buffers.end()) return std::nullopt;
  return static_cast<uint32_t>(found - launch.buffers.begin());
}

}  // namespace

std::vector<InPlace> inPlace(const ir::Node& group, const Lowered& lowered) {
  std::vector<InPlace> found;
  for (const Launch& launch : lowered.launches) {
    // Operators that are called in the place of kernels would find what these have written.
    for (const Operand& buffer : launch.buffers) {
      if (buffer.kind == Operand::Kind::Flag) return {};
    }
  }
  for (uint32_t result = 0; result < group.resultCount(); ++result) {
    sym::Int elements = ir::numel(group.result(result)->tensor()->sizes());
    const Launch* writer = nullptr;
    size_t writers = 0;
    for (const Launch& launch : lowered.launches) {
      std::optional<uint32_t> buffer = bufferOf(launch, {Operand::Kind::Result, result});
      if (!buffer || !launch.kernel.buffers[*buffer].written) continue;
      writer = &launch;
      ++writers;
    }
    if (writers != 1 || !elements.isConst()) continue;
    uint32_t to = *bufferOf(*writer, {Operand::Kind::Result, result});
    for (uint32_t from = 0; from < writer->buffers.size(); ++from) {
      const Operand& operand = writer->buffers[from];
      if (operand.kind != Operand::Kind::Parameter) continue;
      bool again = std::any_of(writer + 1, lowered.launches.data() + lowered.launches.size(),
                               [&](const Launch& later) { return bufferOf(later, operand).has_value(); });
      if (again || !readsBeforeItWrites(writer->kernel, from, to, elements.constant())) continue;
      found.push_back({result, operand.number});
    }
  }
  return found;
}

}  // namespace saker::lower
