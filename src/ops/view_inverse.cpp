#include "ops/view_inverse.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <vector>

#include "ops/shape.h"
#include "support/check.h"

namespace saker::ops {

using ir::Arg;
using ir::Node;
using ir::Value;

namespace {

// Refusals here end in invertView and repeatView.
int64_t numberOf(const Arg& arg) {
  if (arg.kind() != Arg::Kind::Int) unsupported("a dimension is not known");
  return arg.toInt();
}

bool hasValues(const Arg& arg) {
  if (!arg.isList()) return arg.isValue();
  return std::any_of(arg.toList().begin(), arg.toList().end(), hasValues);
}

struct View {
  const Node& node;
  size_t index;
  Value* base;
  Value* updated = nullptr;

  const Arg& arg(size_t i) const { return node.arg(i); }
  const TensorType& type() const { return *node.result(index)->tensor(); }
  const TensorType& baseType() const { return *base->tensor(); }
  int64_t number(size_t i) const { return numberOf(node.arg(i)); }
  // A dimension of the base.
  size_t dim(size_t i) const { return static_cast<size_t>(wrapDim(number(i), baseType().rank)); }
};
using Inverse = Value* (*)(Builder&, const View&);
using Repeat = Value* (*)(Builder&, const View&);
using Share = Sharing (*)(const Node&, size_t);

struct Entry {
  Inverse inverse;
  Repeat repeat = nullptr;  // nullptr: the same operator with the same arguments
  Share share = nullptr;    // nullptr: Sharing::Base
  bool repeats = false;     // may show an element of the base more than once
};

using Args = SmallVec<Arg, 8>;

Args intArgs(IntSpan values) {
  Args out;
  for (Int value : values) out.push_back(Arg::symInt(value));
  return out;
}

// ---- the same view of another base ----

Value* insertAs(Builder& build, const View& v, std::string_view op, std::span<const Arg> args) {
  const ir::Type* type = &v.type();
  return build.insert(*find(op), args, std::span<const ir::Type* const>(&type, 1))->result();
}

// By place in memory.
Value* repeatAsStrided(Builder& build, const View& v) {
  Args sizes = intArgs(v.type().sizes()), strides = intArgs(v.type().strides());
  Arg args[] = {Arg::value(v.base), Arg::list(sizes), Arg::list(strides), Arg::symInt(v.type().offset)};
  return insertAs(build, v, "aten::as_strided", args);
}

// Where a piece begins follows from the sizes of those before it, or from its place in memory.
Int pieceStart(const View& v, size_t dim) {
  if (v.index == 0) return 0;
  Int stride = v.baseType().stride(dim);
  Int distance = v.type().offset - v.node.result(0)->tensor()->offset;
  if (stride.isConst() && distance.isConst() && stride.constant() > 0) return distance / stride;
  Int start = 0;
  for (size_t i = 0; i < v.index; ++i) start += v.node.result(i)->tensor()->size(dim);
  return start;
}

Args pieceArgs(const View& v) {
  size_t dim = v.dim(2);
  if (dim >= v.baseType().rank) refuse("a single number has no pieces");
  for (size_t i = 0; i <= v.index; ++i) {
    const TensorType* piece = v.node.result(i)->tensor();
    if (!piece || piece->rank != v.baseType().rank) refuse("a piece has other dimensions than the tensor it is of");
  }
  Int start = pieceStart(v, dim);
  return {v.arg(2), Arg::symInt(start), Arg::symInt(start + v.type().size(dim)), Arg::integer(1)};
}

Value* repeatPiece(Builder& build, const View& v) {
  Args piece = pieceArgs(v);
  Arg args[] = {Arg::value(v.base), piece[0], piece[1], piece[2], piece[3]};
  return insertAs(build, v, "aten::slice.Tensor", args);
}

Value* repeatRow(Builder& build, const View& v) {
  Arg args[] = {Arg::value(v.base), v.arg(1), Arg::integer(static_cast<int64_t>(v.index))};
  return insertAs(build, v, "aten::select.int", args);
}

Value* repeatInSizes(Builder& build, const View& v) {
  Args sizes = intArgs(v.type().sizes());
  Arg args[] = {Arg::value(v.base), Arg::list(sizes)};
  return insertAs(build, v, "aten::view", args);
}

Value* repeatSame(Builder& build, const View& v) {
  Arg args[] = {Arg::value(v.base)};
  return insertAs(build, v, "aten::alias", args);
}

// ---- inverses ----

// Views that need a dense last dimension, or strides that fit together: of a row-major copy where it must be.
Value* direct(Builder& build, std::string_view op, Value* x, std::initializer_list<Arg> more = {}) {
  auto with = [&](Value* self) -> Node* {
    Args args = {Arg::value(self)};
    for (const Arg& arg : more) args.push_back(arg);
    return build.tryCall(*find(op), args);
  };
  if (Node* node = with(x)) return node->result();
  Value* dense = build.tryCall("aten::clone", {Arg::value(x), Arg::memoryFormat(MemoryFormat::Contiguous)});
  Node* node = dense ? with(dense) : nullptr;
  return node ? node->result() : nullptr;
}

// Where the other direction is a view of the same elements in the base's sizes.
Value* reshape(Builder& build, const View& v) {
  Args sizes = intArgs(v.baseType().sizes());
  return direct(build, "aten::view", v.updated, {Arg::list(sizes)});
}

Value* same(Builder&, const View& v) { return v.updated; }

Value* slice(Builder& build, const View& v) {
  return build.tryCall("aten::slice_scatter",
                       {Arg::value(v.base), Arg::value(v.updated), v.arg(1), v.arg(2), v.arg(3), v.arg(4)});
}

Value* select(Builder& build, const View& v) {
  return build.tryCall("aten::select_scatter", {Arg::value(v.base), Arg::value(v.updated), v.arg(1), v.arg(2)});
}

Value* diagonal(Builder& build, const View& v) {
  return build.tryCall("aten::diagonal_scatter",
                       {Arg::value(v.base), Arg::value(v.updated), v.arg(1), v.arg(2), v.arg(3)});
}

Value* transpose(Builder& build, const View& v) {
  return build.tryCall("aten::transpose.int", {Arg::value(v.updated), v.arg(1), v.arg(2)});
}

Value* t(Builder& build, const View& v) { return build.tryCall("aten::t", {Arg::value(v.updated)}); }

Value* permute(Builder& build, const View& v) {
  std::span<const Arg> order = v.arg(1).toList();
  Args back(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    int64_t from = wrapDim(numberOf(order[i]), static_cast<int64_t>(order.size()));
    back[static_cast<size_t>(from)] = Arg::integer(static_cast<int64_t>(i));
  }
  return build.tryCall("aten::permute", {Arg::value(v.updated), Arg::list(back)});
}

Value* unsqueeze(Builder& build, const View& v) {
  int64_t dim = wrapDim(v.number(1), static_cast<int64_t>(v.baseType().rank) + 1);
  return build.tryCall("aten::squeeze.dim", {Arg::value(v.updated), Arg::integer(dim)});
}

Value* row(Builder& build, const View& v) {
  return build.tryCall("aten::select_scatter", {Arg::value(v.base), Arg::value(v.updated), v.arg(1),
                                                Arg::integer(static_cast<int64_t>(v.index))});
}

Value* piece(Builder& build, const View& v) {
  Args piece = pieceArgs(v);
  return build.tryCall("aten::slice_scatter",
                       {Arg::value(v.base), Arg::value(v.updated), piece[0], piece[1], piece[2], piece[3]});
}

Value* viewAsReal(Builder& build, const View& v) { return direct(build, "aten::view_as_complex", v.updated); }
Value* viewAsComplex(Builder& build, const View& v) {
  return build.tryCall("aten::view_as_real", {Arg::value(v.updated)});
}
Value* viewDType(Builder& build, const View& v) {
  return direct(build, "aten::view.dtype", v.updated, {Arg::dtype(v.baseType().dtype)});
}

// Done, not put off: later inverses look at the memory.
Value* conj(Builder& build, const View& v) { return build.tryCall("aten::_conj_physical", {Arg::value(v.updated)}); }
Value* negative(Builder& build, const View& v) { return build.tryCall("aten::neg", {Arg::value(v.updated)}); }

// By place in memory. Of a base with a conj or neg bit it is the memory that is written, not what is read from it; the
// result has the bits too, and with them the bytes between the elements of the base.
Value* scatterInStorage(Builder& build, const View& v) {
  bool isConj = v.baseType().flags.conj, isNegative = v.baseType().flags.neg;
  auto apply = [&](Value* x, std::string_view conj, std::string_view negative) {
    if (x && isConj) x = build.tryCall(conj, {Arg::value(x)});
    if (x && isNegative) x = build.tryCall(negative, {Arg::value(x)});
    return x;
  };
  Value* base = apply(v.base, "aten::_conj", "aten::_neg_view");
  Value* updated = apply(v.updated, "aten::_conj_physical", "aten::neg");
  if (!base || !updated) return nullptr;
  Args sizes = intArgs(v.type().sizes()), strides = intArgs(v.type().strides());
  Value* written = build.tryCall("aten::as_strided_scatter", {Arg::value(base), Arg::value(updated), Arg::list(sizes),
                                                              Arg::list(strides), Arg::symInt(v.type().offset)});
  return apply(written, "aten::_conj", "aten::_neg_view");
}

// ---- which results share memory ----

Sharing inStorage(const Node&, size_t) { return Sharing::Storage; }
Sharing itself(const Node&, size_t) { return Sharing::Same; }

bool sameGeometry(const TensorType& a, const TensorType& b) {
  if (a.rank != b.rank || !a.offset.same(b.offset)) return false;
  for (size_t i = 0; i < 2 * size_t{a.rank}; ++i) {
    if (!a.dims[i].same(b.dims[i])) return false;
  }
  return true;
}

// What `view` would give in these sizes: given strides are those, or mean another order of the elements.
bool isPlainView(const Node& node) {
  const TensorType& type = *node.result(0)->tensor();
  Args sizes = intArgs(type.sizes());
  Arg args[] = {node.arg(0), Arg::list(sizes)};
  Inferred inferred = infer(*find("aten::view"), node.region()->graph()->context(), args);
  return inferred.ok() && sameGeometry(type, *ir::asTensor(inferred.results[0]));
}

Sharing ofReshapeAlias(const Node& node, size_t) { return isPlainView(node) ? Sharing::Base : Sharing::Storage; }
Sharing ofReshape(const Node& node, size_t) { return isPlainView(node) ? Sharing::Base : Sharing::None; }
// The tensor itself, or a copy in another layout.
Sharing ofContiguous(const Node& node, size_t) {
  return sameGeometry(*node.arg(0).toValue()->tensor(), *node.result(0)->tensor()) ? Sharing::Same : Sharing::None;
}
Sharing ofResolve(const Node& node, size_t) {
  TensorFlags from = node.arg(0).toValue()->tensor()->flags, to = node.result(0)->tensor()->flags;
  return from.conj == to.conj && from.neg == to.neg ? Sharing::Same : Sharing::None;
}

const std::unordered_map<std::string_view, Entry>& entries() {
  static const std::unordered_map<std::string_view, Entry> table = {
      {"aten::_conj", {conj}},
      {"aten::_fw_primal", {same, repeatSame}},
      {"aten::_neg_view", {negative}},
      {"aten::_reshape_alias", {reshape, nullptr, ofReshapeAlias, true}},
      {"aten::_unsafe_view", {reshape, repeatInSizes}},
      {"aten::alias", {same}},
      {"aten::as_strided", {scatterInStorage, repeatAsStrided, inStorage, true}},
      {"aten::contiguous", {same, nullptr, ofContiguous}},
      {"aten::detach", {same}},
      {"aten::diagonal", {diagonal}},
      {"aten::expand", {reshape, nullptr, nullptr, true}},  // what is repeated is not written this way
      {"aten::lift", {same, nullptr, itself}},
      {"aten::lift_fresh", {same}},
      {"aten::permute", {permute}},
      {"aten::reshape", {reshape, repeatInSizes, ofReshape}},
      {"aten::resolve_conj", {same, nullptr, ofResolve}},
      {"aten::resolve_neg", {same, nullptr, ofResolve}},
      {"aten::select.int", {select}},
      {"aten::slice.Tensor", {slice}},
      {"aten::split.Tensor", {piece, repeatPiece}},
      {"aten::split.sizes", {piece, repeatPiece}},
      {"aten::split_with_sizes", {piece, repeatPiece}},
      {"aten::squeeze", {reshape}},
      {"aten::squeeze.dim", {reshape}},
      {"aten::squeeze.dims", {reshape}},
      {"aten::t", {t}},
      {"aten::transpose.int", {transpose}},
      {"aten::unbind.int", {row, repeatRow}},
      {"aten::unfold", {scatterInStorage, nullptr, nullptr, true}},
      {"aten::unsafe_split.Tensor", {piece, repeatPiece}},
      {"aten::unsafe_split_with_sizes", {piece, repeatPiece}},
      {"aten::unsqueeze", {unsqueeze}},
      {"aten::view", {reshape}},
      {"aten::view.dtype", {viewDType}},
      {"aten::view_as_complex", {viewAsComplex}},
      {"aten::view_as_real", {viewAsReal}},
  };
  return table;
}

const Entry* entryOf(const ir::OpDef* op) {
  // Asked for each view of each graph, again and again: by address where it is one of the table's.
  static const auto byOperator = [] {
    std::unordered_map<const ir::OpDef*, const Entry*> made;
    for (const auto& [name, entry] : entries()) made.emplace(find(name), &entry);
    return made;
  }();
  if (op->registered) {
    auto found = byOperator.find(op);
    return found == byOperator.end() ? nullptr : found->second;
  }
  auto found = entries().find(op->qualified);
  return found == entries().end() ? nullptr : &found->second;
}

}  // namespace

bool hasViewInverse(const Operator& op) { return entryOf(&op); }

Sharing sharing(const Node& node, size_t index) {
  const Operator* op = of(&node);
  if (!op || op->writes || !(op->variant == Variant::View || op->has(kMayAlias))) return Sharing::None;
  // A number in the place of a tensor has no memory.
  if (!node.arg(0).isValue() || index >= node.resultCount() || !node.result(index)->tensor()) return Sharing::None;
  const Entry* entry = entryOf(op);
  return entry && entry->share ? entry->share(node, index) : Sharing::Base;
}

Value* repeatView(Builder& build, const Node& view, size_t index, Value* base) {
  View v{view, index, base};
  const Entry* entry = entryOf(view.op());
  if (sharing(view, index) == Sharing::Storage) return repeatAsStrided(build, v);
  if (entry && entry->repeat) {
    try {
      return entry->repeat(build, v);
    } catch (const RefusalException&) {  // its arguments do not tell what it is, its type does
      return repeatAsStrided(build, v);
    }
  }
  if (view.resultCount() != 1) return repeatAsStrided(build, v);
  Args args(view.args());
  args[0] = Arg::value(base);
  return insertAs(build, v, view.op()->qualified, args);
}

Value* invertView(Builder& build, const Node& view, size_t index, Value* base, Value* updated) {
  View v{view, index, base, updated};
  const Entry* entry = entryOf(view.op());
  bool byPlace = !entry || sharing(view, index) == Sharing::Storage;
  // A dimension that is a value of the graph: only the types tell what it is.
  for (const Arg& arg : view.args().subspan(1)) byPlace |= hasValues(arg);
  try {
    return byPlace ? scatterInStorage(build, v) : entry->inverse(build, v);
  } catch (const RefusalException&) {
    return nullptr;
  }
}

bool mayOverlap(const Node& view, size_t index) {
  const Entry* entry = entryOf(view.op());
  return (!entry || entry->repeats) && !surelyApart(*view.result(index)->tensor());
}

}  // namespace saker::ops
