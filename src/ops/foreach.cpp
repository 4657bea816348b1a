// Operators on lists: each item is what the operator of single tensors makes of it. (Fused CUDA kernels give the
// strides of the inputs, where single tensors of size 1 dimensions may get others.)
#include <algorithm>
#include <string>

#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

// The number of items: that of every list among the arguments.
size_t itemCount(const Infer& in) {
  std::optional<size_t> count;
  for (size_t i = 0; i < in.op().parsed.arguments.size(); ++i) {
    if (!in.op().parsed.arguments[i].type.list) continue;
    if (i >= in.argCount() || !in.arg(i).isList()) refuse("argument " + std::to_string(i) + " must be a list");
    size_t length = in.arg(i).toList().size();
    if (count && *count != length) refuse(in.op().qualified + " of lists of different lengths");
    count = length;
  }
  if (!count || *count == 0) refuse(in.op().qualified + " of an empty list");
  return *count;
}

void inferEach(Infer& in, const Operator* item, std::span<const Arg> shared) {
  if (!item) unsupported("no rule for a single item of " + in.op().qualified);
  size_t count = itemCount(in);
  SmallVec<Arg, 8> args(shared);
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < shared.size(); ++k) args[k] = shared[k].isList() ? shared[k].toList()[i] : shared[k];
    Inferred one = infer(*item, in.context(), args);
    if (!one.ok()) throw RefusalException{std::move(*one.refusal)};
    if (in.op().variant == Variant::Inplace) continue;
    for (const ir::Type* result : one.results) in.result(result);
  }
}

SmallVec<Arg, 8> arguments(const Infer& in) {
  SmallVec<Arg, 8> out;
  for (size_t i = 0; i < in.argCount(); ++i) out.push_back(in.arg(i));
  return out;
}

// The name of an operator as a template argument.
template <size_t length>
struct Name {
  char text[length];
  constexpr Name(const char (&name)[length]) { std::copy_n(name, length, text); }
};

template <Name item>
const Operator* itemOperator() {
  static const Operator* const found = find(item.text);
  return found;
}

// The rule of a list, and the operator of one item.
struct Each {
  InferFn rule;
  ItemFn item;
};

template <Name item>
void inferItems(Infer& in) {
  inferEach(in, itemOperator<item>(), arguments(in));
}

template <Name item>
constexpr Each each = {inferItems<item>, itemOperator<item>};

// The other operand is one number in a tensor.
template <Name item>
void inferWithTensor(Infer& in) {
  if (in.tensor(1).rank != 0) refuse(in.op().qualified + " needs a tensor without dimensions");
  inferItems<item>(in);
}

template <Name item>
constexpr Each eachWithTensor = {inferWithTensor<item>, itemOperator<item>};

// One number for each item, in a tensor of one dimension.
template <Name item>
void inferWithNumbers(Infer& in) {
  const TensorType& numbers = in.tensor(3);
  if (numbers.rank != 1 || numbers.size(0) != Int(itemCount(in))) refuse("one number is needed for each item");
  if (numbers.device.type != DeviceType::CPU) unsupported("numbers that lie on another device");
  if (!isContiguous(numbers)) refuse("the numbers must lie densely");
  ir::TypeKind kind = ir::isComplex(numbers.dtype) ? ir::TypeKind::Complex
                      : ir::isFloat(numbers.dtype) ? ir::TypeKind::Float
                                                   : ir::TypeKind::Int;
  SmallVec<Arg, 8> args = arguments(in);
  args[3] = Arg::type(in.context().types().plain(kind));
  inferEach(in, itemOperator<item>(), args);
}

// Its numbers are read from memory: a call of the item's operator has none to name.
template <Name item>
constexpr Each eachWithNumbers = {inferWithNumbers<item>, nullptr};

void norm(Infer& in) {
  itemCount(in);
  std::optional<DType> asked = in.dtype(2);
  double order = in.number(1, 2);
  for (const TensorType* t : in.tensors(0)) {
    require(in, kFloating, t->dtype);
    if (asked && ir::isComplex(*asked) != ir::isComplex(t->dtype)) refuse("the norm of real numbers as complex ones");
    if (asked) require(in, kFloating, *asked);
    if (asked && promoteTypes(t->dtype, *asked) != *asked) refuse("the norm in a narrower dtype");
    if ((order < 0 || order > 1e300) && numel(*t) == Int(0)) refuse("the largest of no numbers");
    in.contiguous({}, ir::toReal(asked.value_or(t->dtype)), t->device);
  }
}

void add(Rows& rows, std::string schema, const Each& each, uint32_t traits = kOwnWrites) {
  Row& row = rows.emplace_back(Row{"aten::_foreach_" + std::move(schema), each.rule, Cost::Pointwise, traits});
  row.item = each.item;
}

#define SAKER_FOREACH_UNARY(X) \
  X(abs)                       \
  X(acos)                      \
  X(asin)                      \
  X(atan)                      \
  X(ceil)                      \
  X(cos)                       \
  X(cosh)                      \
  X(erf)                       \
  X(erfc)                      \
  X(exp)                       \
  X(expm1)                     \
  X(floor)                     \
  X(frac)                      \
  X(lgamma)                    \
  X(log)                       \
  X(log10)                     \
  X(log1p)                     \
  X(log2) X(neg) X(reciprocal) X(round) X(rsqrt) X(sigmoid) X(sign) X(sin) X(sinh) X(sqrt) X(tan) X(tanh) X(trunc)

void addUnaryLists(Rows& rows) {
#define X(name)                                                         \
  add(rows, #name "(Tensor[] self) -> Tensor[]", each<"aten::" #name>); \
  add(rows, #name "_(Tensor(a!)[] self) -> ()", each<"aten::" #name "_">);
  SAKER_FOREACH_UNARY(X)
#undef X
}

// A list with a list, a number, or a list of numbers: functional and in place, each with the operator of one item.
#define SAKER_FOREACH_BINARY(name, list, number, more, listItem, listItem_, numberItem, numberItem_) \
  add(rows, #name ".List(Tensor[] self, Tensor[] " list more ") -> Tensor[]", each<listItem>);       \
  add(rows, #name "_.List(Tensor(a!)[] self, Tensor[] " list more ") -> ()", each<listItem_>);       \
  add(rows, #name ".Scalar(Tensor[] self, Scalar " number ") -> Tensor[]", each<numberItem>);        \
  add(rows, #name "_.Scalar(Tensor(a!)[] self, Scalar " number ") -> ()", each<numberItem_>);        \
  add(rows, #name ".ScalarList(Tensor[] self, Scalar[] " number SAKER_PLURAL_##name ") -> Tensor[]", \
      each<numberItem>);                                                                             \
  add(rows, #name "_.ScalarList(Tensor(a!)[] self, Scalar[] " number SAKER_PLURAL_##name ") -> ()", each<numberItem_>);

#define SAKER_PLURAL_add "s"
#define SAKER_PLURAL_sub "s"
#define SAKER_PLURAL_mul "s"
#define SAKER_PLURAL_div "s"
#define SAKER_PLURAL_pow ""
#define SAKER_PLURAL_clamp_min "s"
#define SAKER_PLURAL_clamp_max "s"
#define SAKER_PLURAL_maximum "s"
#define SAKER_PLURAL_minimum "s"

void addBinaryLists(Rows& rows) {
  SAKER_FOREACH_BINARY(add, "other", "scalar", ", *, Scalar alpha=1", "aten::add.Tensor", "aten::add_.Tensor",
                       "aten::add.Scalar", "aten::add_.Scalar")
  SAKER_FOREACH_BINARY(sub, "other", "scalar", ", *, Scalar alpha=1", "aten::sub.Tensor", "aten::sub_.Tensor",
                       "aten::sub.Scalar", "aten::sub_.Scalar")
  SAKER_FOREACH_BINARY(mul, "other", "scalar", "", "aten::mul.Tensor", "aten::mul_.Tensor", "aten::mul.Scalar",
                       "aten::mul_.Scalar")
  SAKER_FOREACH_BINARY(div, "other", "scalar", "", "aten::div.Tensor", "aten::div_.Tensor", "aten::div.Scalar",
                       "aten::div_.Scalar")
  SAKER_FOREACH_BINARY(pow, "exponent", "exponent", "", "aten::pow.Tensor_Tensor", "aten::pow_.Tensor",
                       "aten::pow.Tensor_Scalar", "aten::pow_.Scalar")
  SAKER_FOREACH_BINARY(clamp_min, "other", "scalar", "", "aten::clamp_min.Tensor", "aten::clamp_min_.Tensor",
                       "aten::clamp_min", "aten::clamp_min_")
  SAKER_FOREACH_BINARY(clamp_max, "other", "scalar", "", "aten::clamp_max.Tensor", "aten::clamp_max_.Tensor",
                       "aten::clamp_max", "aten::clamp_max_")
  SAKER_FOREACH_BINARY(maximum, "other", "scalar", "", "aten::clamp_min.Tensor", "aten::clamp_min_.Tensor",
                       "aten::clamp_min", "aten::clamp_min_")
  SAKER_FOREACH_BINARY(minimum, "other", "scalar", "", "aten::clamp_max.Tensor", "aten::clamp_max_.Tensor",
                       "aten::clamp_max", "aten::clamp_max_")
  add(rows, "pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]", each<"aten::pow.Scalar">);
  add(rows, "add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]",
      eachWithTensor<"aten::add.Tensor">);
  add(rows, "add_.Tensor(Tensor(a!)[] self, Tensor other, *, Scalar alpha=1) -> ()",
      eachWithTensor<"aten::add_.Tensor">);
  add(rows, "mul.Tensor(Tensor[] self, Tensor other) -> Tensor[]", eachWithTensor<"aten::mul.Tensor">);
  add(rows, "mul_.Tensor(Tensor(a!)[] self, Tensor other) -> ()", eachWithTensor<"aten::mul_.Tensor">);
  add(rows, "div.Tensor(Tensor[] self, Tensor other) -> Tensor[]", eachWithTensor<"aten::div.Tensor">);
  add(rows, "div_.Tensor(Tensor(a!)[] self, Tensor other) -> ()", eachWithTensor<"aten::div_.Tensor">);
}

#define SAKER_FOREACH_TERNARY(name)                                                                                  \
  add(rows, #name ".Scalar(Tensor[] self, " tensors "Scalar value=1) -> Tensor[]", each<"aten::" #name>);            \
  add(rows, #name "_.Scalar(Tensor(a!)[] self, " tensors "Scalar value=1) -> ()", each<"aten::" #name "_">);         \
  add(rows, #name ".ScalarList(Tensor[] self, " tensors "Scalar[] scalars) -> Tensor[]", each<"aten::" #name>);      \
  add(rows, #name "_.ScalarList(Tensor(a!)[] self, " tensors "Scalar[] scalars) -> ()", each<"aten::" #name "_">);   \
  add(rows, #name ".Tensor(Tensor[] self, " tensors "Tensor scalars) -> Tensor[]", eachWithNumbers<"aten::" #name>); \
  add(rows, #name "_.Tensor(Tensor(a!)[] self, " tensors "Tensor scalars) -> ()", eachWithNumbers<"aten::" #name "_">);

}  // namespace

void addForeach(Rows& rows) {
  addUnaryLists(rows);
  addBinaryLists(rows);
#define tensors "Tensor[] tensor1, Tensor[] tensor2, "
  SAKER_FOREACH_TERNARY(addcmul)
  SAKER_FOREACH_TERNARY(addcdiv)
#undef tensors
  add(rows, "lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]", each<"aten::lerp.Tensor">);
  add(rows, "lerp_.List(Tensor(a!)[] self, Tensor[] tensors1, Tensor[] weights) -> ()", each<"aten::lerp_.Tensor">);
  for (const char* weight : {"Scalar weight", "Scalar[] weight"}) {
    std::string overload = weight[6] == '[' ? "ScalarList" : "Scalar",
                more = std::string(", Tensor[] tensors1, ") + weight;
    add(rows, "lerp." + overload + "(Tensor[] self" + more + ") -> Tensor[]", each<"aten::lerp.Scalar">);
    add(rows, "lerp_." + overload + "(Tensor(a!)[] self" + more + ") -> ()", each<"aten::lerp_.Scalar">);
  }
  add(rows, "clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]", each<"aten::clone">);
  add(rows, "zero(Tensor[] self) -> Tensor[] self_out", each<"aten::zero">);
  add(rows, "zero_(Tensor(a!)[] self) -> ()", each<"aten::zero_">);
  add(rows, "copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[] self_out", each<"aten::copy">);
  add(rows, "copy_(Tensor(a!)[] self, Tensor[] src, bool non_blocking=False) -> ()", each<"aten::copy_">);
  rows.push_back({"aten::_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]", norm,
                  Cost::Reduction});
  rows.back().item = itemOperator<"aten::linalg_vector_norm">;
  rows.push_back({"aten::_foreach_max(Tensor[] self) -> Tensor[]", inferItems<"aten::max">, Cost::Reduction});
  rows.push_back({"aten::_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]", inferItems<"aten::mm">, Cost::Matmul});
}

}  // namespace saker::ops
