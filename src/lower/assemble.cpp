#include "lower/assemble.h"

#include <algorithm>
#include <unordered_map>

namespace saker::lower {
namespace {

using kernel::Index;
using kernel::kNone;
using kernel::Node;
using kernel::Op;

class Assembler {
 public:
  explicit Assembler(KernelBuilder& builder) : builder_(builder), expressions_(builder.expressions()) {}

  Assembled run() {
    chooseOrder();
    collapse();
    putInFront();
    keepExpensive();
    storeLast();
    writePhases();
    for (const Memory& memory : builder_.memory()) {
      kernel_.buffers.push_back({memory.dtype(), memory.written});
    }
    writeAxes();
    chooseVector();
    std::vector<Int> arguments = renumberArguments();
    return {std::move(kernel_), std::move(arguments), std::move(numbers_)};
  }

 private:
  struct Loop {
    uint32_t axis;  // of the builder
    Int extent;
    bool reduced, ordered;
  };

  struct Kept {
    uint32_t load;   // of it
    uint32_t until;  // the level whose loop puts the result in its place
  };

  bool isMemory(const Node& node) const { return node.op == Op::Load || node.op == Op::Store; }

  Int strideOf(const Node& node, uint32_t axis) const {
    for (const Index::AxisTerm& term : node.index.axes) {
      if (term.axis == axis) return builder_.arguments().value(term.stride);
    }
    return 0;
  }

  // Outer loops first: as what is written lies in memory, else as what is read first.
  void chooseOrder() {
    const Axes& axes = builder_.axes();
    for (bool reduced : {false, true}) {
      size_t first = loops_.size();
      for (uint32_t axis = 0; axis < axes.count(); ++axis) {
        if (axes.reduced()[axis] == reduced) loops_.push_back({axis, axes.extent(axis), reduced, isOrdered(axis)});
      }
      std::vector<const Node*> witnesses;
      for (uint32_t store : builder_.stores()) witnesses.push_back(&expressions_[store].node);
      for (uint32_t i = 0; i < expressions_.size(); ++i) {
        if (expressions_[i].node.op == Op::Load) witnesses.push_back(&expressions_[i].node);
      }
      auto outer = [&](const Loop& a, const Loop& b) {
        if (a.ordered && b.ordered) return false;
        for (const Node* witness : witnesses) {
          Int x = strideOf(*witness, a.axis), y = strideOf(*witness, b.axis);
          if (x.isConst(0) || y.isConst(0) || !x.isConst() || !y.isConst()) continue;
          if (x.constant() != y.constant()) return std::abs(x.constant()) > std::abs(y.constant());
        }
        return false;
      };
      // By insertion: not a total order.
      for (size_t i = first + 1; i < loops_.size(); ++i) {
        for (size_t j = i; j > first && outer(loops_[j], loops_[j - 1]); --j) std::swap(loops_[j], loops_[j - 1]);
      }
    }
  }

  // Its steps are done one after the other: of what puts elements at places that are data, and where sums run.
  bool isOrdered(uint32_t axis) const {
    const Axes& axes = builder_.axes();
    if (!axes.reduced()[axis]) return axes.isOrdered(axis);
    for (uint32_t i = 0; i < expressions_.size(); ++i) {
      if (expressions_[i].node.op == Op::Scan) return true;
    }
    return false;
  }

  // Threads share the steps of the first loop: it is one whose steps have no order, but the last one, if there is such.
  void putInFront() {
    if (!hasParallel() || !loops_[0].ordered) return;
    size_t count = 0;
    while (count < loops_.size() && !loops_[count].reduced) ++count;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (loops_[i].ordered) continue;
      std::rotate(loops_.begin(), loops_.begin() + static_cast<std::ptrdiff_t>(i),
                  loops_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return;
    }
  }

  bool isAsked(uint32_t axis) const {
    for (uint32_t i = 0; i < expressions_.size(); ++i) {
      const Node& node = expressions_[i].node;
      if (node.op == Op::AxisIndex && node.at == axis) return true;
    }
    return false;
  }

  // Two loops that walk through all memory like one are one.
  void collapse() {
    for (size_t i = 0; i + 1 < loops_.size();) {
      Loop &outer = loops_[i], &inner = loops_[i + 1];
      bool one = outer.reduced == inner.reduced && outer.ordered == inner.ordered && !isAsked(outer.axis) &&
                 !isAsked(inner.axis);
      for (uint32_t e = 0; one && e < expressions_.size(); ++e) {
        const Node& node = expressions_[e].node;
        if (!isMemory(node)) continue;
        one = surelyEqual(strideOf(node, outer.axis), strideOf(node, inner.axis) * inner.extent);
      }
      if (!one) {
        ++i;
        continue;
      }
      for (uint32_t e = 0; e < expressions_.size(); ++e) {
        std::erase_if(expressions_[e].node.index.axes, [&](const Index::AxisTerm& t) { return t.axis == outer.axis; });
      }
      inner.extent *= outer.extent;
      loops_.erase(loops_.begin() + static_cast<std::ptrdiff_t>(i));
      if (i > 0) --i;
    }
  }

  // ---- what is kept between loops ----

  // A number that is dear (exp) and that a later loop needs again waits in the place of the result which that loop
  // stores: written there by the loop that reduces it, read back before the result takes its place. Loops behind that
  // one compute it again.
  void keepExpensive() {
    std::vector<std::vector<bool>> reduced;  // by level: what is computed for the reductions of that loop
    for (uint32_t i = 0; i < expressions_.size(); ++i) {
      const Expression& e = expressions_[i];
      if (e.node.op != Op::Reduce) continue;
      if (reduced.size() < e.level) reduced.resize(e.level, std::vector<bool>(expressions_.size()));
      mark(e.node.operands[0], reduced[e.level - 1]);
    }
    std::vector<uint32_t> stores(builder_.stores());
    for (uint32_t store : stores) {
      const Expression result = expressions_[store];
      if (!result.inLoop || result.level == 0 || result.node.operands[1] != kNone) continue;
      if (KernelBuilder::isOverwritten(builder_.memory()[result.node.at])) continue;
      std::vector<bool> needed(expressions_.size());
      mark(result.node.operands[0], needed);
      uint32_t best = kNone;
      for (uint32_t i = 0; i < needed.size(); ++i) {
        const Expression& e = expressions_[i];
        if (!needed[i] || e.node.op < Op::Exp || e.node.dtype != result.node.dtype || e.level >= result.level) continue;
        if (kept_.count(i) || e.level >= reduced.size() || !reduced[e.level][i]) continue;
        if (best == kNone || e.level >= expressions_[best].level) best = i;
      }
      if (best == kNone) continue;
      Node put = result.node, get = line(Op::Load, result.node.dtype);
      put.operands[0] = best;
      get.at = put.at;
      get.index = put.index;
      extraStores_.push_back(expressions_.add(put, builder_.axes().reduced()));
      kept_.emplace(best, Kept{expressions_.add(get, builder_.axes().reduced()), result.level});
    }
  }

  void mark(uint32_t id, std::vector<bool>& seen) const {
    if (id == kNone || seen[id] || !expressions_[id].inLoop) return;
    seen[id] = true;
    for (uint32_t operand : expressions_[id].node.operands) mark(operand, seen);
  }

  // What goes in the place of a parameter is stored by the last loop that reads the old contents.
  void storeLast() {
    for (uint32_t store : builder_.stores()) {
      uint32_t buffer = expressions_[store].node.at;
      if (!KernelBuilder::isOverwritten(builder_.memory()[buffer])) continue;
      overwrites_ = true;
      for (uint32_t i = 0; i < expressions_.size(); ++i) {
        const Expression& e = expressions_[i];
        if (e.node.op != Op::Reduce && e.node.op != Op::Store) continue;
        uint32_t level = e.node.op == Op::Reduce ? e.level - 1 : e.level;
        if (!expressions_[store].inLoop || level <= expressions_[store].level) continue;
        std::vector<bool> seen(expressions_.size());
        for (uint32_t operand : e.node.operands) mark(operand, seen);
        for (uint32_t k = 0; k < seen.size(); ++k) {
          const Node& node = expressions_[k].node;
          if (seen[k] && node.op == Op::Load && node.at == buffer) expressions_[store].level = level;
        }
      }
    }
  }

  // ---- phases ----

  void writePhases() {
    place_.assign(expressions_.size(), kNone);
    needed_.assign(expressions_.size(), false);
    for (uint32_t store : builder_.stores()) need(store);
    for (uint32_t store : extraStores_) need(store);
    uint32_t last = 0;
    for (uint32_t i = 0; i < expressions_.size(); ++i) {
      if (needed_[i]) last = std::max(last, expressions_[i].level);
    }
    for (uint32_t level = 0; level <= last; ++level) {
      writePhase(level, false);
      writePhase(level, true);
    }
  }

  void need(uint32_t id) {
    if (id == kNone || needed_[id]) return;
    needed_[id] = true;
    for (uint32_t operand : expressions_[id].node.operands) need(operand);
    for (const Index::ValueTerm& term : expressions_[id].node.index.values) need(term.value);
  }

  // Where a number must stand: a reduction in the loop that it reduces, others where they are first known.
  bool belongs(uint32_t id, uint32_t level, bool loop) const {
    const Expression& e = expressions_[id];
    if (e.node.op == Op::Reduce) return loop && e.level == level + 1;
    if (e.node.op == Op::Store) return e.inLoop == loop && e.level == level;
    return !loop && !e.inLoop && e.level == level;
  }

  void writePhase(uint32_t level, bool loop) {
    auto begin = static_cast<uint32_t>(kernel_.nodes.size());
    level_ = level;
    for (uint32_t i = 0; overwrites_ && i < expressions_.size(); ++i) {  // all is read before anything is stored
      const Node& node = expressions_[i].node;
      if (!needed_[i] || node.op != Op::Store || !belongs(i, level, loop)) continue;
      for (uint32_t operand : node.operands) write(operand);
    }
    for (uint32_t i = 0; overwrites_ && i < expressions_.size(); ++i) {
      if (needed_[i] && expressions_[i].node.op != Op::Store && belongs(i, level, loop)) write(i);
    }
    for (uint32_t i = 0; i < expressions_.size(); ++i) {
      if (needed_[i] && belongs(i, level, loop)) write(i);
    }
    auto end = static_cast<uint32_t>(kernel_.nodes.size());
    if (begin == end) return;
    kernel_.phases.push_back({loop, begin, end});
    if (!loop) return;
    for (uint32_t i = 0; i < expressions_.size(); ++i) {
      if (expressions_[i].inLoop) place_[i] = kNone;  // computed again in the next loop
    }
  }

  uint32_t write(uint32_t id) {
    if (id == kNone) return kNone;
    if (place_[id] != kNone) return place_[id];
    auto kept = kept_.find(id);
    if (kept != kept_.end() && level_ > expressions_[id].level && level_ <= kept->second.until) {
      return place_[id] = write(kept->second.load);
    }
    Node node = expressions_[id].node;
    for (uint32_t& operand : node.operands) operand = write(operand);
    for (Index::ValueTerm& term : node.index.values) term.value = write(term.value);
    for (Index::AxisTerm& term : node.index.axes) term.axis = number(term.axis);
    std::sort(node.index.axes.begin(), node.index.axes.end(),
              [](const Index::AxisTerm& a, const Index::AxisTerm& b) { return a.axis < b.axis; });
    if (node.op == Op::AxisIndex) node.at = number(node.at);
    kernel_.nodes.push_back(std::move(node));
    return place_[id] = static_cast<uint32_t>(kernel_.nodes.size() - 1);
  }

  // ---- axes ----

  bool hasParallel() const { return !loops_.empty() && !loops_[0].reduced; }
  // An axis of one step stands in front where there is none that threads can share.
  bool needsFirst() const { return !hasParallel() || loops_[0].ordered; }

  uint32_t number(uint32_t axis) const {
    uint32_t shift = needsFirst() ? 1 : 0;
    for (uint32_t i = 0; i < loops_.size(); ++i) {
      if (loops_[i].axis == axis) return i + shift;
    }
    SAKER_CHECK(false, "an index names an axis that is gone");
    return 0;
  }

  void writeAxes() {
    auto add = [&](kernel::Extent extent, bool reduced, bool ordered) {
      kernel::Axis& axis = kernel_.axes.emplace_back();
      axis.extent = extent;
      axis.reduced = reduced;
      axis.ordered = ordered;
    };
    if (needsFirst()) add({1, kNone}, false, false);
    for (const Loop& loop : loops_) {
      add(builder_.arguments().extent(loop.extent), loop.reduced, loop.ordered && !loop.reduced);
    }
  }

  // The axis along which most of memory is read and written in one piece; what is done once a row counts little.
  void chooseVector() {
    uint32_t last = static_cast<uint32_t>(kernel_.axes.size()) - 1, lastParallel = last;
    while (kernel_.axes[lastParallel].reduced) --lastParallel;
    auto pieces = [&](uint32_t axis) {
      std::pair<int, int> sums;  // in loops, and once
      for (const kernel::Phase& phase : kernel_.phases) {
        for (uint32_t i = phase.begin; i < phase.end; ++i) {
          for (const Index::AxisTerm& term : kernel_.nodes[i].index.axes) {
            if (term.axis == axis && term.stride.is(1)) ++(phase.loop ? sums.first : sums.second);
          }
        }
      }
      return sums;
    };
    if (kernel_.axes[lastParallel].ordered) return;
    bool runs = std::any_of(kernel_.nodes.begin(), kernel_.nodes.end(), [](const Node& n) { return n.op == Op::Scan; });
    if (runs) {
      if (!kernel_.axes[lastParallel].extent.is(1)) kernel_.vector = lastParallel;
      return;
    }
    kernel_.vector = kernel_.axes[last].reduced && pieces(last) >= pieces(lastParallel) ? last : lastParallel;
  }

  std::vector<Int> renumberArguments() {
    std::vector<uint32_t> to(builder_.arguments().values().size(), kNone);
    std::vector<Int> used;
    auto renumber = [&](kernel::Extent& extent) {
      if (extent.isNumber()) return;
      if (to[extent.argument] == kNone) {
        to[extent.argument] = static_cast<uint32_t>(used.size());
        used.push_back(builder_.arguments().values()[extent.argument]);
        for (const Number& number : builder_.arguments().numbers()) {
          if (number.argument == extent.argument)
            numbers_.push_back({to[extent.argument], number.value, number.single});
        }
      }
      extent.argument = to[extent.argument];
    };
    for (kernel::Axis& axis : kernel_.axes) renumber(axis.extent);  // these first
    for (Node& node : kernel_.nodes) {
      if (node.op == Op::Argument) {
        kernel::Extent extent{0, node.at};
        renumber(extent);
        node.at = extent.argument;
      }
      renumber(node.index.offset);
      for (Index::AxisTerm& term : node.index.axes) renumber(term.stride);
      for (Index::ValueTerm& term : node.index.values) renumber(term.stride);
    }
    kernel_.arguments = static_cast<uint32_t>(used.size());
    return used;
  }

  KernelBuilder& builder_;
  Expressions& expressions_;
  std::vector<Loop> loops_;
  std::vector<uint32_t> place_;              // by expression: its line
  std::vector<bool> needed_;                 // by expression
  std::unordered_map<uint32_t, Kept> kept_;  // what waits in memory for a later loop
  std::vector<uint32_t> extraStores_;
  bool overwrites_ = false;  // a result is stored in the place of what is read
  uint32_t level_ = 0;
  kernel::Kernel kernel_;
  std::vector<Number> numbers_;
};

}  // namespace

Assembled assemble(KernelBuilder& builder) { return Assembler(builder).run(); }

}  // namespace saker::lower
