// Operators that answer about a tensor with a number: from its type, or from its data, which only a run can.
#include "ops/families.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

void give(Infer& in, Int value) {
  in.result(in.context().types().scalar(ir::TypeKind::Int, value.in(in.context().symbols())));
}

void give(Infer& in, Bool value) {
  in.result(in.context().types().scalar(ir::TypeKind::Bool, value.in(in.context().symbols())));
}

size_t dimOf(const Infer& in, const TensorType& t) {
  if (t.rank == 0) refuse("a 0-d tensor has no dimensions");
  return static_cast<size_t>(wrapDim(in.fixed(1), t.rank));
}

void size(Infer& in) { give(in, in.tensor(0).size(dimOf(in, in.tensor(0)))); }
void stride(Infer& in) { give(in, in.tensor(0).stride(dimOf(in, in.tensor(0)))); }
void numberOfElements(Infer& in) { give(in, numel(in.tensor(0))); }
void storageOffset(Infer& in) { give(in, in.tensor(0).offset); }

void isContiguousIn(Infer& in) {
  give(in, Bool(isContiguous(in.tensor(0), in.memoryFormat(1).value_or(MemoryFormat::Contiguous))));
}

void isSameSize(Infer& in) {
  const TensorType &a = in.tensor(0), &b = in.tensor(1);
  Bool same = a.rank == b.rank;
  for (size_t i = 0; i < a.rank && a.rank == b.rank; ++i) same = same & (a.size(i) == b.size(i));
  give(in, same);
}

void readsData(Infer&) { refuse(Reason::DataDependent, "the answer is in the data"); }

// No result; what they check is in the data.
void checksData(Infer& in) {
  if (numel(in.tensor(0)) != Int(1)) refuse("only a tensor of one element is true or false");
}

void checksScalar(Infer& in) {
  Scalar value = in.scalar(0);
  if (value.known && value.number == 0 && value.kind != Scalar::Kind::Complex) refuse("the assertion does not hold");
}

void checksDataInOrder(Infer& in) {
  const TensorType& token = in.tensor(in.argCount() - 1);
  if (const TensorType* condition =
          in.op().parsed.arguments[0].type.base == ir::SchemaType::Base::Tensor ? in.optionalTensor(0) : nullptr;
      condition && numel(*condition) != Int(1)) {
    refuse("only a tensor of one element is true or false");
  }
  TensorSpec spec = in.viewOf(token);
  spec.strides = denseStridesLike(token);
  spec.offset = 0;
  in.result(spec);
}

// What a program promises about a number that no one has seen yet.
void constrainsRange(Infer& in) {
  Scalar value = in.scalar(0);
  if (!value.known) return;
  if (in.given(1) && value.number < in.number(1)) refuse("the number is below the range it was promised to be in");
  if (in.given(2) && value.number > in.number(2)) refuse("the number is above the range it was promised to be in");
}

void checksMetadata(Infer& in) {
  const TensorType& a = in.tensor(0);
  if (in.given(1) && !sameSizes(a.sizes(), in.ints(1))) refuse("the tensor does not have the asserted sizes");
  if (in.given(2) && !sameSizes(a.strides(), in.ints(2))) refuse("the tensor does not have the asserted strides");
  if (in.given(3) && a.dtype != in.dtype(3)) refuse("the tensor does not have the asserted dtype");
  if (in.given(4) && a.device != in.device(4)) refuse("the tensor is not on the asserted device");
  if (in.given(5) && a.layout != in.layout(5)) refuse("the tensor does not have the asserted layout");
}

void prints(Infer&) {}

}  // namespace

void addQueries(Rows& rows) {
  auto add = [&](const char* schema, InferFn rule, uint32_t traits = kNone) {
    rows.push_back({schema, rule, Cost::View, traits});
  };
  add("aten::sym_size.int(Tensor self, int dim) -> SymInt", size);
  add("aten::sym_stride.int(Tensor self, int dim) -> SymInt", stride);
  add("aten::sym_numel(Tensor self) -> SymInt", numberOfElements);
  add("aten::sym_storage_offset(Tensor self) -> SymInt", storageOffset);
  add("aten::sym_is_contiguous(Tensor self, MemoryFormat memory_format=0) -> SymBool", isContiguousIn);
  add("aten::is_same_size(Tensor self, Tensor other) -> bool", isSameSize);

  add("aten::_local_scalar_dense(Tensor self) -> Scalar", readsData, kDataDependent);
  add("aten::item(Tensor self) -> Scalar", readsData, kDataDependent);
  add("aten::is_nonzero(Tensor self) -> bool", readsData, kDataDependent);
  add("aten::equal(Tensor self, Tensor other) -> bool", readsData, kDataDependent);
  add("aten::allclose(Tensor self, Tensor other, float rtol=1.0000000000000001e-05, float atol=1e-08, bool "
      "equal_nan=False) -> bool",
      readsData, kDataDependent);

  add("aten::_assert_async(Tensor self) -> ()", checksData, kEffect | kFailsOnData);
  add("aten::_assert_async.msg(Tensor self, str assert_msg) -> ()", checksData, kEffect | kFailsOnData);
  add("saker::expect(Tensor self, bool truth) -> ()", checksData, kEffect | kFailsOnData);
  add("saker::expect.number(float number) -> ()", prints, kEffect | kFailsOnData);
  add("aten::_print(str s) -> ()", prints, kEffect);
  add("aten::_functional_assert_async.msg(Tensor self, str assert_msg, Tensor dep_token) -> Tensor", checksDataInOrder,
      kFailsOnData);
  add("aten::_assert_scalar(Scalar self, str assert_msg) -> ()", checksScalar, kEffect | kFailsOnData);
  add("aten::_functional_assert_scalar(Scalar self, str assert_msg, Tensor dep_token) -> Tensor", checksDataInOrder,
      kFailsOnData);
  add("aten::_assert_tensor_metadata(Tensor a, SymInt[]? size=None, SymInt[]? stride=None, ScalarType? dtype=None, *, "
      "Device? device=None, Layout? layout=None) -> ()",
      checksMetadata);
  for (std::string name : {"sym_constrain_range", "sym_constrain_range_for_size"}) {
    rows.push_back({"aten::" + name + "(Scalar size, *, int? min=None, int? max=None) -> ()", constrainsRange,
                    Cost::View, kEffect});
  }
}

}  // namespace saker::ops
