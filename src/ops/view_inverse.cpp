#include "ops/view_inverse.h"

#include <unordered_map>
#include <vector>

#include "ops/shape.h"
#include "support/check.h"

namespace saker::ops {

using ir::Arg;
using ir::Node;
using ir::Value;

namespace {

struct View {
  const Node& node;
  size_t index;
  Value* base;
  Value* updated;

  const Arg& arg(size_t i) const { return node.arg(i); }
  const TensorType& baseType() const { return *base->tensor(); }
  int64_t dim(size_t i) const { return wrapDim(number(i), baseType().rank); }
  int64_t number(size_t i) const { return node.arg(i).toInt(); }
};
using Inverse = Value* (*)(Builder&, const View&);

std::vector<Arg> intArgs(IntSpan values) {
  std::vector<Arg> out;
  for (Int value : values) out.push_back(Arg::symInt(value));
  return out;
}

// Where the other direction is a view of the same elements in the base's sizes.
Value* reshape(Builder& build, const View& view) {
  std::vector<Arg> sizes = intArgs(view.baseType().sizes());
  Arg args[] = {Arg::value(view.updated), Arg::list(sizes)};
  if (Node* direct = build.tryCall(*find("aten::view"), args)) return direct->result();
  Value* dense = build.call("aten::clone", {Arg::value(view.updated), Arg::memoryFormat(MemoryFormat::Contiguous)});
  return build.call("aten::view", {Arg::value(dense), Arg::list(sizes)});
}

Value* same(Builder&, const View& view) { return view.updated; }

Value* slice(Builder& build, const View& v) {
  return build.call("aten::slice_scatter",
                    {Arg::value(v.base), Arg::value(v.updated), v.arg(1), v.arg(2), v.arg(3), v.arg(4)});
}

Value* select(Builder& build, const View& v) {
  return build.call("aten::select_scatter", {Arg::value(v.base), Arg::value(v.updated), v.arg(1), v.arg(2)});
}

Value* diagonal(Builder& build, const View& v) {
  return build.call("aten::diagonal_scatter",
                    {Arg::value(v.base), Arg::value(v.updated), v.arg(1), v.arg(2), v.arg(3)});
}

Value* transpose(Builder& build, const View& v) {
  return build.call("aten::transpose.int", {Arg::value(v.updated), v.arg(1), v.arg(2)});
}

Value* t(Builder& build, const View& v) { return build.call("aten::t", {Arg::value(v.updated)}); }

Value* permute(Builder& build, const View& v) {
  std::span<const Arg> order = v.arg(1).toList();
  std::vector<Arg> back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    back[static_cast<size_t>(wrapDim(order[i].toInt(), static_cast<int64_t>(order.size())))] =
        Arg::integer(static_cast<int64_t>(i));
  }
  return build.call("aten::permute", {Arg::value(v.updated), Arg::list(back)});
}

Value* unsqueeze(Builder& build, const View& v) {
  int64_t dim = wrapDim(v.number(1), static_cast<int64_t>(v.baseType().rank) + 1);
  return build.call("aten::squeeze.dim", {Arg::value(v.updated), Arg::integer(dim)});
}

Value* unbind(Builder& build, const View& v) {
  return build.call("aten::select_scatter",
                    {Arg::value(v.base), Arg::value(v.updated), v.arg(1), Arg::integer(static_cast<int64_t>(v.index))});
}

// Pieces along a dimension; where one begins follows from the sizes of those before it.
Value* split(Builder& build, const View& v) {
  size_t dim = static_cast<size_t>(v.dim(2));
  Int start = 0;
  for (size_t i = 0; i < v.index; ++i) start += v.node.result(i)->tensor()->size(dim);
  Int end = start + v.node.result(v.index)->tensor()->size(dim);
  return build.call("aten::slice_scatter", {Arg::value(v.base), Arg::value(v.updated), v.arg(2), Arg::symInt(start),
                                            Arg::symInt(end), Arg::integer(1)});
}

Value* asStrided(Builder& build, const View& v) {
  return build.call("aten::as_strided_scatter",
                    {Arg::value(v.base), Arg::value(v.updated), v.arg(1), v.arg(2), v.arg(3)});
}

Value* viewAsReal(Builder& build, const View& v) {
  return build.call("aten::view_as_complex", {Arg::value(v.updated)});
}
Value* viewAsComplex(Builder& build, const View& v) {
  return build.call("aten::view_as_real", {Arg::value(v.updated)});
}
Value* conj(Builder& build, const View& v) { return build.call("aten::_conj", {Arg::value(v.updated)}); }
Value* negView(Builder& build, const View& v) { return build.call("aten::_neg_view", {Arg::value(v.updated)}); }
Value* viewDType(Builder& build, const View& v) {
  return build.call("aten::view.dtype", {Arg::value(v.updated), Arg::dtype(v.baseType().dtype)});
}

const std::unordered_map<std::string_view, Inverse>& inverses() {
  static const std::unordered_map<std::string_view, Inverse> table = {
      {"aten::_conj", conj},
      {"aten::_neg_view", negView},
      {"aten::_reshape_alias", reshape},
      {"aten::_unsafe_view", reshape},
      {"aten::alias", same},
      {"aten::as_strided", asStrided},
      {"aten::detach", same},
      {"aten::diagonal", diagonal},
      {"aten::expand", reshape},  // only where nothing is repeated can it be written
      {"aten::lift_fresh", same},
      {"aten::permute", permute},
      {"aten::select.int", select},
      {"aten::slice.Tensor", slice},
      {"aten::split.Tensor", split},
      {"aten::split_with_sizes", split},
      {"aten::squeeze", reshape},
      {"aten::squeeze.dim", reshape},
      {"aten::squeeze.dims", reshape},
      {"aten::t", t},
      {"aten::transpose.int", transpose},
      {"aten::unbind.int", unbind},
      {"aten::unsqueeze", unsqueeze},
      {"aten::view", reshape},
      {"aten::view.dtype", viewDType},
      {"aten::view_as_complex", viewAsComplex},
      {"aten::view_as_real", viewAsReal},
  };
  return table;
}

}  // namespace

bool hasViewInverse(const Operator& op) { return inverses().contains(op.qualified); }

Value* invertView(Builder& build, const Node& view, size_t index, Value* base, Value* updated) {
  auto found = inverses().find(view.op()->qualified);
  if (found != inverses().end()) return found->second(build, View{view, index, base, updated});
  // Types are exact, so the view's place in the base's memory is known.
  const TensorType& type = *view.result(index)->tensor();
  std::vector<Arg> sizes = intArgs(type.sizes()), strides = intArgs(type.strides());
  return build.call("aten::as_strided_scatter", {Arg::value(base), Arg::value(updated), Arg::list(sizes),
                                                 Arg::list(strides), Arg::symInt(type.offset)});
}

}  // namespace saker::ops
