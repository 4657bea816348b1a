#include "lower/store_copy.h"

#include <algorithm>
#include <numeric>

#include "ir/type.h"
#include "lower/chunk.h"
#include "lower/expressions.h"
#include "ops/shape.h"

namespace saker::lower {

using kernel::Index;
using kernel::kNone;
using kernel::Node;
using kernel::Op;

bool readsBehindStore(const kernel::Kernel& kernel, uint32_t buffer) {
  const Index* stored = nullptr;
  for (const Node& node : kernel.nodes) {
    if (node.op != Op::Store || node.at != buffer) continue;
    if (stored) return true;  // written twice
    stored = &node.index;
  }
  bool behind = false;
  for (const Node& node : kernel.nodes) {
    if (node.at != buffer || (node.op != Op::Load && node.op != Op::Store)) continue;
    if (node.op == Op::Store) behind = true;
    if (node.op == Op::Load && (behind || !stored || !(node.index == *stored))) return true;
  }
  return false;
}

Launch storeCopy(ir::DType dtype, std::span<const sym::Int> sizes, std::span<const sym::Int> strides) {
  Launch launch;
  kernel::Kernel& kernel = launch.kernel;
  Arguments arguments;
  kernel.buffers = {{dtype, false}, {dtype, true}};
  ir::Dims dense = ir::contiguousStrides(sizes);
  Node load = line(Op::Load, dtype), store = line(Op::Store, dtype);
  load.at = 0;
  store.at = 1;
  store.operands[0] = 0;
  // As it lies in memory: what is last is contiguous.
  std::vector<size_t> dims(sizes.size());
  std::iota(dims.begin(), dims.end(), size_t{0});
  std::erase_if(dims, [&](size_t d) { return ops::surelyOne(sizes[d]); });
  std::stable_sort(dims.begin(), dims.end(), [&](size_t a, size_t b) {
    return strides[a].isConst() && strides[b].isConst() && strides[a].constant() > strides[b].constant();
  });
  for (size_t d : dims) {
    auto axis = static_cast<uint32_t>(kernel.axes.size());
    kernel.axes.emplace_back().extent = arguments.extent(sizes[d]);
    load.index.axes.push_back({axis, arguments.extent(dense[d])});
    store.index.axes.push_back({axis, arguments.extent(strides[d])});
  }
  if (kernel.axes.empty()) kernel.axes.emplace_back().extent = {1, kNone};
  kernel.vector = static_cast<uint32_t>(kernel.axes.size()) - 1;
  kernel.nodes = {load, store};
  kernel.phases = {{false, 0, 2}};
  kernel.arguments = static_cast<uint32_t>(arguments.values().size());
  launch.arguments = arguments.values();
  sym::Int bytes = ir::numel(sizes) * sym::Int(ir::byteSize(dtype));
  launch.bytesRead = launch.bytesWritten = bytes;
  measure(launch);
  return launch;
}

}  // namespace saker::lower
