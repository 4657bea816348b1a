// Operators that give a tensor other sizes or another storage.
#include "ops/families.h"
#include "ops/geometry.h"

namespace saker::ops {

namespace {

void resizeTo(TensorSpec& spec, IntSpan sizes, std::optional<MemoryFormat> format) {
  requireSizes(sizes);
  // Without a format, a tensor that has these sizes already keeps its strides.
  if (!format && sameSizes(spec.sizes, sizes)) return;
  spec.sizes = Dims(sizes);
  spec.strides = stridesIn(sizes, format.value_or(MemoryFormat::Contiguous));
}

void resize(Infer& in) {
  TensorSpec spec(in.tensor(0));
  resizeTo(spec, in.ints(1), in.memoryFormat(2));
  in.result(spec);
}

void resizeAs(Infer& in) {
  TensorSpec spec(in.tensor(0));
  const TensorType& like = in.tensor(1);
  std::optional<MemoryFormat> format = in.memoryFormat(2);
  if (format == MemoryFormat::Preserve) format = suggestMemoryFormat(like);
  resizeTo(spec, like.sizes(), format);
  in.result(spec);
}

void setEmpty(Infer& in) {
  TensorSpec spec(in.tensor(0));
  spec.sizes = {Int(0)};
  spec.strides = {Int(1)};
  spec.offset = 0;
  in.result(spec);
}

void setTensor(Infer& in) {
  TensorSpec spec(in.tensor(0));
  const TensorType& source = in.tensor(1);
  if (spec.dtype != source.dtype || spec.device != source.device) {
    unsupported("set_ to a tensor of another dtype or device");
  }
  spec.sizes = Dims(source.sizes());
  spec.strides = Dims(source.strides());
  spec.offset = source.offset;
  in.result(spec);
}

}  // namespace

void addResizes(Rows& rows) {
  auto add = [&](const char* schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({schema, rule, Cost::View, kOwnWrites | kSetsStorage | traits});
  };
  add("aten::resize_(Tensor(a!) self, SymInt[] size, *, MemoryFormat? memory_format=None) -> Tensor(a!)", resize);
  add("aten::resize_as_(Tensor(a!) self, Tensor the_template, *, MemoryFormat? memory_format=None) -> Tensor(a!)",
      resizeAs);
  // Afterwards the tensor is another memory: none, or that of the source.
  add("aten::set_(Tensor(a!) self) -> Tensor(a!)", setEmpty, kMayAlias);
  add("aten::set_.source_Tensor(Tensor(a!) self, Tensor source) -> Tensor(a!)", setTensor, kMayAlias);
}

}  // namespace saker::ops
