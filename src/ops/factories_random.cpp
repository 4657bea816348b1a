// Tensors filled with random numbers.
#include <limits>

#include "ops/accept.h"
#include "ops/factory.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

// Position of the first argument of a name, or of none of them the number of arguments.
size_t positionOf(const Infer& in, std::string_view name) {
  return in.op().parsed.indexOf(name).value_or(in.op().parsed.arguments.size());
}

// Uniform and normal numbers are floating-point or complex; an empty tensor of normal ones is not looked at.
void requireFloating(const Infer& in, DType dtype, IntSpan sizes) {
  if (accepts(kFloating | kHalfComplex, dtype)) return;
  bool uniform = in.op().parsed.name.starts_with("aten::rand") && !in.op().parsed.name.starts_with("aten::randn");
  if (uniform || ir::numel(sizes) != Int(0)) require(in, kFloating, dtype);
}

void random(Infer& in) {
  Options options = readOptions(in, positionOf(in, "dtype"));
  Dims sizes = in.ints(positionOf(in, "size"));
  requireFloating(in, options.dtype, sizes);
  fresh(in, sizes, options);
}

void randomLike(Infer& in) {
  const TensorType& self = in.tensor(0);
  Options options = readOptions(in, positionOf(in, "dtype"), self);
  requireFloating(in, options.dtype, self.sizes());
  freshLike(in, self, options, in.memoryFormat(positionOf(in, "memory_format")));
}

struct Span {
  int64_t lowest, highest;
};

// Integers that a dtype represents, all of them exactly or not; what random_ holds its bounds against.
Span integersOf(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return {0, 1};
    case DType::UInt8:
      return {0, 255};
    case DType::Int8:
      return {-128, 127};
    case DType::Int16:
      return {-32768, 32767};
    case DType::Int32:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case DType::UInt16:
      return {0, 65535};
    case DType::UInt32:
      return {0, std::numeric_limits<uint32_t>::max()};
    case DType::UInt64:
      return {0, std::numeric_limits<int64_t>::max()};
    case DType::Float16:
      return {-65504, 65504};
    default:
      return {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  }
}

void requireIntegers(const Infer& in, DType dtype, std::optional<size_t> lowAt, size_t highAt) {
  if (ir::isComplex(dtype) || (ir::isFloat(dtype) && ir::byteSize(dtype) == 1)) {
    refuse("random integers are not implemented for " + std::string(ir::name(dtype)));
  }
  Int low = lowAt ? in.integer(*lowAt) : Int(0), high = in.integer(highAt);
  if (low >= high) refuse("an empty range of random integers");
  Span span = integersOf(dtype);
  if (span.highest != std::numeric_limits<int64_t>::max() || span.lowest == 0) {
    if (low < Int(span.lowest) || high - Int(1) > Int(span.highest))
      refuse("random integers outside the dtype's range");
  }
}

void randomIntegers(Infer& in) {
  size_t highAt = positionOf(in, "high");
  const ir::Ambient& ambient = in.context().ambient();
  Options options = readOptions(in, positionOf(in, "dtype"), DType::Int64, ambient.defaultDevice);
  if (!isOut(in) && !in.given(positionOf(in, "dtype"))) options.dtype = ambient.defaultDType;
  requireIntegers(in, options.dtype, highAt == 0 ? std::nullopt : std::optional<size_t>(0), highAt);
  fresh(in, in.ints(positionOf(in, "size")), options);
}

void randomIntegersLike(Infer& in) {
  const TensorType& self = in.tensor(0);
  size_t highAt = positionOf(in, "high");
  Options options = readOptions(in, positionOf(in, "dtype"), self);
  if (in.op().parsed.arguments[highAt].type.base == ir::SchemaType::Base::Tensor) {
    // The bound is read from data.
    if (in.tensor(highAt).rank != 0 && numel(in.tensor(highAt)) != Int(1)) refuse("high must be a single number");
  } else {
    requireIntegers(in, options.dtype, highAt == 1 ? std::nullopt : std::optional<size_t>(1), highAt);
  }
  freshLike(in, self, options, in.memoryFormat(positionOf(in, "memory_format")));
}

void permutation(Infer& in) {
  Int n = in.integer(0);
  Options options = readOptions(in, positionOf(in, "dtype"), DType::Int64, in.context().ambient().defaultDevice);
  require(in, kReal, options.dtype);
  if (n < Int(0)) refuse("a permutation of fewer than no elements");
  int64_t exact = 0;  // the largest number up to which the dtype counts every one
  switch (options.dtype) {
    case DType::UInt8:
      exact = 255;
      break;
    case DType::Int8:
      exact = 127;
      break;
    case DType::Int16:
      exact = 32767;
      break;
    case DType::Float16:
      exact = 2048 + 1;
      break;
    case DType::BFloat16:
      exact = 65536;
      break;
    case DType::Int32:
      exact = std::numeric_limits<int32_t>::max();
      break;
    default:
      break;
  }
  if (exact != 0 && n > Int(exact)) refuse("a permutation too long for its dtype");
  fresh(in, {&n, 1}, options);
}

void multinomial(Infer& in) {
  const TensorType& weights = in.tensor(0);
  Int samples = in.integer(1);
  require(in, kFloats, weights.dtype);
  if (weights.rank != 1 && weights.rank != 2) refuse("weights have one or two dimensions");
  Int categories = weights.size(weights.rank - 1);
  if (samples <= Int(0)) refuse("at least one sample is drawn");
  if (!in.boolean(2) && samples > categories) refuse("more samples than categories, without replacement");
  if (categories > Int(int64_t{1} << 24)) refuse("too many categories");
  Dims sizes;
  if (weights.rank == 2) sizes.push_back(weights.size(0));
  sizes.push_back(samples);
  in.contiguous(sizes, DType::Int64, weights.device);
}

}  // namespace

void addRandomFactories(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    addWithOut(rows, schema, rule, Cost::Fill, kRandom | traits);
  };
  for (std::string name : {"rand", "randn"}) {
    add("aten::" + name + "(SymInt[] size, *, " SAKER_OPTIONS ") -> Tensor", random);
    add("aten::" + name + ".generator(SymInt[] size, *, Generator? generator, " SAKER_OPTIONS ") -> Tensor", random);
    add("aten::" + name + "_like(Tensor self, *, " SAKER_OPTIONS SAKER_FORMAT ") -> Tensor", randomLike);
    add("aten::" + name +
            "_like.generator(Tensor self, *, Generator? generator, " SAKER_OPTIONS SAKER_FORMAT ") -> Tensor",
        randomLike);
  }
  add("aten::normal.float_float(float mean, float std, SymInt[] size, *, Generator? generator=None, " SAKER_OPTIONS
      ") -> Tensor",
      random);
  for (std::string generator : {"", "Generator? generator, "}) {
    bool given = !generator.empty();
    add("aten::randint" + std::string(given ? ".generator" : "") + "(SymInt high, SymInt[] size, *, " + generator +
            SAKER_INDEX_OPTIONS ") -> Tensor",
        randomIntegers);
    add("aten::randint." + std::string(given ? "low_generator" : "low") +
            "(SymInt low, SymInt high, SymInt[] size, *, " + generator + SAKER_INDEX_OPTIONS ") -> Tensor",
        randomIntegers);
    add("aten::randint_like" + std::string(given ? ".generator" : "") + "(Tensor self, SymInt high, *, " + generator +
            SAKER_OPTIONS SAKER_FORMAT ") -> Tensor",
        randomIntegersLike);
    add("aten::randint_like." + std::string(given ? "low_generator_dtype" : "low_dtype") +
            "(Tensor self, SymInt low, SymInt high, *, " + generator + SAKER_OPTIONS SAKER_FORMAT ") -> Tensor",
        randomIntegersLike);
    add("aten::randint_like." + std::string(given ? "Tensor_generator" : "Tensor") + "(Tensor self, Tensor high, *, " +
            generator + SAKER_OPTIONS SAKER_FORMAT ") -> Tensor",
        randomIntegersLike, kFailsOnData);
    add("aten::randperm" + std::string(given ? ".generator" : "") + "(SymInt n, *, " + generator +
            SAKER_INDEX_OPTIONS ") -> Tensor",
        permutation);
  }
  add("aten::multinomial(Tensor self, SymInt num_samples, bool replacement=False, *, Generator? generator=None) -> "
      "Tensor",
      multinomial, kFailsOnData);
}

}  // namespace saker::ops
