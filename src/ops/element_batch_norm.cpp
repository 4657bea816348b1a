// What one element is: normalisation of channels over a batch, and of groups of channels, with their derivatives.
#include "ops/element.h"
#include "ops/reduce.h"
#include "ops/shape.h"

namespace saker::ops {
namespace {

Num read(Element& e, size_t i, const Places& places) {
  return e.convert(e.at(i, places), computed(e.in.tensor(i).dtype));
}

Num countAs(Element& e, Int count, DType dtype) { return e.convert(e.number(Place(count)), dtype); }

uint64_t butChannels(const TensorType& input) { return allDims(input.rank) & ~uint64_t{2}; }

Int elementsOfChannel(const TensorType& input) {
  Int count = 1;
  for (size_t d = 0; d < input.rank; ++d) {
    if (d != 1) count *= input.size(d);
  }
  return count;
}

// ---- batch norm ----

// Where the arguments behind (input, weight, bias) stand; the same for all forms but for what they leave out.
struct Form {
  size_t runningMean, runningVar, training, momentum, eps;
};
constexpr size_t kNot = SIZE_MAX;
constexpr Form kFull{3, 4, 5, 6, 7}, kNoTraining{3, 4, kNot, 5, 6}, kNoStatistics{kNot, kNot, 3, 4, 5};

bool trains(const Infer& in, const Form& form) { return form.training != kNot && in.boolean(form.training); }

template <const Form& form>
std::optional<Along> alongBatch(const Infer& in, size_t) {
  if (!trains(in, form)) return std::nullopt;
  const TensorType& input = in.tensor(0);
  return Along{&input, butChannels(input)};
}

template <const Form& form>
Num batchNorm(Element& e) {
  const TensorType& input = e.in.tensor(0);
  DType dtype = computed(input.dtype);
  Places channel{e.result == 0 ? e.places()[1] : e.places()[0]};
  Num eps = e.constant(dtype, e.in.number(form.eps));
  auto parameter = [&](size_t i) { return e.convert(read(e, i, channel), dtype); };
  Num mean, scale;
  if (trains(e.in, form)) {
    Num x = read(e, 0, e.inside(input, butChannels(input), channel));
    Num count = countAs(e, elementsOfChannel(input), dtype);
    mean = e.reduce(Reduction::Sum, x) / count;
    Num momentum = e.constant(dtype, e.in.number(form.momentum)),
        rest = e.constant(dtype, 1 - e.in.number(form.momentum));
    if (e.result == 1) return mean;
    if (e.result == 3) return momentum * mean + rest * parameter(form.runningMean);
    Num off = x - mean;
    Num squares = e.reduce(Reduction::Sum, off * off);
    if (e.result == 4) return momentum * (squares / (count - 1)) + rest * parameter(form.runningVar);
    scale = 1 / sqrt(squares / count + eps);
    if (e.result == 2) return scale;
  } else {
    if (e.result >= 3) return parameter(e.result == 3 ? form.runningMean : form.runningVar);
    if (e.result > 0) notLowered("statistics that evaluation does not take");
    mean = parameter(form.runningMean);
    Num variance = e.convert(read(e, form.runningVar, channel), DType::Float64);
    scale = e.convert(1 / sqrt(variance + e.in.number(form.eps)), dtype);
  }
  Num factor = e.in.given(1) ? scale * parameter(1) : scale;
  Num shift = e.in.given(2) ? fma(-mean, factor, parameter(2)) : -(mean * factor);
  return fma(read(e, 0, e.places()), factor, shift);
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask)
std::optional<Along> alongBatchBackward(const Infer& in, size_t result) {
  if (result == 0 && !in.boolean(7)) return std::nullopt;
  const TensorType& input = in.tensor(1);
  return Along{&input, butChannels(input)};
}

Num batchNormBackward(Element& e) {
  const TensorType& input = e.in.tensor(1);
  DType dtype = computed(input.dtype);
  Places channel{e.result == 0 ? e.places()[1] : e.places()[0]};
  auto parameter = [&](size_t i) { return e.convert(read(e, i, channel), dtype); };
  bool training = e.in.boolean(7);
  Num scale = training ? parameter(6) : 1 / sqrt(parameter(4) + e.constant(dtype, e.in.number(8)));
  Num factor = e.in.given(2) ? scale * parameter(2) : scale;
  if (e.result == 0 && !training) return read(e, 0, e.places()) * factor;
  Num mean = parameter(training ? 5 : 3);
  Places there = e.inside(input, butChannels(input), channel);
  Num grads = e.reduce(Reduction::Sum, read(e, 0, there));
  if (e.result == 2) return grads;
  Num products = e.reduce(Reduction::Sum, (read(e, 1, there) - mean) * read(e, 0, there));
  if (e.result == 1) return products * scale;
  Num count = countAs(e, elementsOfChannel(input), dtype);
  Num along = (read(e, 1, e.places()) - mean) * (products * scale * scale / count);
  return (read(e, 0, e.places()) - along - grads / count) * factor;
}

// ---- group norm ----

// The input as (batch, groups, channels of a group, the rest).
struct Groups {
  const TensorType* seen;
  const TensorType* perChannel;  // (batch, channels, the rest)
  Int inGroup;
};

// `at`: N, C, HxW and the number of groups among the arguments.
Groups groupsOf(const Infer& in, size_t input, size_t at) {
  const TensorType& type = in.tensor(input);
  Int groups = in.integer(at + 3), channels = in.integer(at + 1), rest = in.integer(at + 2);
  Int inGroup = channels / groups;
  auto seen = [&](Dims sizes) {
    TensorSpec spec;
    spec.dtype = type.dtype;
    spec.device = type.device;
    spec.strides = ir::contiguousStrides(sizes);
    spec.sizes = std::move(sizes);
    return in.context().types().tensor(spec);
  };
  return {seen({in.integer(at), groups, inGroup, rest}), seen({in.integer(at), channels, rest}), inGroup};
}

constexpr uint64_t kOfGroup = 0b1100, kOfChannel = 0b101;

// The places of the input from (batch, channel, place in the rest).
Places spatial(Element& e, const TensorType& input, Place batch, Place channel, Place rest) {
  Places places(input.rank);
  places[0] = std::move(batch);
  places[1] = std::move(channel);
  size_t first = 2;
  while (first < input.rank && surelyOne(input.size(first))) ++first;
  for (size_t d = input.rank; d-- > first;) {
    if (d == first) {
      places[d] = rest;
    } else if (!surelyOne(input.size(d))) {
      std::tie(rest, places[d]) = e.divide(rest, input.size(d));
    }
  }
  return places;
}

std::optional<Along> alongGroups(const Infer& in, size_t) { return Along{groupsOf(in, 0, 3).seen, kOfGroup}; }

// (input, weight, bias, N, C, HxW, group, eps)
Num groupNorm(Element& e) {
  const TensorType& input = e.in.tensor(0);
  Groups groups = groupsOf(e.in, 0, 3);
  DType dtype = computed(input.dtype);
  Place batch = e.places()[0], group = e.result == 0 ? e.divide(e.places()[1], groups.inGroup).first : e.places()[1];
  Places in = e.inside(*groups.seen, kOfGroup, {batch, group});
  Num x = read(e, 0, spatial(e, input, batch, group * groups.inGroup + in[2], in[3]));
  Num count = countAs(e, groups.inGroup * e.in.integer(5), dtype);
  Num mean = e.reduce(Reduction::Sum, x) / count;
  if (e.result == 1) return mean;
  Num off = x - mean;
  Num scale = 1 / sqrt(e.reduce(Reduction::Sum, off * off) / count + e.constant(dtype, e.in.number(7)));
  if (e.result == 2) return scale;
  Places channel{e.places()[1]};
  Num factor = e.in.given(1) ? scale * e.convert(read(e, 1, channel), dtype) : scale;
  Num shift = e.in.given(2) ? e.convert(read(e, 2, channel), dtype) - factor * mean : -(factor * mean);
  return read(e, 0, e.places()) * factor + shift;
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask): the input's gradient is reduced along groups,
// those of the parameters along all but channels.
std::optional<Along> alongGroupsBackward(const Infer& in, size_t result) {
  Groups groups = groupsOf(in, 1, 5);
  return result == 0 ? Along{groups.seen, kOfGroup} : Along{groups.perChannel, kOfChannel};
}

Num groupNormBackward(Element& e) {
  const TensorType& input = e.in.tensor(1);
  Groups groups = groupsOf(e.in, 1, 5);
  DType dtype = computed(input.dtype);
  auto statistic = [&](size_t i, const Place& batch, const Place& group) {
    return e.convert(read(e, i, {batch, group}), dtype);
  };
  if (e.result != 0) {
    Place channel = e.places()[0], group = e.divide(channel, groups.inGroup).first;
    Places in = e.inside(*groups.perChannel, kOfChannel, {channel});
    Places there = spatial(e, input, in[0], channel, in[2]);
    Num grad = read(e, 0, there);
    if (e.result == 2) return e.reduce(Reduction::Sum, grad);
    Num off = read(e, 1, there) - statistic(2, in[0], group);
    return e.reduce(Reduction::Sum, grad * off * statistic(3, in[0], group));
  }
  Place batch = e.places()[0], group = e.divide(e.places()[1], groups.inGroup).first;
  Places in = e.inside(*groups.seen, kOfGroup, {batch, group});
  Place channel = group * groups.inGroup + in[2];
  Places there = spatial(e, input, batch, channel, in[3]);
  auto weighted = [&](const Places& places) {
    Num grad = read(e, 0, places);
    return e.in.given(4) ? grad * e.convert(read(e, 4, {places[1]}), dtype) : grad;
  };
  Num mean = statistic(2, batch, group), scale = statistic(3, batch, group);
  Num products = e.reduce(Reduction::Sum, weighted(there) * read(e, 1, there));
  Num grads = e.reduce(Reduction::Sum, weighted(there));
  Num part = 1 / countAs(e, groups.inGroup * e.in.integer(7), dtype);
  Num b = (grads * mean - products) * scale * scale * scale * part;
  Num c = -b * mean - grads * scale * part;
  return scale * weighted(e.places()) + b * read(e, 1, e.places()) + c;
}

}  // namespace

void addBatchNormElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule, AlongFn along) {
    rows.push_back({std::string("aten::") + name, rule, along});
  };
  for (const char* name : {"native_batch_norm", "_native_batch_norm_legit_functional"}) {
    add(name, batchNorm<kFull>, alongBatch<kFull>);
  }
  add("_native_batch_norm_legit_no_training", batchNorm<kNoTraining>, alongBatch<kNoTraining>);
  add("_native_batch_norm_legit.no_stats", batchNorm<kNoStatistics>, alongBatch<kNoStatistics>);
  add("native_batch_norm_backward", batchNormBackward, alongBatchBackward);
  add("native_group_norm", groupNorm, alongGroups);
  add("native_group_norm_backward", groupNormBackward, alongGroupsBackward);
}

}  // namespace saker::ops
