// What one element of an operator's result is, written like arithmetic. A rule gets its operands as functions of an
// index, and gives its result as one:
//
//   silu       Num x = e.x(0);  return x / (1 + exp(-x));
//   transpose  Places at = e.places();  std::swap(at[a], at[b]);  return e.at(0, at);
//   sum        return e.reduce(Reduction::Sum, e.at(0, e.inside(...)));
//
// src/lower makes kernels of groups of operators by asking these rules; an operator that has none is a library call.
// Numbers are rounded as eager mode rounds: operands are converted to the dtype that the operator computes in, half
// precision is computed in f32, and the result is converted to its dtype once, where the rule ends.
//
// An operator that puts elements at places that are data has two rules: what the result holds before, and what each of
// its steps does.
//
//   index_add  before: e.at(0, e.places());  a step: e.put(holds, {e.place(index), ...}, [&](Num old) { return old + x;
//   })
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "kernel/kernel.h"
#include "ops/infer.h"

namespace saker::ops {

class Element;
using kernel::Reduction;

// A number in a kernel: an element of a tensor, or what was computed of some.
struct Num {
  Element* in = nullptr;
  uint32_t id = UINT32_MAX;
  DType dtype = DType::Float32;
};

// Where an element is along one dimension: offset + the sum of stride * index of a loop + the sum of stride * number.
struct Place {
  struct Term {
    uint32_t id;  // of an axis, or of a number
    Int stride;
  };
  Int offset = 0;
  std::vector<Term> axes;
  std::vector<Term> numbers;

  Place() = default;
  Place(Int number) : offset(number) {}
  bool isNumber() const { return axes.empty() && numbers.empty(); }
};
Place operator+(Place a, const Place& b);
Place operator*(Place a, Int factor);
inline Place operator-(const Place& a, const Place& b) { return a + b * Int(-1); }

using Places = std::vector<Place>;

// The dimensions (bit i: dimension i of `tensor`) that a result is reduced along, or normalised along.
struct Along {
  const TensorType* tensor;
  uint64_t dims;
};
// Where a scatter goes through the elements of what it puts. Bit i of `ordered`: two steps that differ along dimension
// i may meet in one element of the result, and are done one after the other.
struct Steps {
  Dims sizes;
  uint64_t ordered = 0;
};
// Why a call has no kernel: thrown by rules, and by what they ask; src/lower turns it into a value.
struct NotLowered {
  std::string reason;
};
[[noreturn]] void notLowered(std::string reason);

// What a rule asks, for one result of one call at one index.
class Element {
 public:
  Element(const Infer& call, const ir::Node& call_node, size_t which) : in(call), node(call_node), result(which) {}
  virtual ~Element() = default;

  const Infer& in;  // reads arguments
  const ir::Node& node;
  const size_t result;
  const TensorType& type() const { return *node.result(result)->tensor(); }

  // Where the element is that is asked for: one place for each dimension of the result; of a step, of the steps.
  virtual const Places& places() const = 0;
  // An element of argument `i`, a tensor; in its own dtype.
  virtual Num at(size_t i, const Places& places) = 0;
  // The same of an element of a list.
  virtual Num at(size_t i, size_t element, const Places& places) = 0;
  // The same of an argument that is read several times: it is to lie in memory, if it is no view of what does.
  virtual Num stored(size_t i, const Places& places) = 0;
  // Must each element be eager mode's to the bit?
  virtual bool toTheBit() const = 0;
  // The result is near eager mode's, and not always its bits: no kernel where these are asked for.
  void onlyNear(const char* why) const {
    if (toTheBit()) notLowered(why);
  }
  // Where this does not hold, eager mode raises: the kernel says so, and the operators are called instead.
  virtual void check(Num holds) = 0;
  // What `body` gives where the condition holds, else `otherwise`; nothing is read where it does not hold.
  template <typename F>
  Num where(Num condition, F&& body, Num otherwise) {
    uint32_t before = enter(condition);
    Num value = body();
    leave(before);
    return choose(condition, value, otherwise);
  }

  virtual Num make(kernel::Op op, DType dtype, std::initializer_list<Num> operands) = 0;
  virtual Num constant(DType dtype, double number) = 0;
  virtual Num integer(DType dtype, int64_t number) = 0;
  virtual Num number(const Place& place) = 0;  // as i64
  // A number that is known only in a run, as f32 where that is asked for, else as f64.
  virtual Num number(sym::Float value, DType dtype) = 0;
  virtual Place place(Num index) = 0;  // of an i64
  // Quotient and remainder; a place is never negative.
  virtual std::pair<Place, Place> divide(const Place& place, Int by) = 0;
  // All places of a tensor: along `dims` those of the loop over what is reduced, along others `outer`, in order.
  virtual Places inside(const TensorType& tensor, uint64_t dims, const Places& outer) = 0;
  // Combines what the number is in all steps of that loop.
  virtual Num reduce(Reduction kind, Num number) = 0;
  // The places of the result, as those of a tensor whose loop runs along `dim`: each element is computed in its step.
  virtual Places running(const TensorType& tensor, size_t dim) = 0;
  // Combines what the number is in all steps up to this one.
  virtual Num scan(Reduction kind, Num number) = 0;
  // In a step: where the condition holds, the element of the result at `places` becomes what `make` gives of what it
  // was (in what is computed in).
  virtual void put(Num holds, const Places& places, const std::function<Num(Num old)>& make) = 0;

  // ---- made of these ----

  // Argument `i` at the places of the result, broadcast, in its own dtype; a number: as `dtype` is computed in.
  Num broadcast(size_t i, DType dtype);
  // The same, converted to `dtype`, then to what is computed in.
  Num operand(size_t i, DType dtype);
  // Argument 0 of a unary operator, in what is computed in.
  Num x(size_t i = 0) { return operand(i, in.tensor(i).dtype); }
  // A number (argument `i`) in the dtype of `like`.
  Num scalar(size_t i, DType dtype);
  Num scalar(size_t i, Num like) { return scalar(i, like.dtype); }
  Num choose(Num condition, Num a, Num b) { return make(kernel::Op::Select, a.dtype, {condition, a, b}); }
  Num convert(Num a, DType dtype);
  Num bitcast(Num a, DType dtype) { return make(kernel::Op::Bitcast, dtype, {a}); }
  // Rounds to `dtype` as a store and a load would, and goes on in what is computed in.
  Num rounded(Num a, DType dtype);

 protected:
  virtual uint32_t enter(Num condition) = 0;
  virtual void leave(uint32_t before) = 0;
};

// What numbers of a dtype are computed in: f32 for half precision, others as they are.
inline DType computed(DType dtype) {
  return dtype == DType::Float16 || dtype == DType::BFloat16 ? DType::Float32 : dtype;
}

// The places in a tensor that is broadcast to sizes `to`, of which these are places. Not lowered where it is not known
// whether a size is 1.
Places placesInBroadcast(const TensorType& tensor, std::span<const Int> to, std::span<const Place> places);

// ---- arithmetic; both operands of one dtype, or a number ----

#define SAKER_NUM_BINARY(function, op)                                                      \
  inline Num function(Num a, Num b) { return a.in->make(kernel::Op::op, a.dtype, {a, b}); } \
  inline Num function(Num a, double b) { return function(a, a.in->constant(a.dtype, b)); }  \
  inline Num function(double a, Num b) { return function(b.in->constant(b.dtype, a), b); }
#define SAKER_NUM_COMPARISON(function, op)                                                      \
  inline Num function(Num a, Num b) { return a.in->make(kernel::Op::op, DType::Bool, {a, b}); } \
  inline Num function(Num a, double b) { return function(a, a.in->constant(a.dtype, b)); }      \
  inline Num function(double a, Num b) { return function(b.in->constant(b.dtype, a), b); }
#define SAKER_NUM_UNARY(function, op) \
  inline Num function(Num a) { return a.in->make(kernel::Op::op, a.dtype, {a}); }

SAKER_NUM_BINARY(operator+, Add)
SAKER_NUM_BINARY(operator-, Sub)
SAKER_NUM_BINARY(operator*, Mul)
SAKER_NUM_BINARY(operator/, Div)
SAKER_NUM_BINARY(operator%, Rem)
SAKER_NUM_BINARY(min, Min)
SAKER_NUM_BINARY(max, Max)
SAKER_NUM_BINARY(copysign, CopySign)
SAKER_NUM_BINARY(atan2, Atan2)
SAKER_NUM_BINARY(pow, Pow)
SAKER_NUM_BINARY(operator&, And)
SAKER_NUM_BINARY(operator|, Or)
SAKER_NUM_BINARY(operator^, Xor)
SAKER_NUM_BINARY(operator<<, Shl)
SAKER_NUM_BINARY(operator>>, Shr)
SAKER_NUM_COMPARISON(operator==, Eq)
SAKER_NUM_COMPARISON(operator!=, Ne)
SAKER_NUM_COMPARISON(operator<, Lt)
SAKER_NUM_COMPARISON(operator<=, Le)
SAKER_NUM_COMPARISON(operator>, Gt)
SAKER_NUM_COMPARISON(operator>=, Ge)
SAKER_NUM_UNARY(operator-, Neg)
SAKER_NUM_UNARY(operator!, Not)
SAKER_NUM_UNARY(abs, Abs)
SAKER_NUM_UNARY(sqrt, Sqrt)
SAKER_NUM_UNARY(floor, Floor)
SAKER_NUM_UNARY(ceil, Ceil)
SAKER_NUM_UNARY(trunc, Trunc)
SAKER_NUM_UNARY(round, Round)
SAKER_NUM_UNARY(exp, Exp)
SAKER_NUM_UNARY(exp2, Exp2)
SAKER_NUM_UNARY(expm1, Expm1)
SAKER_NUM_UNARY(log, Log)
SAKER_NUM_UNARY(log2, Log2)
SAKER_NUM_UNARY(log10, Log10)
SAKER_NUM_UNARY(log1p, Log1p)
SAKER_NUM_UNARY(sin, Sin)
SAKER_NUM_UNARY(cos, Cos)
SAKER_NUM_UNARY(tan, Tan)
SAKER_NUM_UNARY(asin, Asin)
SAKER_NUM_UNARY(acos, Acos)
SAKER_NUM_UNARY(atan, Atan)
SAKER_NUM_UNARY(sinh, Sinh)
SAKER_NUM_UNARY(cosh, Cosh)
SAKER_NUM_UNARY(tanh, Tanh)
SAKER_NUM_UNARY(asinh, Asinh)
SAKER_NUM_UNARY(acosh, Acosh)
SAKER_NUM_UNARY(atanh, Atanh)
SAKER_NUM_UNARY(erf, Erf)
SAKER_NUM_UNARY(erfc, Erfc)
#undef SAKER_NUM_BINARY
#undef SAKER_NUM_COMPARISON
#undef SAKER_NUM_UNARY

inline Num select(Num condition, Num a, Num b) { return a.in->choose(condition, a, b); }
inline Num select(Num condition, Num a, double b) { return select(condition, a, a.in->constant(a.dtype, b)); }
inline Num select(Num condition, double a, Num b) { return select(condition, b.in->constant(b.dtype, a), b); }
inline Num fma(Num a, Num b, Num c) { return a.in->make(kernel::Op::Fma, a.dtype, {a, b, c}); }
inline Num isNan(Num a) { return a != a; }
// The error function as eager mode computes it for results of this dtype.
Num erfAs(DType dtype, Num x);

// ---- the table ----

struct ElementRow {
  std::string op;  // "aten::add.Tensor"
  ElementFn element;
  AlongFn along = nullptr;  // of reductions and normalisations
};
using ElementRows = std::vector<ElementRow>;

// Of an operator that puts elements at places that are data; its element is what the result holds before.
struct PutRule {
  Steps (*steps)(const Infer& in);
  void (*put)(Element& e);
};
const PutRule* putRuleOf(const Operator* op);  // nullptr: it does not

#define SAKER_ELEMENT_FAMILIES(X) \
  X(addActivationElements)        \
  X(addBatchNormElements)         \
  X(addBinaryElements)            \
  X(addIndexElements)             \
  X(addLossElements)              \
  X(addNormalizationElements)     \
  X(addPartElements)              \
  X(addReductionElements)         \
  X(addScanElements)              \
  X(addScatterElements)           \
  X(addSpecialElements)           \
  X(addUnaryElements)             \
  X(addViewElements)              \
  X(addWindowElements)

#define X(function) void function(ElementRows& rows);
SAKER_ELEMENT_FAMILIES(X)
#undef X

}  // namespace saker::ops
