// Reading and writing whole slices of one dimension, chosen by a vector of indices; and single elements by their
// number (take, put).
#include "ops/accept.h"
#include "ops/rows.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

bool isIndex(const TensorType& t) { return t.dtype == DType::Int32 || t.dtype == DType::Int64; }

// A copy in self's memory order, or self itself where it is written.
void copyOrSelf(Infer& in, const TensorType& self) {
  if (in.op().variant == Variant::Inplace) return in.result(self);
  TensorSpec spec = in.viewOf(self);
  spec.strides = denseStridesLike(self);
  spec.offset = 0;
  in.result(spec);
}

void requireDevice(const TensorType& a, const TensorType& b) {
  if (a.device != b.device) refuse("tensors on different devices");
}

void indexSelect(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2);
  int64_t dim = wrapDim(in.fixed(1), self.rank);
  requireDevice(self, index);
  if (index.rank > 1) refuse("the index must be a vector");
  if (!isIndex(index)) refuse("the index must be int or long");
  Dims sizes(self.sizes());
  if (self.rank > 0) {
    sizes[static_cast<size_t>(dim)] = numel(index);
  } else if (numel(index) != Int(1)) {
    refuse("a 0-d tensor takes one index");
  }
  in.contiguous(sizes, self);
}

// Sizes but the indexed one must agree; the index has as many elements as the source there.
void requireSlices(const TensorType& self, const TensorType& index, const TensorType& source, int64_t dim) {
  size_t at = static_cast<size_t>(dim);
  if (index.rank > 1) refuse("the index must be a vector");
  if (self.dtype != source.dtype) refuse("self and source are of different dtypes");
  requireDevice(self, index);
  requireDevice(self, source);
  if (at != 0 && at >= source.rank) refuse("the source lacks the indexed dimension");
  Int expected = source.rank == 0 ? Int(1) : source.size(at);
  if (numel(index) != expected) refuse("as many indices as slices of the source are needed");
  Dims a(self.sizes()), b(source.sizes());
  if (!a.empty() && !b.empty()) {
    a.erase(at);
    b.erase(at);
  }
  if (!sameSizes(a, b)) refuse("slices of self and source differ in size");
}

void indexAdd(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2), &source = in.tensor(3);
  int64_t dim = wrapDim(in.fixed(1), self.rank);
  if (!isIndex(index)) refuse("the index must be int or long");
  requireSlices(self, index, source, dim);
  require(in, kAll | kHalfComplex, self.dtype);
  in.contiguous(self.sizes(), self);
}

void indexReduce(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2), &source = in.tensor(3);
  int64_t dim = wrapDim(in.fixed(1), self.rank);
  std::string_view reduce = in.string(4);
  if (reduce != "prod" && reduce != "mean" && reduce != "amax" && reduce != "amin") refuse("an unknown reduction");
  if (!isIndex(index)) refuse("the index must be int or long");
  requireSlices(self, index, source, dim);
  if (reduce == "mean") require(in, kNumbers, self.dtype);
  if (reduce == "amax" || reduce == "amin") require(in, kBool | kReal, self.dtype);
  in.contiguous(self.sizes(), self);
}

void indexCopy(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2), &source = in.tensor(3);
  int64_t dim = wrapDim(in.fixed(1), self.rank);
  if (index.dtype != DType::Int64) refuse("the index must be long");
  if (source.rank != self.rank && source.rank != 0 && self.rank != 0) refuse("self and source differ in rank");
  requireSlices(self, index, source, dim);
  require(in, kAll | kHalfComplex, self.dtype);
  in.contiguous(self.sizes(), self);
}

void indexFill(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2);
  wrapDim(in.fixed(1), self.rank);
  if (index.dtype != DType::Int64) refuse("the index must be long");
  if (index.rank > 1) refuse("the index must be a vector");
  requireDevice(self, index);
  if (in.op().parsed.arguments[3].type.base == ir::SchemaType::Base::Tensor) {
    const TensorType& value = in.tensor(3);
    if (value.rank != 0) refuse("the value must be a 0-d tensor");
    if (ir::isComplex(value.dtype) && !ir::isComplex(self.dtype)) refuse("a complex value for a real tensor");
  } else {
    if (in.scalar(3).kind == Scalar::Kind::Complex && !ir::isComplex(self.dtype))
      refuse("a complex value for a real tensor");
    requireFits(in, 3, self.dtype);
  }
  require(in, kAll | kHalfComplex, self.dtype);
  copyOrSelf(in, self);  // which may be expanded: eager only warns
}

void take(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(1);
  if (index.dtype != DType::Int64) refuse("the index must be long");
  requireDevice(self, index);
  bool none = static_cast<bool>(numel(index) == Int(0));
  if (!none && numel(self) == Int(0)) refuse("nothing to take from");
  if (!none) require(in, kAll, self.dtype);
  in.contiguous(index.sizes(), self);
}

void put(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(1), &source = in.tensor(2);
  if (index.dtype != DType::Int64) refuse("the index must be long");
  if (self.dtype != source.dtype) refuse("self and source are of different dtypes");
  requireDevice(self, index);
  requireDevice(self, source);
  if (numel(index) != numel(source)) refuse("as many indices as elements of the source are needed");
  bool none = static_cast<bool>(numel(index) == Int(0));
  if (!none && numel(self) == Int(0)) refuse("nothing to put into");
  if (!none) require(in, kAll, self.dtype);
  if (in.op().variant == Variant::Inplace && hasInternalOverlap(self)) refuse("elements of self share an address");
  copyOrSelf(in, self);
}

}  // namespace

void addDimIndexing(Rows& rows) {
  addWithOut(rows, "aten::index_select(Tensor self, int dim, Tensor index) -> Tensor", indexSelect, Cost::Indexing,
             kFailsOnData);
  addWithOut(rows, "aten::take(Tensor self, Tensor index) -> Tensor", take, Cost::Indexing, kFailsOnData);

  // Structured operators: functional, in-place and out=.
  auto add = [&](const std::string& name, const std::string& arguments, InferFn rule, uint32_t traits) {
    traits |= kFailsOnData;
    bool keywords = arguments.find('*') != std::string::npos;
    rows.push_back({"aten::" + name + "(Tensor self, " + arguments + ") -> Tensor", rule, Cost::Indexing, traits});
    rows.push_back(
        {"aten::" + name + "_(Tensor(a!) self, " + arguments + ") -> Tensor(a!)", rule, Cost::Indexing, traits});
    rows.push_back({"aten::" + name + ".out(Tensor self, " + arguments + (keywords ? ", " : ", *, ") +
                        "Tensor(a!) out) -> Tensor(a!)",
                    rule, Cost::Indexing, traits | kExactOut});
  };
  std::string source = "int dim, Tensor index, Tensor source";
  // On CUDA, additions to one address come in any order.
  add("index_add", source + ", *, Scalar alpha=1", indexAdd, kNondeterministic);
  add("index_reduce", source + ", str reduce, *, bool include_self=True", indexReduce, kNondeterministic);
  add("index_copy", source, indexCopy, kNone);

  auto addCopying = [&](const std::string& name, const std::string& overload, const std::string& arguments,
                        InferFn rule, uint32_t traits) {
    addWithOut(rows, "aten::" + name + overload + "(Tensor self, " + arguments + ") -> Tensor", rule, Cost::Indexing,
               kFailsOnData | traits);
    rows.push_back({"aten::" + name + "_" + overload + "(Tensor(a!) self, " + arguments + ") -> Tensor(a!)", rule,
                    Cost::Indexing, kFailsOnData | kOwnWrites | traits});
  };
  addCopying("index_fill", ".int_Scalar", "int dim, Tensor index, Scalar value", indexFill, kNone);
  addCopying("index_fill", ".int_Tensor", "int dim, Tensor index, Tensor value", indexFill, kNone);
  addCopying("put", "", "Tensor index, Tensor source, bool accumulate=False", put, kNondeterministic);
}

}  // namespace saker::ops
