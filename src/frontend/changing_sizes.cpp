// Which sizes and numbers of a call become symbols: those that differ from a recording, all, or those that the user has
// marked, and whether what was recorded keeps to the marks.
#include <algorithm>

#include "frontend/dynamic.h"
#include "host/objects.h"

namespace saker::frontend {

size_t argumentCount(const CallArguments& call) {
  return call.positional + (call.names ? static_cast<size_t>(PyTuple_GET_SIZE(call.names)) : 0);
}

StandIn numberStandIn(size_t index, Path path, PyObject* number) {
  return {index, std::move(path), tensorAt(number), {0}, /*number=*/true, {}};
}

namespace {

bool isOrdinary(const at::Tensor& tensor) {
  return tensor.layout() == c10::kStrided && !tensor.is_nested() && tensor.has_storage() && !tensor.is_inference() &&
         !tensor.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         !tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::Python);
}

constexpr const char* kStatic = "_dynamo_static_indices";

// What mark_dynamic, maybe_mark_dynamic and mark_static leave on a tensor.
bool isMarked(PyObject* tensor, size_t dim, const char* mark) {
  PyObject* dict = instanceDict(tensor);
  PyObject* marked = dict && PyDict_GET_SIZE(dict) > 0 ? PyDict_GetItemString(dict, mark) : nullptr;
  if (!marked || !PyAnySet_Check(marked)) return false;
  Ref number = Ref::steal(PyLong_FromSize_t(dim));
  return PySet_Contains(marked, number.get()) == 1;
}

}  // namespace

std::vector<StandIn> changedSizes(const Segment& segment, const CallArguments& call) {
  if (call.positional != segment.guards.positional) return {};
  std::vector<StandIn> out;
  for (Guards::Argument& argument : segment.guards.tensorArguments()) {
    PyObject* object =
        argument.index < argumentCount(call) ? follow(call.values[argument.index], argument.path) : nullptr;
    if (!object) continue;  // held by what cannot be copied (a dict of a class of its own): it stays what it is
    if (!isTensor(object)) return {};
    const at::Tensor& tensor = tensorOf(object);
    const TensorShape& shape = *argument.shape;
    if (!isOrdinary(tensor) || tensor.dim() != static_cast<int64_t>(shape.sizes.size()) ||
        tensor.scalar_type() != shape.dtype || tensor.requires_grad() != shape.requiresGrad) {
      return {};
    }
    std::vector<size_t> dims;
    for (size_t i = 0; i < shape.sizes.size(); ++i) {
      bool was = std::find(shape.dynamic.begin(), shape.dynamic.end(), i) != shape.dynamic.end();
      int64_t size = tensor.sizes()[i];
      if (isMarked(object, i, kStatic)) continue;
      if (size >= 2 && (was || (shape.sizes[i] >= 2 && size != shape.sizes[i]))) dims.push_back(i);
    }
    if (!dims.empty()) out.push_back({argument.index, std::move(argument.path), tensor, std::move(dims), false, {}});
  }
  for (Guards::Number& argument : segment.guards.numberArguments()) {
    PyObject* number =
        argument.index < argumentCount(call) ? follow(call.values[argument.index], argument.path) : nullptr;
    if (!number || !isSize(number)) return {};
    if (argument.value && sameValue(argument.value, number)) continue;
    out.push_back(numberStandIn(argument.index, std::move(argument.path), number));
  }
  return out;
}

std::vector<StandIn> floatStandIns(const Guards& guards, const CallArguments& call,
                                   const std::set<std::string>& places) {
  std::vector<StandIn> out;
  if (call.positional != guards.positional) return out;
  for (Guards::FloatArgument& each : guards.floatArguments()) {
    PyObject* number = each.index < argumentCount(call) ? follow(call.values[each.index], each.path) : nullptr;
    if (!number || !PyFloat_CheckExact(number) || !places.contains(guards.expression(each.place))) continue;
    out.push_back(numberStandIn(each.index, std::move(each.path), number));
  }
  return out;
}

std::vector<StandIn> allSizes(const CallArguments& call) {
  std::vector<StandIn> out;
  for (size_t i = 0; i < argumentCount(call); ++i) {
    if (isSize(call.values[i])) out.push_back(numberStandIn(i, {}, call.values[i]));
    if (!isTensor(call.values[i])) continue;
    const at::Tensor& tensor = tensorOf(call.values[i]);
    if (!isOrdinary(tensor)) return {};
    std::vector<size_t> dims;
    for (size_t d = 0; d < static_cast<size_t>(tensor.dim()); ++d) {
      if (tensor.sizes()[d] >= 2 && !isMarked(call.values[i], d, kStatic)) dims.push_back(d);
    }
    if (!dims.empty()) out.push_back({i, {}, tensor, std::move(dims), false, {}});
  }
  return out;
}

std::vector<StandIn> markedSizes(const CallArguments& call) {
  std::vector<StandIn> out;
  for (size_t i = 0; i < argumentCount(call); ++i) {
    if (!isTensor(call.values[i])) continue;
    const at::Tensor& tensor = tensorOf(call.values[i]);
    std::vector<size_t> dims;
    for (size_t d = 0; isOrdinary(tensor) && d < static_cast<size_t>(tensor.dim()); ++d) {
      bool marked = isMarked(call.values[i], d, "_dynamo_dynamic_indices") ||
                    isMarked(call.values[i], d, "_dynamo_weak_dynamic_indices");
      if (marked && tensor.sizes()[d] >= 2) dims.push_back(d);
    }
    if (!dims.empty()) out.push_back({i, {}, tensor, std::move(dims), false, {}});
  }
  return out;
}

namespace {

// mark_dynamic(tensor, dim, min=..., max=...): does the size lie outside?
bool leavesRange(PyObject* tensor, size_t dim, int64_t size) {
  PyObject* dict = instanceDict(tensor);
  PyObject* ranges = dict ? PyDict_GetItemString(dict, "_dynamo_dynamic_range") : nullptr;
  Ref all = Ref::steal(ranges && PyAnySet_Check(ranges) ? PySequence_Tuple(ranges) : nullptr);
  auto number = [](PyObject* range, const char* name, int64_t otherwise) {
    Ref value = Ref::steal(PyObject_GetAttrString(range, name));
    int64_t found = value && PyLong_Check(value.get()) ? PyLong_AsLongLong(value.get()) : otherwise;
    PyErr_Clear();
    return found;
  };
  bool leaves = false;
  for (Py_ssize_t i = 0; all && i < PyTuple_GET_SIZE(all.get()); ++i) {
    PyObject* range = PyTuple_GET_ITEM(all.get(), i);
    if (number(range, "dim", -1) != static_cast<int64_t>(dim)) continue;
    leaves |= size < number(range, "min", size) || size > number(range, "max", size);
  }
  PyErr_Clear();
  return leaves;
}

// Does what was recorded hold for this one size only?
bool isConstant(const Segment& segment, PyObject* tensor, size_t dim, const CallArguments& call) {
  const sym::Facts& facts = segment.program->context->symbols().facts();
  std::span<ir::Value* const> parameters = segment.program->graph->top()->parameters();
  for (size_t i = 0; i < segment.program->sources.size(); ++i) {
    const runtime::Source& source = segment.program->sources[i];
    if (source.kind != runtime::Source::Kind::Argument) continue;
    uint32_t place = segment.inputs[source.argument];
    bool here = false;
    for (const GuardInstruction& at : segment.guards.instructions) {
      if (at.place != place || at.op > GuardOp::Keyword) continue;
      size_t index = static_cast<size_t>(at.number) + (at.op == GuardOp::Keyword ? call.positional : 0);
      here |= call.values[index] == tensor;
    }
    const ir::TensorType* type = here ? parameters[i]->tensor() : nullptr;
    if (!type || dim >= type->rank) continue;
    sym::Int size = type->size(dim);
    if (size.isConst() || facts.rangeOf(size.node()).isExact()) return true;
  }
  return false;
}

bool raiseMark(size_t index, size_t dim, const std::string& what) {
  Ref module = Ref::steal(PyImport_ImportModule("saker.errors"));
  Ref type = module ? Ref::steal(PyObject_GetAttrString(module.get(), "CaptureError")) : Ref();
  if (!type) return false;
  std::string text = "dimension " + std::to_string(dim) + " of argument " + std::to_string(index) +
                     " is marked by torch._dynamo.mark_dynamic, but " + what +
                     "; remove the mark, or use torch._dynamo.maybe_mark_dynamic";
  Ref error = Ref::steal(PyObject_CallFunction(type.get(), "ss", "Unsupported", text.c_str()));
  if (error) PyErr_SetObject(type.get(), error.get());
  return false;
}

}  // namespace

bool checkMarks(const CallArguments& call, const std::vector<StandIn>& left, const Segment* segment) {
  for (size_t i = 0; i < argumentCount(call); ++i) {
    if (!isTensor(call.values[i])) continue;
    const at::Tensor& tensor = tensorOf(call.values[i]);
    for (size_t d = 0; isOrdinary(tensor) && d < static_cast<size_t>(tensor.dim()); ++d) {
      if (!isMarked(call.values[i], d, "_dynamo_dynamic_indices")) continue;
      int64_t size = tensor.sizes()[d];
      std::string is = "its size is " + std::to_string(size);
      if (leavesRange(call.values[i], d, size)) return raiseMark(i, d, is + ", which is outside of the range it gives");
      if (size < 2) continue;  // recordings are made for 0 and 1 alone
      auto holds = [&](const StandIn& each) {
        return each.index == i && std::find(each.dims.begin(), each.dims.end(), d) != each.dims.end();
      };
      bool stays = std::any_of(left.begin(), left.end(), holds);
      bool fixed = !stays || (segment && isConstant(*segment, call.values[i], d, call));
      if (fixed) return raiseMark(i, d, "the function fixes it to " + std::to_string(size));
    }
  }
  return true;
}

}  // namespace saker::frontend
