#include "python/results.h"

#include <torch/csrc/DynamicTypes.h>

#include "aten/enums.h"
#include "ir/schema.h"
#include "ops/functional_form.h"
#include "ops/operator.h"

namespace saker::python {

namespace {

py::object toPython(const aten::SharedContext& context, sym::Int value) {
  return value.isConst() ? py::object(py::int_(value.constant())) : py::cast(aten::toSymInt(context, value));
}

py::tuple toPython(const aten::SharedContext& context, std::span<const sym::Int> values) {
  py::tuple result(values.size());
  for (size_t i = 0; i < values.size(); ++i) result[i] = toPython(context, values[i]);
  return result;
}

std::string_view kindName(ir::TypeKind kind) {
  switch (kind) {
    case ir::TypeKind::Tensor:
      return "tensor";
    case ir::TypeKind::Int:
      return "int";
    case ir::TypeKind::Bool:
      return "bool";
    case ir::TypeKind::Float:
      return "float";
    case ir::TypeKind::Complex:
      return "complex";
    case ir::TypeKind::Scalar:
      return "scalar";
    case ir::TypeKind::String:
      return "string";
    case ir::TypeKind::DType:
      return "dtype";
    case ir::TypeKind::Device:
      return "device";
    case ir::TypeKind::Layout:
      return "layout";
    case ir::TypeKind::MemoryFormat:
      return "memory_format";
    case ir::TypeKind::None:
      return "none";
    case ir::TypeKind::List:
      return "list";
    case ir::TypeKind::Optional:
      return "optional";
    case ir::TypeKind::Opaque:
      return "opaque";
  }
  return "";
}

std::string_view variantName(ops::Variant variant) {
  switch (variant) {
    case ops::Variant::Functional:
      return "functional";
    case ops::Variant::Inplace:
      return "inplace";
    case ops::Variant::Out:
      return "out";
    case ops::Variant::View:
      return "view";
  }
  return "";
}

struct TraitName {
  ops::Trait trait;
  const char* name;
};
constexpr TraitName kTraitNames[] = {
    {ops::kRandom, "random"},
    {ops::kFailsOnData, "fails_on_data"},
    {ops::kDataDependent, "data_dependent"},
    {ops::kDynamicShape, "dynamic_shape"},
    {ops::kMayAlias, "may_alias"},
    {ops::kOwnWrites, "own_writes"},
    {ops::kExactOut, "exact_out"},
    {ops::kReadsState, "reads_state"},
    {ops::kEffect, "effect"},
    {ops::kNondeterministic, "nondeterministic"},
};

// torch 2.11's pybind casters have none for layouts.
py::object layoutObject(ir::Layout layout) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPLayout(aten::fromLayout(layout))));
}

}  // namespace

py::tuple toPython(const aten::SharedContext& context, const ir::Type* type) {
  const ir::TensorType* tensor = ir::asTensor(type);
  if (!tensor) return py::make_tuple(kindName(type->kind));
  return py::make_tuple("tensor", aten::fromDType(tensor->dtype), toPython(context, tensor->sizes()),
                        toPython(context, tensor->strides()), toPython(context, tensor->offset),
                        aten::fromDevice(tensor->device), layoutObject(tensor->layout), bool{tensor->flags.conj},
                        bool{tensor->flags.neg});
}

// Can kernels be made of it: of what it computes, of what it writes, or of what it does to each item of its lists?
static bool isGenerated(const ops::Operator& op) {
  const ops::Operator* one = op.item ? op.item() : &op;
  if (one && one->writes) one = ops::functionalForm(*one).op;
  return one && one->element;
}

py::list operatorTable() {
  py::list table;
  for (const ops::Operator* op : ops::all()) {
    if (op->bodies) continue;  // branches and loops are in graphs only: no one calls them
    py::dict entry;
    entry["name"] = op->qualified;
    entry["schema"] = ir::toString(op->parsed);
    entry["cost"] = ops::name(op->cost);
    entry["variant"] = variantName(op->variant);
    entry["generated"] = isGenerated(*op);
    py::list traits;
    for (const TraitName& known : kTraitNames) {
      if (op->has(known.trait)) traits.append(known.name);
    }
    entry["traits"] = traits;
    py::list writes;
    for (size_t i = 0; i < op->parsed.arguments.size(); ++i) {
      if (op->writesArgument(i)) writes.append(op->parsed.arguments[i].name);
    }
    entry["writes"] = writes;
    table.append(entry);
  }
  return table;
}

}  // namespace saker::python
