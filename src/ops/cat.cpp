// Joining tensors, and repeating one.
#include "ops/cat.h"

#include "ops/elementwise.h"
#include "ops/factory.h"
#include "ops/geometry.h"
#include "ops/own_size.h"
#include "ops/promote.h"
#include "ops/rows.h"

namespace saker::ops {

namespace {

// An old way to write "no tensor yet"; cat still skips it.
bool isSkipped(const TensorType& t) { return t.rank == 1 && t.size(0) == Int(0); }

// The format all inputs suggest, or contiguous if they differ.
MemoryFormat commonFormat(std::span<const TensorType* const> tensors) {
  std::optional<MemoryFormat> common;
  for (const TensorType* t : tensors) {
    MemoryFormat format = suggestMemoryFormat(*t);
    if (format == MemoryFormat::Contiguous || (common && *common != format)) return MemoryFormat::Contiguous;
    common = format;
  }
  return common.value_or(MemoryFormat::Contiguous);
}

void requireOneDevice(std::span<const TensorType* const> tensors) {
  for (const TensorType* t : tensors) {
    if (t->device != tensors[0]->device) refuse("the tensors are on different devices");
  }
}

Tensors definedTensors(const Infer& in, size_t i) {
  Tensors tensors = in.tensors(i);
  for (const TensorType* t : tensors) {
    if (!t) refuse("None among the tensors");
  }
  return tensors;
}

}  // namespace

TensorSpec concatenated(const Infer& in, std::span<const TensorType* const> tensors, int64_t dim) {
  if (tensors.empty()) refuse("nothing to concatenate");
  const TensorType* first = nullptr;
  for (const TensorType* t : tensors) {
    if (t->rank == 0) refuse("a 0-d tensor cannot be concatenated");
    if (!first && !isSkipped(*t)) first = t;
  }
  requireOneDevice(tensors);
  TensorSpec spec;
  spec.dtype = resultType(in.context(), tensors);
  spec.device = tensors[0]->device;
  MemoryFormat format = commonFormat(tensors);
  if (!first) {
    spec.sizes = {Int(0)};
  } else {
    size_t along = static_cast<size_t>(wrapDim(dim, first->rank));
    spec.sizes = Dims(first->sizes());
    Int total = 0;
    for (const TensorType* t : tensors) {
      if (isSkipped(*t)) continue;
      if (t->rank != first->rank) refuse("tensors of different numbers of dimensions");
      for (size_t i = 0; i < t->rank; ++i) {
        if (i != along && !t->size(i).same(first->size(i)) && t->size(i) != first->size(i)) {
          refuse("sizes differ at dimension " + std::to_string(i) + ": " + sym::toString(first->size(i)) + " and " +
                 sym::toString(t->size(i)));
        }
      }
      total += t->size(along);
    }
    spec.sizes[along] = total;
  }
  spec.strides = stridesIn(spec.sizes, format);
  return spec;
}

namespace {

void cat(Infer& in) {
  Tensors tensors = definedTensors(in, 0);
  in.result(concatenated(in, tensors, in.fixed(1, 0)));
}

// In front of a dimension, what is stacked is one long concatenation seen with a dimension more; behind the last
// one each input gets a new dimension first. The memory format of the result follows from that.
void stack(Infer& in) {
  Tensors tensors = definedTensors(in, 0);
  if (tensors.empty()) refuse("nothing to stack");
  const TensorType& first = *tensors[0];
  int64_t dim = wrapDim(in.fixed(1, 0), static_cast<int64_t>(first.rank) + 1);
  for (const TensorType* t : tensors) {
    if (!sameSizes(t->sizes(), first.sizes())) refuse("stacked tensors must have equal sizes");
  }
  if (dim < static_cast<int64_t>(first.rank)) {
    TensorSpec spec = concatenated(in, tensors, dim);
    Dims sizes(first.sizes());
    sizes.insert(static_cast<size_t>(dim), Int(tensors.size()));
    std::optional<Dims> strides = viewStrides(spec.sizes, spec.strides, sizes);
    SAKER_CHECK(strides, "a dimension can always be split in two");
    spec.sizes = sizes;
    spec.strides = *strides;
    return in.result(spec);
  }
  for (const TensorType*& t : tensors) {
    TensorSpec spec(*t);
    spec.sizes.push_back(1);
    spec.strides.push_back(1);
    t = in.context().types().tensor(spec);
  }
  in.result(concatenated(in, tensors, dim));
}

// Each tensor on its own rows and columns.
void blockDiagonal(Infer& in) {
  Tensors tensors = definedTensors(in, 0);
  if (tensors.empty()) {
    Dims none = {Int(1), Int(0)};
    const ir::Ambient& ambient = in.context().ambient();
    return in.contiguous(none, ambient.defaultDType, ambient.defaultDevice);
  }
  requireOneDevice(tensors);
  Dims sizes = {Int(0), Int(0)};
  for (const TensorType* t : tensors) {
    if (t->rank > 2) refuse("blocks have at most two dimensions");
    sizes[0] += t->rank == 2 ? t->size(0) : Int(1);
    sizes[1] += t->rank == 0 ? Int(1) : t->size(t->rank - 1);
  }
  in.contiguous(sizes, resultType(in.context(), tensors), tensors[0]->device);
}

// Leading dimensions flat, the chosen one cut in chunks (the last padded), all put beside each other.
void chunkCat(Infer& in) {
  Tensors tensors = definedTensors(in, 0);
  if (tensors.empty()) refuse("nothing to concatenate");
  int64_t dim = in.fixed(1);
  Int chunks = in.integer(2);
  if (chunks < Int(1)) refuse("at least one chunk is needed");
  const TensorType& first = *tensors[0];
  dim = wrapDim(dim, first.rank);
  Dims sizes;
  for (int64_t i = 0; i < dim; ++i) sizes.push_back(first.size(static_cast<size_t>(i)));
  Int width = 0;
  for (const TensorType* t : tensors) {
    if (t->rank == 0 || dim >= static_cast<int64_t>(t->rank)) refuse("a tensor lacks the dimension to be cut");
    if (t->dtype != first.dtype || t->device != first.device) refuse("tensors of different dtypes or devices");
    if (numel(*t) == Int(0)) refuse("a tensor without elements");
    for (int64_t i = 0; i < dim; ++i) {
      if (t->size(static_cast<size_t>(i)) != first.size(static_cast<size_t>(i))) refuse("leading sizes differ");
    }
    Int trailing = 1;
    for (size_t i = static_cast<size_t>(dim) + 1; i < t->rank; ++i) trailing *= t->size(i);
    width += ceilDiv(t->size(static_cast<size_t>(dim)), chunks) * trailing;
  }
  sizes.push_back(chunks);
  sizes.push_back(width);
  in.contiguous(sizes, first);
}

void repeat(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims sizes = in.ints(1);
  if (sizes.size() < self.rank) refuse("fewer repeats than dimensions");
  requireSizes(sizes);
  size_t added = sizes.size() - self.rank;
  for (size_t i = 0; i < self.rank; ++i) sizes[added + i] *= self.size(i);
  in.contiguous(sizes, self);
}

void repeatInterleave(Infer& in) {
  const TensorType& repeats = in.tensor(0);
  if (repeats.rank != 1) refuse("repeats must be a vector");
  if (repeats.dtype != DType::Int32 && repeats.dtype != DType::Int64) refuse("repeats must be int or long");
  Dims sizes = {Int(0)};
  if (repeats.size(0) != Int(0)) {
    sizes[0] = in.given(1) ? in.integer(1) : ownSize(in);  // the sum of the repeats
    requireSizes(sizes);
  }
  in.contiguous(sizes, repeats);
}

}  // namespace

void addCats(Rows& rows) {
  rows.push_back({"aten::cat(Tensor[] tensors, int dim=0) -> Tensor", cat, Cost::Indexing});
  // It raises where an input shares memory with out, which types do not tell.
  rows.push_back({"aten::cat.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)", cat, Cost::Indexing,
                  kFailsOnData});
  rows.push_back({"aten::stack(Tensor[] tensors, int dim=0) -> Tensor", stack, Cost::Indexing});
  rows.push_back(
      {"aten::stack.out(Tensor[] tensors, int dim=0, *, Tensor(a!) out) -> Tensor(a!)", stack, Cost::Indexing});
  addWithOut(rows, "aten::block_diag(Tensor[] tensors) -> Tensor", blockDiagonal, Cost::Indexing);
  addWithOut(rows, "aten::_chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor", chunkCat, Cost::Indexing);
  addWithOut(rows, "aten::repeat(Tensor self, SymInt[] repeats) -> Tensor", repeat, Cost::Indexing);
  addWithOut(rows, "aten::repeat_interleave.Tensor(Tensor repeats, *, SymInt? output_size=None) -> Tensor",
             repeatInterleave, Cost::Indexing, kDynamicShape | kFailsOnData);
}

}  // namespace saker::ops
