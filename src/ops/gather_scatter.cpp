// Reading and writing at indices along one dimension, an index for each element.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

// A 0-d tensor counts as one of size 1.
int64_t rankOf(const TensorType& t) { return t.rank == 0 ? 1 : t.rank; }
Int sizeOf(const TensorType& t, int64_t dim) { return t.rank == 0 ? Int(1) : t.size(static_cast<size_t>(dim)); }

bool isIndex(const TensorType& t) { return t.dtype == DType::Int32 || t.dtype == DType::Int64; }

// All of `small` but `dim` lies within `large`.
void requireWithin(const TensorType& small, const TensorType& large, int64_t except) {
  if (rankOf(small) != rankOf(large)) refuse("tensors of different numbers of dimensions");
  for (int64_t i = 0; i < rankOf(small); ++i) {
    Int a = sizeOf(small, i), b = sizeOf(large, i);
    if (i != except && !a.same(b) && a > b) refuse("the index is larger than the tensor it is for");
  }
}

void requireDevice(const TensorType& a, const TensorType& b) {
  if (a.device != b.device) refuse("tensors on different devices");
}

void gather(Infer& in) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2);
  int64_t dim = wrapDim(in.fixed(1), self.rank);
  requireDevice(self, index);
  if (numel(index) != Int(0)) {
    if (!isIndex(index)) refuse("the index must be int or long");
    requireWithin(index, self, dim);
    require(in, kAll, self.dtype);
  }
  in.contiguous(index.sizes(), self);
}

enum class From { Source, Number };

// What all scatters check. `dtypes`: those with a kernel.
template <From from>
bool checkScatter(const Infer& in, uint8_t dtypes) {
  const TensorType &self = in.tensor(0), &index = in.tensor(2);
  int64_t dim = wrapDim(in.fixed(1), self.rank);
  requireDevice(self, index);
  bool empty = static_cast<bool>(numel(index) == Int(0));
  if (!empty && !isIndex(index)) refuse("the index must be int or long");
  if constexpr (from == From::Source) {
    const TensorType& source = in.tensor(3);
    if (self.dtype != source.dtype) refuse("self and src are of different dtypes");
    requireDevice(self, source);
    if (!empty) requireWithin(index, source, -1);
  }
  if (empty) return false;
  requireWithin(index, self, dim);
  require(in, dtypes, self.dtype);
  if constexpr (from == From::Number) requireFits(in, 3, self.dtype);
  return true;
}

template <From from>
void scatter(Infer& in) {
  checkScatter<from>(in, kAll);
  in.contiguous(in.tensor(0).sizes(), in.tensor(0));
}

template <From from>
void scatterOld(Infer& in) {
  std::string_view reduce = in.string(4);
  if (reduce != "add" && reduce != "multiply") refuse("reduce must be add or multiply");
  scatter<from>(in);
}

void scatterReduce(Infer& in) {
  std::string_view reduce = in.string(4);
  uint8_t dtypes = kAll;
  if (reduce == "mean")
    dtypes = kNumbers;
  else if (reduce == "amax" || reduce == "amin")
    dtypes = kBool | kReal;
  else if (reduce != "sum" && reduce != "prod")
    refuse("reduce must be sum, prod, mean, amax or amin");
  checkScatter<From::Source>(in, dtypes);
  in.contiguous(in.tensor(0).sizes(), in.tensor(0));
}

}  // namespace

void addGathersAndScatters(Rows& rows) {
  auto add = [&](const std::string& name, const std::string& overload, const std::string& arguments, InferFn rule,
                 uint32_t traits) {
    traits |= kFailsOnData;
    std::string dot = overload.empty() ? "" : "." + overload, out = overload.empty() ? ".out" : "." + overload + "_out";
    bool keywords = arguments.find('*') != std::string::npos;
    rows.push_back(
        {"aten::" + name + dot + "(Tensor self, " + arguments + ") -> Tensor", rule, Cost::Indexing, traits});
    rows.push_back({"aten::" + name + "_" + dot + "(Tensor(a!) self, " + arguments + ") -> Tensor(a!)", rule,
                    Cost::Indexing, traits});
    rows.push_back({"aten::" + name + out + "(Tensor self, " + arguments + (keywords ? ", " : ", *, ") +
                        "Tensor(a!) out) -> Tensor(a!)",
                    rule, Cost::Indexing, traits | kExactOut});
  };
  rows.push_back({"aten::gather(Tensor self, int dim, Tensor index, *, bool sparse_grad=False) -> Tensor", gather,
                  Cost::Indexing, kFailsOnData});
  rows.push_back(
      {"aten::gather.out(Tensor self, int dim, Tensor index, *, bool sparse_grad=False, Tensor(a!) out) -> "
       "Tensor(a!)",
       gather, Cost::Indexing, kFailsOnData | kExactOut});
  std::string source = "int dim, Tensor index, Tensor src", number = "int dim, Tensor index, Scalar value";
  // On CUDA, additions to one address come in any order.
  add("scatter", "src", source, scatter<From::Source>, kNone);
  add("scatter", "value", number, scatter<From::Number>, kNone);
  add("scatter", "reduce", source + ", *, str reduce", scatterOld<From::Source>, kNondeterministic);
  add("scatter", "value_reduce", number + ", *, str reduce", scatterOld<From::Number>, kNondeterministic);
  add("scatter_add", "", source, scatter<From::Source>, kNondeterministic);
  add("scatter_reduce", "two", source + ", str reduce, *, bool include_self=True", scatterReduce, kNondeterministic);
}

}  // namespace saker::ops
