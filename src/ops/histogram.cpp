// Histograms over one dimension and several. Without a range the data gives it, and may not have a finite one.
#include <cmath>

#include "ops/accept.h"
#include "ops/families.h"
#include "ops/reduce.h"

namespace saker::ops {

namespace {

void requireReal(const TensorType& self) {
  if (self.device.type != DeviceType::CPU) refuse("histograms are computed on the CPU");
  if (!accepts(kFull, self.dtype)) refuse("histograms of float32 or float64");
}

// A pair of limits for each dimension.
void requireRange(const Infer& in, size_t argument, size_t dims) {
  if (!in.given(argument)) return;
  if (!in.arg(argument).isList()) unsupported("a histogram's range is not known");
  std::span<const Arg> limits = in.arg(argument).toList();
  if (limits.size() != 2 * dims) refuse("a histogram's range: two limits for each dimension");
  for (size_t i = 0; i < limits.size(); i += 2) {
    if (limits[i].kind() != Arg::Kind::Float || limits[i + 1].kind() != Arg::Kind::Float) continue;
    double low = limits[i].toFloat(), high = limits[i + 1].toFloat();
    if (!std::isfinite(low) || !std::isfinite(high) || low > high) refuse("a histogram's range is not one");
  }
}

void requireWeight(const TensorType& self, const TensorType* weight) {
  if (weight && weight->dtype != self.dtype) refuse("a histogram's weights have another dtype");
}

// (self, bins, *, range, weight, density): edges are made
void histogram(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType* weight = in.optionalTensor(3);
  requireReal(self);
  requireRange(in, 2, 1);
  requireWeight(self, weight);
  if (weight && numel(*weight) != numel(self)) refuse("a weight for each element");
  Int bins = in.integer(1, 100);
  if (bins < Int(1)) refuse("a histogram of no bins");
  in.contiguous(Dims{bins}, self);
  in.contiguous(Dims{bins + Int(1)}, self);
}

void requireEdges(const TensorType& self, const TensorType* edges) {
  if (!edges || edges->rank != 1) refuse("a histogram's edges are a vector");
  if (edges->dtype != self.dtype) refuse("a histogram's edges have another dtype");
  if (edges->size(0) < Int(2)) refuse("a histogram of no bins");
}

// (self, bins, *, weight, density): edges are given
void histogramOfEdges(Infer& in) {
  const TensorType& self = in.tensor(0);
  const TensorType& edges = in.tensor(1);
  const TensorType* weight = in.optionalTensor(2);
  requireReal(self);
  requireEdges(self, &edges);
  requireWeight(self, weight);
  if (weight && numel(*weight) != numel(self)) refuse("a weight for each element");
  in.contiguous(Dims{edges.size(0) - Int(1)}, self);
  in.contiguous(edges.sizes(), self);
}

size_t dimensions(const TensorType& self, size_t bins) {
  requireReal(self);
  if (self.rank < 2) refuse("histogramdd takes rows of coordinates");
  if (self.size(self.rank - 1) != Int(bins)) refuse("histogramdd: bins for each coordinate");
  return bins;
}

void requirePointWeights(const TensorType& self, const TensorType* weight) {
  requireWeight(self, weight);
  if (weight && !sameSizes(weight->sizes(), self.sizes().first(self.rank - 1))) refuse("a weight for each point");
}

// (self, bins, *, range, weight, density) -> Tensor[]
void binEdges(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims bins = in.ints(1);
  requireRange(in, 2, dimensions(self, bins.size()));
  requirePointWeights(self, in.optionalTensor(3));
  for (Int count : bins) {
    if (count < Int(0)) refuse("a histogram of less than no bins");
    in.contiguous(Dims{count + Int(1)}, self);
  }
}

void fromCounts(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims bins = in.ints(1);
  requireRange(in, 2, dimensions(self, bins.size()));
  requirePointWeights(self, in.optionalTensor(3));
  for (Int count : bins) {
    if (count < Int(1)) refuse("a histogram of no bins");
  }
  in.contiguous(bins, self);
}

// (self, bins, *, weight, density)
void fromEdges(Infer& in) {
  const TensorType& self = in.tensor(0);
  Tensors edges = in.tensors(1);
  dimensions(self, edges.size());
  requirePointWeights(self, in.optionalTensor(2));
  Dims sizes;
  for (const TensorType* list : edges) {
    requireEdges(self, list);
    sizes.push_back(list->size(0) - Int(1));
  }
  in.contiguous(sizes, self);
}

}  // namespace

void addHistograms(Rows& rows) {
  auto add = [&](const std::string& schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({"aten::" + schema, rule, Cost::Library, kFailsOnData | traits});
  };
  add("histogram.bin_ct(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False)"
      " -> (Tensor hist, Tensor bin_edges)",
      histogram);
  add("histogram.bins_tensor(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False)"
      " -> (Tensor hist, Tensor bin_edges)",
      histogramOfEdges);
  add("histogram.bin_ct_out(Tensor self, int bins=100, *, float[]? range=None, Tensor? weight=None, bool density=False,"
      " Tensor(a!) hist, Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)",
      histogram, kExactOut);
  add("histogram.bins_tensor_out(Tensor self, Tensor bins, *, Tensor? weight=None, bool density=False, Tensor(a!) hist,"
      " Tensor(b!) bin_edges) -> (Tensor(a!) hist, Tensor(b!) bin_edges)",
      histogramOfEdges, kExactOut);
  add("_histogramdd_bin_edges(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None, bool density=False)"
      " -> Tensor[]",
      binEdges);
  add("_histogramdd_from_bin_cts(Tensor self, int[] bins, *, float[]? range=None, Tensor? weight=None,"
      " bool density=False) -> Tensor",
      fromCounts);
  add("_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, *, Tensor? weight=None, bool density=False) -> Tensor",
      fromEdges);
}

}  // namespace saker::ops
