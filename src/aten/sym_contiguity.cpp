// Questions about the layout of a tensor with symbolic sizes and strides. Each answer is a condition: a constant where
// the facts decide it, which is the rule, since a size that may change is at least 2.
#include <algorithm>
#include <array>
#include <numeric>

#include "aten/sym_node.h"
#include "symbolic/context.h"

namespace saker::aten {

using sym::Bool;
using sym::Int;
using Sizes = std::vector<Int>;

namespace {

constexpr std::array<size_t, 4> kChannelsLast2d{1, 3, 2, 0};
constexpr std::array<size_t, 5> kChannelsLast3d{1, 4, 3, 2, 0};

Bool anyZero(const Sizes& sizes) {
  Bool zero = false;
  for (Int size : sizes) zero = zero | (size == Int(0));
  return zero;
}

// Dense when the dimensions are walked in `order`, innermost first; the stride of a single element does not matter.
Bool denseInOrder(const Sizes& sizes, const Sizes& strides, std::span<const size_t> order) {
  Bool dense = true;
  Int expected = 1;
  for (size_t d : order) {
    dense = dense & ((sizes[d] == Int(1)) | (strides[d] == expected));
    if (dense.provablyFalse()) return false;
    expected = expected * sizes[d];
  }
  return dense;
}

Bool contiguousInOrder(const Sizes& sizes, const Sizes& strides, std::span<const size_t> order) {
  return anyZero(sizes) | denseInOrder(sizes, strides, order);
}

std::vector<size_t> rowMajor(size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.rbegin(), order.rend(), size_t{0});
  return order;
}

// Strides grow from the channels outwards. Where single channels and pixels leave it open, it is row-major.
Bool channelsLastStrides(const Sizes& sizes, const Sizes& strides, std::span<const size_t> order) {
  Bool holds = strides[1] != Int(0);
  Int least = 0;
  for (size_t d : order) {
    holds = holds & (sizes[d] != Int(0)) & (strides[d] >= least);
    if (d == 0) holds = holds & (least != strides[1]);
    if (holds.provablyFalse()) return false;
    least = strides[d] * max(sizes[d], Int(1));
  }
  return holds;
}

}  // namespace

std::vector<Int> SymNode::operands(c10::ArrayRef<c10::SymNode> nodes) const {
  std::vector<Int> values;
  for (const c10::SymNode& node : nodes) {
    const sym::Node* value = operand(node);
    values.push_back(value->kind == sym::Kind::Const ? Int(value->value) : Int(value));
  }
  return values;
}

c10::SymNode SymNode::is_contiguous(c10::ArrayRef<c10::SymNode> sizes, c10::ArrayRef<c10::SymNode> strides) {
  return make(contiguousInOrder(operands(sizes), operands(strides), rowMajor(sizes.size())).in(symbols()));
}

c10::SymNode SymNode::is_channels_last_contiguous_2d(c10::ArrayRef<c10::SymNode> sizes,
                                                     c10::ArrayRef<c10::SymNode> strides) {
  if (sizes.size() != kChannelsLast2d.size()) return wrap_bool(false);
  return make(denseInOrder(operands(sizes), operands(strides), kChannelsLast2d).in(symbols()));
}

c10::SymNode SymNode::is_channels_last_contiguous_3d(c10::ArrayRef<c10::SymNode> sizes,
                                                     c10::ArrayRef<c10::SymNode> strides) {
  if (sizes.size() != kChannelsLast3d.size()) return wrap_bool(false);
  return make(denseInOrder(operands(sizes), operands(strides), kChannelsLast3d).in(symbols()));
}

c10::SymNode SymNode::is_channels_last_strides_2d(c10::ArrayRef<c10::SymNode> sizes,
                                                  c10::ArrayRef<c10::SymNode> strides) {
  if (sizes.size() != kChannelsLast2d.size()) return wrap_bool(false);
  return make(channelsLastStrides(operands(sizes), operands(strides), kChannelsLast2d).in(symbols()));
}

c10::SymNode SymNode::is_channels_last_strides_3d(c10::ArrayRef<c10::SymNode> sizes,
                                                  c10::ArrayRef<c10::SymNode> strides) {
  if (sizes.size() != kChannelsLast3d.size()) return wrap_bool(false);
  return make(channelsLastStrides(operands(sizes), operands(strides), kChannelsLast3d).in(symbols()));
}

// Dense in the order of the strides. That order is proven where possible, else decided, which leaves guards.
c10::SymNode SymNode::is_non_overlapping_and_dense(c10::ArrayRef<c10::SymNode> sizeNodes,
                                                   c10::ArrayRef<c10::SymNode> strideNodes) {
  Sizes sizes = operands(sizeNodes), strides = operands(strideNodes);
  std::vector<size_t> order = rowMajor(sizes.size());
  Bool contiguous = contiguousInOrder(sizes, strides, order);
  if (contiguous.provablyTrue()) return wrap_bool(true);
  std::vector<size_t> kept;
  for (size_t d : order) {
    if (!(sizes[d] == Int(1))) kept.push_back(d);
  }
  // An insertion sort: it asks no more than it must.
  for (size_t i = 1; i < kept.size(); ++i) {
    for (size_t j = i; j > 0 && bool(strides[kept[j]] < strides[kept[j - 1]]); --j) std::swap(kept[j], kept[j - 1]);
  }
  return make((contiguous | denseInOrder(sizes, strides, kept)).in(symbols()));
}

}  // namespace saker::aten
