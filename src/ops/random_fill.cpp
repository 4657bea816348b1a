// Random numbers written into a tensor, or drawn for each element of one.
#include <string>

#include "ops/pointwise.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

using Check = void (*)(const Infer&);

// In place, and as a copy of the tensor that is overwritten.
template <uint16_t accepted, Check check>
void draw(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, accepted, self.dtype);
  check(in);
  likeResult(in, self, self.dtype);
}

void checkNormal(const Infer& in) {
  if (!(in.number(2, 1) >= 0)) refuse("normal needs a standard deviation of at least 0");
}
void checkUniform(const Infer& in) {
  if (!(in.number(1, 0) <= in.number(2, 1))) refuse("uniform needs a lower bound that is not above the upper one");
}
void checkPositive(const Infer& in) {
  if (!(in.number(1, 1) > 0)) refuse(in.op().qualified + " needs a positive number");
}
void checkProbability(const Infer& in) {
  double p = in.number(1, 0.5);
  if (!(p >= 0 && p <= 1)) refuse("a probability lies between 0 and 1");
}
void checkOpenProbability(const Infer& in) {
  double p = in.number(1);
  if (!(p > 0 && p < 1)) refuse("geometric needs a probability between 0 and 1");
}
void checkCauchy(const Infer& in) {
  if (!(in.number(2, 1) > 0)) refuse("cauchy needs a positive sigma");
}
void checkLogNormal(const Infer& in) {
  if (!(in.number(2, 2) > 0)) refuse("log_normal needs a positive standard deviation");
}
void checkNothing(const Infer&) {}

void checkTo(const Infer& in) {
  if (in.tensor(0).dtype == DType::Bool) unsupported("random bools up to a bound");
  if (in.integer(1) <= Int(0)) refuse("random needs a positive bound");
  requireFits(in, 1, in.tensor(0).dtype);
}
void checkFromTo(const Infer& in) {
  if (in.tensor(0).dtype == DType::Bool) unsupported("random bools between bounds");
  requireFits(in, 1, in.tensor(0).dtype);
  if (!in.given(2)) return;
  if (in.integer(1) >= in.integer(2)) refuse("random needs a lower bound below the upper one");
  requireFits(in, 2, in.tensor(0).dtype);
}

void checkBernoulli(const Infer& in) {
  const TensorType &self = in.tensor(0), &p = in.tensor(1);
  require(in, kFloats, p.dtype);
  if (!sameSizes(broadcast(self.sizes(), p.sizes()), self.sizes())) refuse("more probabilities than elements");
}

// The elements are the probabilities.
void bernoulli(Infer& in) {
  const TensorType& p = in.tensor(0);
  require(in, kFloats, p.dtype);
  in.contiguous(p.sizes(), p);
}

// out= is of any dtype.
void bernoulliOut(Infer& in) {
  const TensorType &p = in.tensor(0), &out = in.tensor(2);
  require(in, kFloats, p.dtype);
  require(in, kBool | kReal, out.dtype);
  if (sameSizes(p.sizes(), out.sizes())) {
    if (hasInternalOverlap(out)) refuse("several elements of out= share one address");
    return in.result(out);
  }
  TensorSpec resized(out);
  resized.sizes = Dims(p.sizes());
  resized.strides = ir::contiguousStrides(p.sizes());
  in.result(resized);
}

void bernoulliOf(Infer& in) {
  const TensorType& self = in.tensor(0);
  require(in, kBool | kReal, self.dtype);
  checkProbability(in);
  in.contiguous(self.sizes(), self);
}

template <uint16_t accepted>
void drawForEach(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, accepted, x.dtype);
  in.contiguous(x.sizes(), x);
}

template <uint16_t accepted>
void drawForPairs(Infer& in) {
  const TensorType &count = in.tensor(0), &p = in.tensor(1);
  if (count.dtype != p.dtype) refuse(in.op().qualified + " of tensors of different dtypes");
  require(in, accepted, count.dtype);
  if (!sameSizes(broadcast(count.sizes(), p.sizes()), count.sizes())) unsupported("more probabilities than counts");
  in.contiguous(count.sizes(), count);
}

template <uint16_t accepted>
void gradient(Infer& in) {
  const TensorType& x = in.tensor(0);
  require(in, accepted, x.dtype);
  for (size_t i = 1; i < in.op().parsed.arguments.size(); ++i) {
    if (in.tensor(i).dtype != x.dtype) refuse(in.op().qualified + " of tensors of different dtypes");
    if (!sameSizes(in.tensor(i).sizes(), x.sizes())) unsupported(in.op().qualified + " with broadcasting");
  }
  in.contiguous(x.sizes(), x);
}

// Means, deviations or both are tensors.
void normalOf(Infer& in) {
  bool mean = in.op().parsed.arguments[0].type.base == ir::SchemaType::Base::Tensor;
  bool deviation = in.op().parsed.arguments[1].type.base == ir::SchemaType::Base::Tensor;
  const TensorType& first = in.tensor(mean ? 0 : 1);
  require(in, kFloats, first.dtype);
  if (!deviation && !(in.number(1, 1) >= 0)) refuse("normal needs a standard deviation of at least 0");
  if (mean && !deviation && in.op().variant == Variant::Out) {
    // Deviations stand in a tensor of the sizes of out=.
    return in.contiguous(broadcast(first.sizes(), in.tensor(3).sizes()), first);
  }
  if (!mean || !deviation) return in.contiguous(first.sizes(), first);
  require(in, kFloats, in.tensor(1).dtype);
  in.contiguous(broadcast(first.sizes(), in.tensor(1).sizes()), first);
}

void dropout(Infer& in) {
  const TensorType& x = in.tensor(0);
  if (numel(x) == Int(0)) unsupported("native_dropout of an empty tensor returns the tensor itself");
  TensorSpec mask;
  mask.dtype = DType::Bool;
  mask.device = x.device;
  mask.sizes = Dims(x.sizes());
  mask.strides = denseStridesLike(x);
  const TensorType* maskType = in.context().types().tensor(mask);
  if (in.boolean(2, true)) {
    double p = in.number(1);
    if (!(p >= 0 && p <= 1)) refuse("a probability lies between 0 and 1");
    require(in, kFloating | kHalfComplex, x.dtype);
    elementwiseResult(in, {&x, maskType}, x.dtype, x.dtype);
  } else {
    likeResult(in, x, x.dtype);
  }
  in.result(maskType);
}

constexpr char kGenerator[] = "*, Generator? generator=None)";

struct Kind {
  std::string signature;
  InferFn rule;
  uint32_t traits = kNone;
};

// Of the CPU: PyTorch fixes its size in bytes.
void generatorState(Infer& in) {
  constexpr int64_t kStateBytes = 5056;
  in.contiguous(Dims{Int(kStateBytes)}, DType::UInt8, ir::Device{ir::DeviceType::CPU, -1});
}

void setsGenerator(Infer&) {}

}  // namespace

void addRandomFill(Rows& rows) {
  std::string generator = kGenerator;
  Forms inplace{.functional = false, .out = "", .cost = Cost::Fill};
  Forms copied{.inplace = false, .outTraits = kCopiedOut};
  Forms noOut{.inplace = false, .out = ""};

  Kind kinds[] = {
      {"uniform(Tensor self, float from=0., float to=1., ", draw < kFloating | kHalfComplex, checkUniform > },
      {"exponential(Tensor self, float lambd=1., ", draw<kFloats, checkPositive>},
      {"geometric(Tensor self, float p, ", draw<kReal, checkOpenProbability>},
      {"cauchy(Tensor self, float median=0., float sigma=1., ", draw<kFloats, checkCauchy>},
      {"log_normal(Tensor self, float mean=1., float std=2., ", draw<kFloats, checkLogNormal>},
      {"random(Tensor self, ", draw < kBool | kReal, checkNothing > },
  };
  for (const Kind& kind : kinds) {
    addForms(rows, kind.signature + generator, kind.rule, inplace, kRandom);
    addForms(rows, kind.signature + generator, kind.rule, copied, kRandom);
  }
  InferFn normal = draw < kFloating | kHalfComplex, checkNormal > ;
  std::string moments = "(Tensor self, float mean=0., float std=1., ";
  addForms(rows, "normal" + moments + generator, normal, inplace, kRandom);
  addForms(rows, "normal_functional" + moments + generator, normal, noOut, kRandom);
  InferFn to = draw < kBool | kReal, checkTo >, fromTo = draw < kBool | kReal, checkFromTo > ;
  addForms(rows, "random.to(Tensor self, int to, " + generator, to, inplace, kRandom);
  addForms(rows, "random.to(Tensor self, int to, " + generator, to, noOut, kRandom);
  addForms(rows, "random.from(Tensor self, int from, int? to, " + generator, fromTo, inplace, kRandom);
  addForms(rows, "random.from(Tensor self, int from, int? to, " + generator, fromTo, noOut, kRandom);

  // Probabilities in a tensor may be none.
  InferFn bernoulliBy = draw < kBool | kReal, checkBernoulli >, bernoulliAt = draw < kBool | kReal, checkProbability > ;
  addForms(rows, "bernoulli.Tensor(Tensor self, Tensor p, " + generator, bernoulliBy, inplace, kRandom | kFailsOnData);
  addForms(rows, "bernoulli.Tensor(Tensor self, Tensor p, " + generator, bernoulliBy, noOut, kRandom | kFailsOnData);
  addForms(rows, "bernoulli.float(Tensor self, float p=0.5, " + generator, bernoulliAt, inplace, kRandom);
  addForms(rows, "bernoulli(Tensor self, " + generator, bernoulli, noOut, kRandom | kFailsOnData);
  addForms(rows, "bernoulli(Tensor self, " + generator, bernoulliOut, {.functional = false, .inplace = false},
           kRandom | kFailsOnData | kOwnWrites);
  addForms(rows, "bernoulli.p(Tensor self, float p, " + generator, bernoulliOf, noOut, kRandom);

  auto withOut = [](std::string_view out) { return Forms{.inplace = false, .out = out}; };
  addForms(rows, "normal.Tensor_float(Tensor mean, float std=1., " + generator, normalOf, withOut("Tensor_float_out"),
           kRandom);
  addForms(rows, "normal.float_Tensor(float mean, Tensor std, " + generator, normalOf, withOut("float_Tensor_out"),
           kRandom | kFailsOnData);
  addForms(rows, "normal.Tensor_Tensor(Tensor mean, Tensor std, " + generator, normalOf, withOut("Tensor_Tensor_out"),
           kRandom | kFailsOnData);
  addForms(rows, "poisson(Tensor self, Generator? generator=None)", drawForEach<kFloats>, copied,
           kRandom | kFailsOnData);
  addForms(rows, "_standard_gamma(Tensor self, Generator? generator=None)", drawForEach<kFull>, copied, kRandom);
  addForms(rows, "_sample_dirichlet(Tensor self, Generator? generator=None)", drawForEach<kFull>, copied, kRandom);
  addForms(rows, "binomial(Tensor count, Tensor prob, Generator? generator=None)", drawForPairs<kFull>, copied,
           kRandom | kFailsOnData);
  addForms(rows, "_standard_gamma_grad(Tensor self, Tensor output)", gradient<kFull>, copied);
  addForms(rows, "_dirichlet_grad(Tensor x, Tensor alpha, Tensor total)", gradient<kFull>, copied);
  // The state of the default generator: read, set and seeded in the order of what draws from it.
  rows.push_back({"saker::rng_state() -> Tensor", generatorState, Cost::Fill, kRandom});
  rows.push_back({"saker::set_rng_state(Tensor state) -> ()", setsGenerator, Cost::Fill, kRandom | kFailsOnData});
  rows.push_back({"saker::manual_seed(int seed) -> ()", setsGenerator, Cost::Fill, kRandom});
  rows.push_back({"aten::native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", dropout,
                  Cost::Pointwise, kRandom});
}

}  // namespace saker::ops
