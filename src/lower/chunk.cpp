#include "lower/chunk.h"

#include <algorithm>

#include "lower/space.h"

namespace saker::lower {
namespace {

using kernel::Index;
using kernel::kNone;
using kernel::Node;
using kernel::Op;

constexpr int64_t kChunk = 16384;  // elements: some microseconds

sym::Int valueOf(const Launch& launch, const kernel::Extent& extent) {
  return extent.isNumber() ? sym::Int(extent.number) : launch.arguments[extent.argument];
}

kernel::Extent extentOf(Launch& launch, sym::Int value) {
  if (value.isConst()) return {value.constant(), kNone};
  for (uint32_t i = 0; i < launch.arguments.size(); ++i) {
    if (launch.arguments[i].same(value)) return {0, i};
  }
  launch.arguments.push_back(value);
  launch.kernel.arguments = static_cast<uint32_t>(launch.arguments.size());
  return {0, launch.kernel.arguments - 1};
}

bool usesMemory(const Node& node) { return node.op == Op::Load || node.op == Op::Store; }

// Of one element, in hundredths of a nanosecond where vectors have 64 bytes.
int64_t costOf(const kernel::Kernel& kernel, const Node& node) {
  if (usesMemory(node)) {
    bool apart = !node.index.values.empty();
    for (const Index::AxisTerm& term : node.index.axes) apart |= term.axis == kernel.vector && !term.stride.is(1);
    return apart ? 30 : 2;
  }
  if (node.op == Op::Div || node.op == Op::Rem || node.op == Op::Sqrt) return 4;
  return node.op >= Op::Exp ? 15 : 1;
}

// Leaves out buffers that no line names.
void dropUnused(Launch& launch) {
  std::vector<uint32_t> to(launch.buffers.size(), kNone);
  for (const Node& node : launch.kernel.nodes) {
    if (usesMemory(node)) to[node.at] = 0;
  }
  std::vector<Operand> buffers;
  std::vector<kernel::Buffer> kinds;
  for (size_t i = 0; i < to.size(); ++i) {
    if (to[i] == kNone) continue;
    to[i] = static_cast<uint32_t>(buffers.size());
    buffers.push_back(launch.buffers[i]);
    kinds.push_back(launch.kernel.buffers[i]);
  }
  for (Node& node : launch.kernel.nodes) {
    if (usesMemory(node)) node.at = to[node.at];
  }
  launch.buffers = std::move(buffers);
  launch.kernel.buffers = std::move(kinds);
}

// One step of axis 0, one reduced axis, one loop.
std::optional<size_t> onlyLoop(const Launch& launch) {
  const kernel::Kernel& k = launch.kernel;
  if (k.axes.size() != 2 || !k.axes[0].extent.is(1) || !k.axes[1].reduced) return std::nullopt;
  if (k.axes[1].extent.isNumber() && k.axes[1].extent.number < 2 * kChunk) return std::nullopt;
  std::optional<size_t> loop;
  for (size_t i = 0; i < k.phases.size(); ++i) {
    if (!k.phases[i].loop) continue;
    if (loop) return std::nullopt;
    loop = i;
  }
  for (const Node& node : k.nodes) {
    if (node.op == Op::AxisIndex) return std::nullopt;
  }
  return loop;
}

Node storeOf(const Node& reduce, uint32_t value, uint32_t buffer) {
  Node node;
  node.op = Op::Store;
  node.dtype = reduce.dtype;
  node.operands[0] = value;
  node.at = buffer;
  node.index.axes.push_back({0, {1, kNone}});
  return node;
}

}  // namespace

void measure(Launch& launch) {
  launch.steps = valueOf(launch, launch.kernel.axes[0].extent);
  launch.work = 0;
  sym::Int rows = 1, all = 1;
  for (const kernel::Axis& axis : launch.kernel.axes) {
    if (!axis.reduced) rows *= valueOf(launch, axis.extent);
    all *= valueOf(launch, axis.extent);
  }
  for (const kernel::Phase& phase : launch.kernel.phases) {
    int64_t cost = 0;
    for (uint32_t i = phase.begin; i < phase.end; ++i) cost += costOf(launch.kernel, launch.kernel.nodes[i]);
    launch.work += (phase.loop ? all : rows) * sym::Int(cost);
  }
}

std::optional<Chunks> splitIntoChunks(const Launch& launch, std::vector<Temporary>& temporaries) {
  std::optional<size_t> loopAt = onlyLoop(launch);
  if (!loopAt) return std::nullopt;
  const kernel::Kernel& whole = launch.kernel;
  const kernel::Phase& loop = whole.phases[*loopAt];
  std::vector<uint32_t> reduces;
  for (uint32_t i = loop.begin; i < loop.end; ++i) {
    if (whole.nodes[i].op == Op::Reduce) reduces.push_back(i);
  }
  if (reduces.empty()) return std::nullopt;

  Chunks chunks{launch, launch};
  Launch &first = chunks.first, &second = chunks.second;
  sym::Int total = valueOf(launch, whole.axes[1].extent), count = sym::ceilDiv(total, sym::Int(kChunk));

  // The first kernel: everything up to the end of the loop, then a store for each reduction.
  first.kernel.axes[0].extent = extentOf(first, count);
  kernel::Axis& inner = first.kernel.axes[1];
  inner.total = inner.extent;
  inner.extent = {kChunk, kNone};
  inner.chunkOf = 0;
  first.kernel.vector = 1;
  first.kernel.nodes.resize(loop.end);
  first.kernel.phases.resize(*loopAt + 1);
  for (Node& node : first.kernel.nodes) {
    for (size_t i = 0; i < node.index.axes.size(); ++i) {
      if (node.index.axes[i].axis != 1) continue;
      sym::Int stride = valueOf(first, node.index.axes[i].stride) * sym::Int(kChunk);
      node.index.axes.insert(node.index.axes.begin(), {0, extentOf(first, stride)});
      break;
    }
  }
  uint32_t firstStore = loop.end;
  sym::Int partial = 0;
  for (uint32_t reduce : reduces) {
    const Node& node = whole.nodes[reduce];
    auto number = static_cast<uint32_t>(temporaries.size());
    temporaries.push_back({node.dtype, count});
    sym::Int bytes = count * sym::Int(ir::byteSize(node.dtype));
    first.bytesWritten += bytes;
    partial += bytes;
    auto buffer = static_cast<uint32_t>(first.buffers.size());
    for (Launch* each : {&first, &second}) {
      each->buffers.push_back({Operand::Kind::Temporary, number});
      each->kernel.buffers.push_back({node.dtype, each == &first});
    }
    first.kernel.nodes.push_back(storeOf(node, reduce, buffer));
  }
  first.kernel.phases.push_back({false, firstStore, static_cast<uint32_t>(first.kernel.nodes.size())});

  // The second: what is done once before, the reductions of what was stored, and the rest.
  std::vector<Node> nodes;
  std::vector<uint32_t> to(whole.nodes.size(), kNone);
  auto copy = [&](uint32_t i) {
    Node node = whole.nodes[i];
    for (uint32_t& operand : node.operands) operand = operand == kNone ? kNone : to[operand];
    for (Index::ValueTerm& term : node.index.values) term.value = to[term.value];
    to[i] = static_cast<uint32_t>(nodes.size());
    nodes.push_back(std::move(node));
  };
  std::vector<kernel::Phase> phases;
  auto close = [&](bool isLoop, uint32_t begin) {
    auto end = static_cast<uint32_t>(nodes.size());
    if (begin != end) phases.push_back({isLoop, begin, end});
  };
  for (size_t p = 0; p < *loopAt; ++p) {
    for (uint32_t i = whole.phases[p].begin; i < whole.phases[p].end; ++i) {
      if (whole.nodes[i].op != Op::Store) copy(i);
    }
  }
  close(false, 0);
  auto begin = static_cast<uint32_t>(nodes.size());
  for (size_t r = 0; r < reduces.size(); ++r) {
    const Node& reduce = whole.nodes[reduces[r]];
    Node load;
    load.op = Op::Load;
    load.dtype = reduce.dtype;
    load.at = static_cast<uint32_t>(launch.buffers.size() + r);
    load.index.axes.push_back({1, {1, kNone}});
    nodes.push_back(load);
    Node again = reduce;
    again.operands[0] = static_cast<uint32_t>(nodes.size() - 1);
    to[reduces[r]] = static_cast<uint32_t>(nodes.size());
    nodes.push_back(again);
  }
  close(true, begin);
  for (size_t p = *loopAt + 1; p < whole.phases.size(); ++p) {
    begin = static_cast<uint32_t>(nodes.size());
    for (uint32_t i = whole.phases[p].begin; i < whole.phases[p].end; ++i) copy(i);
    close(false, begin);
  }
  second.kernel.nodes = std::move(nodes);
  second.kernel.phases = std::move(phases);
  second.kernel.axes[1].extent = extentOf(second, count);
  second.kernel.vector = 1;
  second.bytesRead = partial;
  second.bytesWritten = 0;  // a few numbers
  for (Launch* each : {&first, &second}) {
    dropUnused(*each);
    measure(*each);
  }
  return chunks;
}

}  // namespace saker::lower
