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

// What is cut into chunks: the outermost reduced axis.
struct Cut {
  size_t loop;             // the only one of the kernel
  uint32_t parallel;       // axes
  bool one;                // one row: its axis becomes that of the chunks
  bool along;              // vectors run along what is reduced
  int64_t rows = 1;        // together
  int64_t steps = kChunk;  // of the axis, in a chunk
  int64_t wide = 1;        // so many steps lie beside each other, like more columns
};

// Is all that the loop touches one piece of memory, whose rows are `columns` long, and nothing else used?
bool isOnePiece(const kernel::Kernel& k, const kernel::Phase& loop, int64_t columns) {
  if (loop.begin != 0) {
    for (uint32_t i = 0; i < loop.begin; ++i) {
      if (usesMemory(k.nodes[i])) return false;
    }
  }
  for (uint32_t i = loop.begin; i < loop.end; ++i) {
    const Node& node = k.nodes[i];
    if (!usesMemory(node)) continue;
    const auto& terms = node.index.axes;
    bool plain = node.op == Op::Load && node.index.values.empty() && terms.size() == 2 && terms[0].axis == 0;
    if (!plain || !terms[0].stride.is(1) || !terms[1].stride.is(columns)) return false;
  }
  return true;
}

// Nothing where the kernel has several loops, many rows or little to do.
std::optional<Cut> cutOf(const kernel::Kernel& k) {
  Cut cut{SIZE_MAX, 0, false, false};
  for (size_t i = 0; i < k.phases.size(); ++i) {
    if (!k.phases[i].loop) continue;
    if (cut.loop != SIZE_MAX) return std::nullopt;
    cut.loop = i;
  }
  for (const Node& node : k.nodes) {
    if (node.op == Op::AxisIndex || node.op == Op::Scan) return std::nullopt;
  }
  int64_t all = 1;
  bool known = true;
  for (const kernel::Axis& axis : k.axes) {
    if (axis.ordered || axis.chunkOf != kNone) return std::nullopt;
    known &= axis.extent.isNumber();
    all *= axis.extent.number;
    if (axis.reduced) continue;
    ++cut.parallel;
    cut.rows *= axis.extent.number;
  }
  if (cut.loop == SIZE_MAX || cut.parallel == k.axes.size()) return std::nullopt;
  cut.along = k.vector != kNone && k.vector >= cut.parallel;
  const kernel::Extent& outer = k.axes[cut.parallel].extent;
  cut.one = k.axes.size() == 2 && k.axes[0].extent.is(1);
  if (cut.one) return outer.isNumber() && outer.number < 2 * kChunk ? std::nullopt : std::optional(cut);
  // Of many rows each thread has some.
  constexpr int64_t kFewRows = 16, kFewColumns = 256, kLeast = 4 * kChunk, kWide = 64;
  if (!known || all < kLeast || cut.rows > (cut.along ? kFewRows : kFewColumns)) return std::nullopt;
  if (!cut.along && k.axes.size() == 2 && isOnePiece(k, k.phases[cut.loop], cut.rows)) {
    while (cut.rows * cut.wide * 2 <= kWide && outer.number % (cut.wide * 2) == 0) cut.wide *= 2;
  }
  cut.steps = std::max<int64_t>(1, kChunk / (all / (outer.number / cut.wide)));
  return outer.number / cut.wide < 2 * cut.steps ? std::nullopt : std::optional(cut);
}

// Where the part of a reduction lies that a chunk gives, for the first kernel (whose axes are chunks, then rows) or the
// second (rows, then chunks): chunks beside each other where vectors run along them, else rows.
Index placeOf(const kernel::Kernel& k, const Cut& cut, sym::Int count, bool inFirst) {
  Index index;
  if (cut.one) {
    index.axes.push_back({inFirst ? 0U : 1U, {1, kNone}});
    return index;
  }
  const uint32_t chunk = inFirst ? 0 : cut.parallel, row = inFirst ? 1 : 0;
  int64_t stride = cut.along ? count.constant() : 1;
  for (uint32_t i = cut.parallel; i-- > 0;) {
    index.axes.push_back({row + i, {stride, kNone}});
    stride *= k.axes[row + i].extent.number;
  }
  index.axes.push_back({chunk, {cut.along ? 1 : stride, kNone}});
  std::sort(index.axes.begin(), index.axes.end(), [](const auto& a, const auto& b) { return a.axis < b.axis; });
  return index;
}

Node storeOf(const Node& reduce, uint32_t value, uint32_t buffer, Index index) {
  Node node;
  node.op = Op::Store;
  node.dtype = reduce.dtype;
  node.operands[0] = value;
  node.at = buffer;
  node.index = std::move(index);
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
  std::optional<Cut> cut = cutOf(launch.kernel);
  if (!cut) return std::nullopt;
  const kernel::Kernel& whole = launch.kernel;
  const kernel::Phase& loop = whole.phases[cut->loop];
  std::vector<uint32_t> reduces;
  for (uint32_t i = loop.begin; i < loop.end; ++i) {
    if (whole.nodes[i].op == Op::Reduce) reduces.push_back(i);
  }
  if (reduces.empty()) return std::nullopt;

  Chunks chunks{launch, launch};
  Launch &first = chunks.first, &second = chunks.second;
  sym::Int total = valueOf(launch, whole.axes[cut->parallel].extent);
  if (cut->wide > 1) total = total / sym::Int(cut->wide);
  sym::Int count = sym::ceilDiv(total, sym::Int(cut->steps));

  // The first kernel: everything up to the end of the loop, then a store for each reduction.
  const uint32_t shift = cut->one ? 0 : 1, reduced = cut->parallel + shift;
  if (!cut->one) first.kernel.axes.insert(first.kernel.axes.begin(), kernel::Axis());
  first.kernel.axes[0].extent = extentOf(first, count);
  kernel::Axis& inner = first.kernel.axes[reduced];
  inner.total = cut->one ? inner.extent : kernel::Extent{total.constant(), kNone};
  inner.extent = {cut->steps, kNone};
  inner.chunkOf = 0;
  if (first.kernel.vector != kNone || cut->one) first.kernel.vector = cut->one ? 1 : whole.vector + 1;
  if (cut->wide > 1) first.kernel.axes[1].extent.number *= cut->wide;
  first.kernel.nodes.resize(loop.end);
  first.kernel.phases.resize(cut->loop + 1);
  for (Node& node : first.kernel.nodes) {
    std::optional<sym::Int> stride;
    for (Index::AxisTerm& term : node.index.axes) {
      term.axis += shift;
      if (term.axis != reduced) continue;
      stride = valueOf(first, term.stride) * sym::Int(cut->wide);
      if (cut->wide > 1) term.stride = extentOf(first, *stride);
    }
    if (!stride) continue;
    node.index.axes.insert(node.index.axes.begin(), {0, extentOf(first, *stride * sym::Int(cut->steps))});
  }
  uint32_t firstStore = loop.end;
  sym::Int partial = 0;
  for (uint32_t reduce : reduces) {
    const Node& node = whole.nodes[reduce];
    auto number = static_cast<uint32_t>(temporaries.size());
    sym::Int parts = count * sym::Int(cut->one ? 1 : cut->rows * cut->wide);
    temporaries.push_back({node.dtype, parts});
    sym::Int bytes = parts * sym::Int(ir::byteSize(node.dtype));
    first.bytesWritten += bytes;
    partial += bytes;
    auto buffer = static_cast<uint32_t>(first.buffers.size());
    for (Launch* each : {&first, &second}) {
      each->buffers.push_back({Operand::Kind::Temporary, number});
      each->kernel.buffers.push_back({node.dtype, each == &first});
    }
    first.kernel.nodes.push_back(storeOf(node, reduce, buffer, placeOf(first.kernel, *cut, count, true)));
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
  second.kernel.axes.resize(cut->parallel + 1);
  second.kernel.axes.back().extent = extentOf(second, count * sym::Int(cut->wide));
  std::vector<kernel::Phase> phases;
  auto close = [&](bool isLoop, uint32_t begin) {
    auto end = static_cast<uint32_t>(nodes.size());
    if (begin != end) phases.push_back({isLoop, begin, end});
  };
  for (size_t p = 0; p < cut->loop; ++p) {
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
    load.index = placeOf(second.kernel, *cut, count, false);
    nodes.push_back(load);
    Node again = reduce;
    again.operands[0] = static_cast<uint32_t>(nodes.size() - 1);
    to[reduces[r]] = static_cast<uint32_t>(nodes.size());
    nodes.push_back(again);
  }
  close(true, begin);
  for (size_t p = cut->loop + 1; p < whole.phases.size(); ++p) {
    begin = static_cast<uint32_t>(nodes.size());
    for (uint32_t i = whole.phases[p].begin; i < whole.phases[p].end; ++i) copy(i);
    close(false, begin);
  }
  second.kernel.nodes = std::move(nodes);
  second.kernel.phases = std::move(phases);
  if (cut->one || cut->along) second.kernel.vector = cut->parallel;
  second.bytesRead = partial;
  second.bytesWritten = 0;  // a few numbers
  for (Launch* each : {&first, &second}) {
    dropUnused(*each);
    measure(*each);
  }
  return chunks;
}

}  // namespace saker::lower
