// Rows of a table chosen by indices, single or reduced in bags.
#include "ops/accept.h"
#include "ops/rows.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

void requireIndices(const TensorType& indices) {
  if (indices.dtype != DType::Int64 && indices.dtype != DType::Int32) refuse("indices must be int or long");
}

void embedding(Infer& in) {
  const TensorType &weight = in.tensor(0), &indices = in.tensor(1);
  if (weight.rank != 2) refuse("the weight must be a matrix");
  requireIndices(indices);
  if (weight.device != indices.device) refuse("tensors on different devices");
  Dims sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  in.contiguous(sizes, weight);
}

void embeddingBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &indices = in.tensor(1);
  requireIndices(indices);
  if (gradient.rank == 0) refuse("the gradient lacks the dimension of features");
  Int features = gradient.size(gradient.rank - 1);
  Int expected = numel(indices) * features, found = numel(gradient);
  if (!expected.same(found) && expected != found) refuse("the gradient does not fit the indices");
  require(in, kAll | kHalfComplex, gradient.dtype);
  Dims sizes = {in.integer(2), features};
  requireSizes(sizes);
  in.contiguous(sizes, gradient);
}

void embeddingRenorm(Infer& in) {
  const TensorType &self = in.tensor(0), &indices = in.tensor(1);
  if (self.rank != 2) refuse("the weight must be a matrix");
  requireIndices(indices);
  if (numel(indices) != Int(0)) require(in, kFloating | kHalfComplex, self.dtype);
  if (in.op().variant == Variant::Inplace) return in.result(self);
  TensorSpec spec = in.viewOf(self);
  spec.strides = denseStridesLike(self);
  spec.offset = 0;
  in.result(spec);
}

enum Mode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

// weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx
void embeddingBag(Infer& in) {
  const TensorType &weight = in.tensor(0), &indices = in.tensor(1), &offsets = in.tensor(2);
  const TensorType* perSample = in.optionalTensor(6);
  int64_t mode = in.fixed(4, kSum);
  bool includeLast = in.boolean(7);
  if (weight.rank != 2) refuse("the weight must be a matrix");
  if (indices.rank != 1 || offsets.rank != 1) refuse("indices and offsets must be vectors");
  if (mode != kSum && mode != kMean && mode != kMax) refuse("an unknown mode");
  requireIndices(indices);
  requireIndices(offsets);
  require(in, kFloats, weight.dtype);
  if (weight.device != indices.device || weight.device != offsets.device) refuse("tensors on different devices");
  if (includeLast && offsets.size(0) < Int(1)) refuse("include_last_offset needs at least one offset");
  if (perSample) {
    if (mode != kSum) refuse("weights per sample only for sums");
    if (perSample->dtype != weight.dtype) refuse("weights per sample must have the weight's dtype");
    if (perSample->rank != 1 || perSample->size(0) != indices.size(0)) refuse("one weight per sample is needed");
  }
  DType indexType = indices.dtype == offsets.dtype ? indices.dtype : DType::Int64;
  Int bags = includeLast ? offsets.size(0) - Int(1) : offsets.size(0);
  Dims perBag = {bags}, perIndex = {indices.size(0)}, output = {bags, weight.size(1)};
  Device device = weight.device;
  in.contiguous(output, weight);
  if (device.type == DeviceType::CPU) {
    // Sums over rows that lie in memory one after the other need no map from index to bag.
    bool fast = mode == kSum && weight.dtype != DType::Float64 && weight.stride(1) == Int(1) &&
                in.integer(8, -1) < Int(0) && (!perSample || perSample->stride(0) == Int(1)) && output[1] > Int(0);
    Dims none = {Int(0)};
    in.contiguous(fast ? none : perIndex, indexType, device);
    // The sizes of bags are not counted where no gradient and no mean needs them.
    Dims counted = perBag;
    if (mode == kSum && in.op().parsed.name == "aten::_embedding_bag_forward_only") counted[0] = offsets.size(0);
    in.contiguous(counted, indexType, device);
    in.contiguous(mode == kMax ? output : counted, indexType, device);
  } else {
    unsupported("the results of embedding_bag on other devices than the CPU");
  }
}

void embeddingBagBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &indices = in.tensor(1);
  bool dense = in.op().parsed.arguments[2].name == "offset2bag";
  if (!dense && in.boolean(9)) unsupported("a sparse gradient");
  requireIndices(indices);
  if (gradient.rank != 2) refuse("the gradient must be a matrix");
  require(in, kFloats, gradient.dtype);
  Dims sizes = {in.integer(dense ? 5 : 6), gradient.size(1)};
  requireSizes(sizes);
  in.contiguous(sizes, gradient);
}

void embeddingBagWeightsBackward(Infer& in) {
  const TensorType &gradient = in.tensor(0), &indices = in.tensor(2);
  if (in.fixed(5) != kSum) refuse("weights per sample only for sums");
  requireIndices(indices);
  require(in, kFloats, gradient.dtype);
  if (indices.rank != 1 || gradient.rank != 2 || in.tensor(1).rank != 2) refuse("tensors of wrong ranks");
  in.contiguous(indices.sizes(), gradient);
}

}  // namespace

void addEmbeddings(Rows& rows) {
  addWithOut(
      rows,
      "aten::embedding(Tensor weight, Tensor indices, SymInt padding_idx=-1, bool scale_grad_by_freq=False, bool "
      "sparse=False) -> Tensor",
      embedding, Cost::Indexing, kFailsOnData);
  addWithOut(
      rows,
      "aten::embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
      "bool scale_grad_by_freq) -> Tensor",
      embeddingBackward, Cost::Indexing, kFailsOnData | kNondeterministic);
  rows.push_back(
      {"aten::embedding_renorm_(Tensor(a!) self, Tensor indices, float max_norm, float norm_type) -> Tensor(a!)",
       embeddingRenorm, Cost::Indexing, kFailsOnData | kOwnWrites});
  addWithOut(rows, "aten::embedding_renorm(Tensor self, Tensor indices, float max_norm, float norm_type) -> Tensor",
             embeddingRenorm, Cost::Indexing, kFailsOnData);
  for (std::string name : {"_embedding_bag", "_embedding_bag_forward_only"}) {
    rows.push_back(
        {"aten::" + name +
             "(Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool "
             "sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, int "
             "padding_idx=-1) -> (Tensor, Tensor, Tensor, Tensor)",
         embeddingBag, Cost::Indexing, kFailsOnData});
  }
  rows.push_back(
      {"aten::_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, Tensor offset2bag, Tensor "
       "bag_size, Tensor maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, bool sparse, "
       "Tensor? per_sample_weights, int padding_idx=-1) -> Tensor",
       embeddingBagBackward, Cost::Indexing, kFailsOnData | kNondeterministic});
  addWithOut(
      rows,
      "aten::_embedding_bag_dense_backward(Tensor grad, Tensor indices, Tensor offset2bag, Tensor bag_size, Tensor "
      "maximum_indices, SymInt num_weights, bool scale_grad_by_freq, int mode, Tensor? per_sample_weights, int "
      "padding_idx=-1) -> Tensor",
      embeddingBagBackward, Cost::Indexing, kFailsOnData | kNondeterministic);
  addWithOut(
      rows,
      "aten::_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, Tensor offsets, "
      "Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor",
      embeddingBagWeightsBackward, Cost::Indexing, kFailsOnData);
}

}  // namespace saker::ops
