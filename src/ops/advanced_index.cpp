// Advanced indexing: several dimensions by tensors of indices at once. The indexed dimensions become one block that
// has the broadcast shape of the indices; it stands where they stood if they were neighbours, in front otherwise.
// The memory order of the result is that of an elementwise operator over the restrided source and the indices.
#include "ops/accept.h"
#include "ops/elementwise.h"
#include "ops/families.h"
#include "ops/geometry.h"

namespace saker::ops {

namespace {

// Sizes and strides that exist for this computation only.
struct Standin {
  TensorType type;
  SmallVec<Int, 12> dims;

  void set(const TensorType& like, const Dims& sizes, const Dims& strides) {
    dims.clear();
    dims.append(sizes);
    dims.append(strides);
    type = like;
    type.rank = static_cast<uint32_t>(sizes.size());
    type.dims = dims.data();
    type.offset = 0;
  }
};

bool isMask(const TensorType& t) { return t.dtype == DType::Bool || t.dtype == DType::UInt8; }

struct Indexing {
  Tensors indices;      // by dimension of self; nullptr: all of it
  bool masked = false;  // a mask stands among them: how much it selects is not known
  bool onlyMask = false;
};

// Checks the kinds and gives each dimension of self its index. A mask takes as many dimensions as it has.
Indexing readIndices(const Infer& in, const TensorType& self, size_t at) {
  Indexing out;
  Tensors given = in.tensors(at);
  if (given.empty()) refuse("at least one index is needed");
  int masks = 0, others = 0;
  for (const TensorType* index : given) {
    if (!index) {
      out.indices.push_back(nullptr);
    } else if (isMask(*index)) {
      ++masks;
      for (size_t i = 0; i < index->rank; ++i) {
        size_t dim = out.indices.size();
        if (dim >= self.rank || (!index->size(i).same(self.size(dim)) && index->size(i) != self.size(dim))) {
          refuse("a mask does not have the sizes of what it masks");
        }
        out.indices.push_back(index);
      }
      // A mask without dimensions adds one.
      if (index->rank == 0) unsupported("a 0-d mask as an index");
    } else {
      if (index->dtype != DType::Int64 && index->dtype != DType::Int32)
        refuse("indices must be long, int, byte or bool");
      if (index->device != self.device && index->device.type != DeviceType::CPU) refuse("indices on another device");
      ++others;
      out.indices.push_back(index);
    }
  }
  if (out.indices.size() > self.rank) refuse("too many indices");
  if (given.size() > self.rank) refuse("too many indices");
  out.masked = masks > 0;
  out.onlyMask = masks == 1 && others == 0;
  while (out.indices.size() < self.rank) out.indices.push_back(nullptr);
  return out;
}

bool areNeighbours(const Tensors& indices) {
  size_t first = indices.size(), last = 0, count = 0;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    if (count++ == 0) first = i;
    last = i;
  }
  return count == 0 || last - first + 1 == count;
}

struct Shape {
  Standin source;  // self with the indexed dimensions replaced: stride 0 over the block
  size_t before = 0, after = 0;
  Dims block;
};

// The result's shape, from indices that are not masks.
void shapeOf(const TensorType& self, const Tensors& indices, Shape& out) {
  bool first = true, emptySource = false;
  for (size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    out.block = first ? Dims(indices[i]->sizes()) : broadcast(out.block, indices[i]->sizes());
    first = false;
    emptySource |= static_cast<bool>(self.size(i) == Int(0));
  }
  if (emptySource && ir::numel(out.block) != Int(0)) refuse("an index into a dimension of size 0");
  Dims sizes, strides;
  auto addBlock = [&] {
    sizes.append(out.block);
    strides.resize(sizes.size(), 0);
  };
  bool neighbours = areNeighbours(indices), placed = false;
  if (!neighbours) {
    addBlock();
    placed = true;
  }
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i]) {
      if (!placed) addBlock();
      placed = true;
      continue;
    }
    ++(placed ? out.after : out.before);
    sizes.push_back(self.size(i));
    strides.push_back(self.stride(i));
  }
  out.source.set(self, sizes, strides);
}

// An index seen in the result's shape: broadcast to the block, of size 1 elsewhere, as a reshape would give it strides.
void placeIndex(const TensorType& index, const Shape& shape, Standin& out) {
  Dims strides(shape.block.size());
  size_t missing = shape.block.size() - index.rank;
  for (size_t i = 0; i < index.rank; ++i) {
    Int size = index.size(i), whole = shape.block[missing + i];
    strides[missing + i] = size.same(whole) || size == whole ? index.stride(i) : Int(0);
  }
  if (index.dtype == DType::Int32) {  // converted to long at this point, which makes a broadcast index dense
    out.set(index, shape.block, strides);
    strides = denseStridesLike(out.type);
  }
  Dims placed;
  placed.resize(shape.before, 1);
  placed.append(shape.block);
  placed.resize(placed.size() + shape.after, 1);
  std::optional<Dims> placedStrides = viewStrides(shape.block, strides, placed);
  SAKER_CHECK(placedStrides, "dimensions of size 1 can be added to any tensor");
  out.set(index, placed, *placedStrides);
}

// CUDA's kernel wants all indices to lie in memory alike; where they do not, it makes them row-major.
void unifyStrides(std::span<Standin> indices) {
  bool alike = true;
  for (const Standin& index : indices) alike &= sameSizes(index.type.strides(), indices[0].type.strides());
  if (alike) return;
  for (Standin& index : indices) {
    if (isContiguous(index.type)) continue;
    Dims sizes(index.type.sizes());
    index.set(TensorType(index.type), sizes, ir::contiguousStrides(sizes));
  }
}

// Without any index there is nothing to compute, which eager notices only where there are elements.
void requireNothingThere(const TensorType& self) {
  if (numel(self) != Int(0)) refuse("at least one index is needed");
}

TensorSpec indexed(const Infer& in, const TensorType& self, size_t at) {
  Indexing given = readIndices(in, self, at);
  if (given.masked) refuse(Reason::DataDependent, "how many elements a mask selects depends on its data");
  Shape shape;
  shapeOf(self, given.indices, shape);
  std::array<Standin, 8> placed;
  Tensors operands;
  operands.push_back(&shape.source.type);
  size_t count = 0;
  for (const TensorType* index : given.indices) {
    if (!index) continue;
    if (count == placed.size()) unsupported("more than eight indices");
    placeIndex(*index, shape, placed[count]);
    placed[count].type.device = self.device;
    operands.push_back(&placed[count++].type);
  }
  if (count == 0) requireNothingThere(self);
  if (self.device.type == DeviceType::CUDA && count > 1) unifyStrides(std::span(placed).first(count));
  Elementwise result = elementwise(operands);
  TensorSpec spec;
  spec.dtype = self.dtype;
  spec.device = self.device;
  spec.sizes = result.sizes;
  spec.strides = result.strides;
  return spec;
}

void index(Infer& in) { in.result(indexed(in, in.tensor(0), 1)); }

// Elements outside a mask are filled instead of read; the result is row-major.
void maskedIndex(Infer& in) {
  const TensorType &self = in.tensor(0), &mask = in.tensor(1);
  require(in, kAll | kHalfComplex, self.dtype);
  TensorSpec spec = indexed(in, self, 2);
  requireFits(in, 3, self.dtype);
  in.contiguous(broadcast(spec.sizes, mask.sizes()), self);
}

void copyOrSelf(Infer& in, const TensorType& self) {
  if (in.op().variant == Variant::Inplace) return in.result(self);  // expanded ones too: eager only warns
  TensorSpec spec = in.viewOf(self);
  spec.strides = denseStridesLike(self);
  spec.offset = 0;
  in.result(spec);
}

void checkPut(const Infer& in, const TensorType& self, size_t indicesAt, const TensorType& values, bool accumulate) {
  Indexing given = readIndices(in, self, indicesAt);
  bool single = values.device.type == DeviceType::CPU && numel(values) == Int(1);
  if (given.onlyMask && single && !accumulate) {  // a masked fill
    require(in, kAll | kHalfComplex, self.dtype);
    if (ir::isComplex(values.dtype) && !ir::isComplex(self.dtype)) unsupported("a complex value for a real tensor");
    return;
  }
  if (values.dtype != self.dtype) refuse("self and values are of different dtypes");
  if (values.device != self.device && !(single && values.rank == 0)) refuse("self and values are on different devices");
  bool none = true;
  for (const TensorType* index : given.indices) none &= !index;
  if (none) requireNothingThere(self);
  if (self.dtype == DType::Float8E8M0FNU) refuse("index_put is not implemented for f8e8m0fnu");
  require(in, kAll | kHalfComplex | kFloat8 | (accumulate ? 0 : kBComplex), self.dtype);
  if (given.masked) return;  // whether the values fit depends on data
  Shape shape;
  shapeOf(self, given.indices, shape);
  requireExpandable(values.sizes(), shape.source.type.sizes());
}

void indexPut(Infer& in) {
  const TensorType& self = in.tensor(0);
  checkPut(in, self, 1, in.tensor(2), in.boolean(3));
  copyOrSelf(in, self);
}

void maskedIndexPut(Infer& in) {
  const TensorType& self = in.tensor(0);
  if (numel(self) != Int(0)) {
    const TensorType &mask = in.tensor(1), &values = in.tensor(3);
    broadcast(mask.sizes(), values.sizes());
  }
  copyOrSelf(in, self);
}

}  // namespace

void addAdvancedIndexing(Rows& rows) {
  // With a mask the shape of the result depends on data.
  auto read = [&](const char* schema, InferFn rule) {
    rows.push_back({schema, rule, Cost::Indexing, kFailsOnData | kDynamicShape});
  };
  read("aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index);
  read("aten::index.Tensor_out(Tensor self, Tensor?[] indices, *, Tensor(a!) out) -> Tensor(a!)", index);
  read("aten::_unsafe_index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", index);
  read("aten::_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor", maskedIndex);

  auto write = [&](const char* schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({schema, rule, Cost::Indexing, kFailsOnData | kNondeterministic | traits});
  };
  write("aten::index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor", indexPut);
  write("aten::index_put_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor(a!)",
        indexPut, kOwnWrites);
  write(
      "aten::index_put.out(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, *, Tensor(a!) out) -> "
      "Tensor(a!)",
      indexPut, kCopiedOut);
  write("aten::_unsafe_index_put(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False) -> Tensor",
        indexPut);
  write(
      "aten::_index_put_impl(Tensor self, Tensor?[] indices, Tensor values, bool accumulate=False, bool unsafe=False) "
      "-> "
      "Tensor",
      indexPut);
  write(
      "aten::_index_put_impl_(Tensor(a!) self, Tensor?[] indices, Tensor values, bool accumulate=False, bool "
      "unsafe=False) -> Tensor(a!)",
      indexPut, kOwnWrites);
  write(
      "aten::_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor",
      maskedIndexPut);
}

}  // namespace saker::ops
