#include "lower/expressions.h"

#include <algorithm>

#include "support/intern_table.h"

namespace saker::lower {

using kernel::Node;

kernel::Extent Arguments::extent(sym::Int value) {
  if (value.isConst()) return {value.constant(), kernel::kNone};
  for (size_t i = 0; i < values_.size(); ++i) {
    if (values_[i].same(value)) return {0, static_cast<uint32_t>(i)};
  }
  values_.push_back(value);
  return {0, static_cast<uint32_t>(values_.size() - 1)};
}

uint32_t Arguments::number(sym::Float value, bool single) {
  for (const Number& known : numbers_) {
    if (known.value.node() == value.node() && known.single == single) return known.argument;
  }
  numbers_.push_back({static_cast<uint32_t>(values_.size()), value, single});
  values_.emplace_back(0);
  return numbers_.back().argument;
}

namespace {

uint64_t mix(uint64_t hash, const kernel::Extent& extent) {
  return hashMix(hashMix(hash, static_cast<uint64_t>(extent.number)), extent.argument);
}

uint64_t hashOf(const Node& node) {
  uint64_t hash = hashMix(static_cast<uint64_t>(node.op), static_cast<uint64_t>(node.dtype));
  for (uint32_t operand : node.operands) hash = hashMix(hash, operand);
  hash = hashMix(hashMix(hash, node.bits), node.at);
  hash = mix(hashMix(hash, static_cast<uint64_t>(node.reduction)), node.index.offset);
  for (const kernel::Index::AxisTerm& term : node.index.axes) hash = mix(hashMix(hash, term.axis), term.stride);
  for (const kernel::Index::ValueTerm& term : node.index.values) hash = mix(hashMix(hash, ~term.value), term.stride);
  return hash;
}

bool same(const Node& a, const Node& b) {
  return a.op == b.op && a.dtype == b.dtype && std::equal(a.operands, a.operands + 3, b.operands) && a.bits == b.bits &&
         a.at == b.at && a.index == b.index && a.reduction == b.reduction;
}

}  // namespace

uint32_t Expressions::add(const Node& node, const std::vector<bool>& reducedAxes) {
  uint64_t hash = hashOf(node);
  auto [first, last] = byHash_.equal_range(hash);
  for (auto known = first; known != last; ++known) {
    if (same(all_[known->second].node, node)) return known->second;
  }
  Expression made{node, false, 0};
  auto depend = [&](uint32_t on) {
    if (on == kernel::kNone) return;
    made.inLoop |= all_[on].inLoop;
    made.level = std::max(made.level, all_[on].level);
  };
  for (uint32_t operand : node.operands) depend(operand);
  for (const kernel::Index::AxisTerm& term : node.index.axes) made.inLoop |= reducedAxes[term.axis];
  for (const kernel::Index::ValueTerm& term : node.index.values) depend(term.value);
  if (node.op == kernel::Op::AxisIndex) made.inLoop = reducedAxes[node.at];
  if (node.op == kernel::Op::Scan) made.inLoop = true;
  if (node.op == kernel::Op::Reduce) {
    made.inLoop = false;
    ++made.level;
  }
  all_.push_back(made);
  byHash_.emplace(hash, static_cast<uint32_t>(all_.size() - 1));
  return static_cast<uint32_t>(all_.size() - 1);
}

}  // namespace saker::lower
