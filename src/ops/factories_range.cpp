// Sequences of numbers: arange, range, linspace, logspace, indices of triangles, window functions.
#include <cmath>

#include "ops/accept.h"
#include "ops/factory.h"
#include "ops/promote.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

// start, end and step of a range, wherever the overload has them.
struct Bounds {
  std::optional<size_t> start, end, step;  // positions
  size_t options;
};

Bounds boundsOf(const Infer& in) {
  const std::vector<ir::SchemaArgument>& arguments = in.op().parsed.arguments;
  if (arguments[0].name == "end") return {std::nullopt, 0, std::nullopt, 1};
  if (arguments.size() > 2 && arguments[2].name == "step") return {0, 1, 2, 3};
  return {0, 1, std::nullopt, 2};
}

Scalar::Kind kindOf(const Infer& in, std::optional<size_t> i) {
  return i && in.given(*i) ? in.scalar(*i).kind : Scalar::Kind::Int;
}
double numberOf(const Infer& in, std::optional<size_t> i, double otherwise) {
  return i && in.given(*i) ? in.number(*i) : otherwise;
}
Int integerOf(const Infer& in, std::optional<size_t> i, int64_t otherwise) {
  return i && in.given(*i) ? in.integer(*i) : Int(otherwise);
}

bool isWhole(Scalar::Kind kind) { return kind == Scalar::Kind::Int || kind == Scalar::Kind::Bool; }

void requireDirection(Bool positive, Bool negative, Bool up, Bool down) {
  if (positive) {
    if (!up) refuse("the end lies before the start");
  } else if (negative) {
    if (!down) refuse("the end lies behind the start, and the step is negative");
  } else {
    refuse("the step is zero");
  }
}

// Of whole numbers, symbols included.
Int wholeLength(Int start, Int end, Int step) {
  requireDirection(step > Int(0), step < Int(0), end >= start, end <= start);
  if (step.isConst(1)) return end - start;
  return step > Int(0) ? ceilDiv(end - start, step) : ceilDiv(start - end, -step);
}

Int lengthOf(const Infer& in, const Bounds& at, bool inclusive, DType dtype) {
  bool whole = isWhole(kindOf(in, at.start)) && isWhole(kindOf(in, at.end)) && isWhole(kindOf(in, at.step));
  if (whole && !inclusive)
    return wholeLength(integerOf(in, at.start, 0), integerOf(in, at.end, 0), integerOf(in, at.step, 1));
  double start = numberOf(in, at.start, 0), end = numberOf(in, at.end, 0), step = numberOf(in, at.step, 1);
  if (!std::isfinite(start) || !std::isfinite(end)) refuse("a range without bounds");
  // Bounds are truncated first where the arithmetic is that of integers.
  if (inclusive ? ir::isIntegral(dtype, false) : dtype == DType::Int64) {
    start = std::trunc(start), end = std::trunc(end), step = std::trunc(step);
  }
  requireDirection(step > 0, step < 0, end >= start, end <= start);
  double length = inclusive ? std::floor((end - start) / step) + 1 : std::ceil((end - start) / step);
  if (!(length >= 0 && length < 0x1p62)) refuse("a range of too many elements");
  return static_cast<int64_t>(length);
}

bool anyComplex(const Infer& in, const Bounds& at) {
  for (std::optional<size_t> i : {at.start, at.end, at.step}) {
    if (kindOf(in, i) == Scalar::Kind::Complex) return true;
  }
  return false;
}

template <bool inclusive>
void range(Infer& in) {
  Bounds at = boundsOf(in);
  if (anyComplex(in, at)) refuse("the bounds of a range are real");
  bool whole = isWhole(kindOf(in, at.start)) && isWhole(kindOf(in, at.end)) && isWhole(kindOf(in, at.step));
  const ir::Ambient& ambient = in.context().ambient();
  DType inferred = whole && !inclusive ? DType::Int64 : ambient.defaultDType;
  Options options = readOptions(in, at.options, inferred, ambient.defaultDevice);
  require(in, kReal, options.dtype);
  Int length = lengthOf(in, at, inclusive, options.dtype);
  // A tensor of the right number of elements is filled as it is.
  if (isOut(in)) {
    const TensorType& out = in.tensor(in.argCount() - 1);
    if (out.rank != 1 && numel(out) == length) return in.result(out);
  }
  fresh(in, {&length, 1}, options);
}

// linspace and logspace; ends are numbers or 0-d tensors.
template <size_t optionsAt>
void spaced(Infer& in) {
  bool complex = false;
  for (size_t i : {0, 1}) {
    if (in.op().parsed.arguments[i].type.base == ir::SchemaType::Base::Tensor) {
      if (in.tensor(i).rank != 0) refuse("the ends must be 0-d tensors");
      complex |= ir::isComplex(in.tensor(i).dtype);
    } else {
      complex |= in.scalar(i).kind == Scalar::Kind::Complex;
    }
  }
  Int steps = in.integer(2);
  if (steps < Int(0)) refuse("the number of steps is negative");
  const ir::Ambient& ambient = in.context().ambient();
  Options options =
      readOptions(in, optionsAt, complex ? defaultComplex(in.context()) : ambient.defaultDType, ambient.defaultDevice);
  if (complex && !ir::isComplex(options.dtype)) refuse("complex ends for a real result");
  if (!accepts(kNumbers, options.dtype) && steps > Int(1)) require(in, kNumbers, options.dtype);
  fresh(in, {&steps, 1}, options);
}

// Elements on and below a diagonal.
Int triangle(Int rows, Int columns, Int offset) {
  if (rows == Int(0) || columns == Int(0)) return 0;
  // The first row has `first` elements, each next one more, up to the whole width.
  Int above = offset < Int(0) ? min(-offset, rows) : Int(0);  // rows with none
  Int filled = rows - above;
  if (filled == Int(0)) return 0;
  Int first = min(columns, max(offset, 0) + Int(1));
  if (offset < Int(0)) first = 1;
  Int growing = min(filled, columns - first + Int(1));
  Int last = first + growing - Int(1);
  return (first + last) * growing / Int(2) + (filled - growing) * columns;
}

template <bool lower>
void triangleIndices(Infer& in) {
  Int rows = in.integer(0), columns = in.integer(1), offset = in.integer(2, 0);
  if (rows < Int(0) || columns < Int(0)) refuse("a negative size");
  Options options = readOptions(in, 3, DType::Int64, in.context().ambient().defaultDevice);
  if (options.dtype != DType::Int32 && options.dtype != DType::Int64) refuse("indices must be int or long");
  Int count = lower ? triangle(rows, columns, offset) : rows * columns - triangle(rows, columns, offset - Int(1));
  Dims sizes = {Int(2), count};
  fresh(in, sizes, options);
}

void window(Infer& in) {
  size_t optionsAt = 1;
  while (in.op().parsed.arguments[optionsAt].name != "dtype" && in.op().parsed.arguments[optionsAt].name != "out")
    ++optionsAt;
  Int length = in.integer(0);
  if (length < Int(0)) refuse("the length of a window is negative");
  Options options = readOptions(in, optionsAt);
  if (!ir::isFloat(options.dtype) && !ir::isComplex(options.dtype)) refuse("a window has a floating-point dtype");
  if (!accepts(kFloats, options.dtype) && length > Int(1)) require(in, kFloats, options.dtype);
  fresh(in, {&length, 1}, options);
}

}  // namespace

void addRanges(Rows& rows) {
  auto row = [&](const char* schema, InferFn rule) { rows.push_back({schema, rule, Cost::Fill}); };
  auto out = [&](const char* schema, InferFn rule) { rows.push_back({schema, rule, Cost::Fill, kCopiedOut}); };
  row("aten::arange(Scalar end, *, " SAKER_OPTIONS ") -> Tensor", range<false>);
  row("aten::arange.start(Scalar start, Scalar end, *, " SAKER_OPTIONS ") -> Tensor", range<false>);
  row("aten::arange.start_step(Scalar start, Scalar end, Scalar step=1, *, " SAKER_OPTIONS ") -> Tensor", range<false>);
  row("aten::range(Scalar start, Scalar end, *, " SAKER_OPTIONS ") -> Tensor", range<true>);
  row("aten::range.step(Scalar start, Scalar end, Scalar step=1, *, " SAKER_OPTIONS ") -> Tensor", range<true>);
  out("aten::arange.out(Scalar end, *, Tensor(a!) out) -> Tensor(a!)", range<false>);
  out("aten::arange.start_out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> Tensor(a!)", range<false>);
  out("aten::range.out(Scalar start, Scalar end, Scalar step=1, *, Tensor(a!) out) -> Tensor(a!)", range<true>);

  for (const char* ends : {"(Scalar start, Scalar end", ".Tensor_Tensor(Tensor start, Tensor end",
                           ".Tensor_Scalar(Tensor start, Scalar end", ".Scalar_Tensor(Scalar start, Tensor end"}) {
    addWithOut(rows, std::string("aten::linspace") + ends + ", int steps, *, " SAKER_OPTIONS ") -> Tensor", spaced<3>,
               Cost::Fill);
    addWithOut(rows,
               std::string("aten::logspace") + ends + ", int steps, float base=10., *, " SAKER_OPTIONS ") -> Tensor",
               spaced<4>, Cost::Fill);
  }
  addWithOut(rows, "aten::tril_indices(int row, int col, int offset=0, *, " SAKER_INDEX_OPTIONS ") -> Tensor",
             triangleIndices<true>, Cost::Fill);
  addWithOut(rows, "aten::triu_indices(int row, int col, int offset=0, *, " SAKER_INDEX_OPTIONS ") -> Tensor",
             triangleIndices<false>, Cost::Fill);

  for (std::string name : {"bartlett", "blackman", "hamming", "hann", "kaiser"}) {
    std::string start = "aten::" + name + "_window", end = ", *, " SAKER_OPTIONS ") -> Tensor";
    addWithOut(rows, start + "(int window_length" + end, window, Cost::Fill);
    addWithOut(rows, start + ".periodic(int window_length, bool periodic" + end, window, Cost::Fill);
  }
  for (const char* more : {".periodic_alpha(int window_length, bool periodic, float alpha",
                           ".periodic_alpha_beta(int window_length, bool periodic, float alpha, float beta"}) {
    addWithOut(rows, std::string("aten::hamming_window") + more + ", *, " SAKER_OPTIONS ") -> Tensor", window,
               Cost::Fill);
  }
  addWithOut(rows,
             "aten::kaiser_window.beta(int window_length, bool periodic, float beta, *, " SAKER_OPTIONS ") -> Tensor",
             window, Cost::Fill);
}

}  // namespace saker::ops
