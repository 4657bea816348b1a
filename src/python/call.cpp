// The one file that includes torch's large header of Python conversions.
#include "python/call.h"

#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/python_arg_parser.h>

namespace saker::python {

namespace {

// Some operators take a Python number for a tensor.
bool takesNumbers(const c10::FunctionSchema& schema) {
  std::string_view name = schema.name();
  if (name.starts_with("prims::")) return true;
  return name.starts_with("aten::") && torch::should_allow_numbers_as_tensors(std::string(name.substr(6)));
}

}  // namespace

c10::OperatorHandle findOperator(py::handle op) {
  std::string name = py::isinstance<py::str>(op) ? py::cast<std::string>(op) : py::cast<std::string>(op.attr("name")());
  std::string overload;
  if (size_t dot = name.find('.', name.find("::") == std::string::npos ? 0 : name.find("::"));
      dot != std::string::npos) {
    overload = name.substr(dot + 1);
    name.resize(dot);
  }
  std::optional<c10::OperatorHandle> handle = c10::Dispatcher::singleton().findSchema({name, overload});
  if (!handle) throw py::key_error("no operator " + name + (overload.empty() ? "" : "." + overload));
  return *handle;
}

namespace {

// torch 2.11 does not survive its own message about this.
void requireArguments(const c10::FunctionSchema& schema, const py::args& args, const py::kwargs& kwargs) {
  for (size_t i = args.size(); i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (!argument.default_value() && !kwargs.contains(argument.name().c_str())) {
      throw py::type_error(schema.name() + "() is missing value for argument '" + argument.name() + "'");
    }
  }
}

}  // namespace

torch::jit::Stack makeStack(const c10::OperatorHandle& handle, const py::args& args, const py::kwargs& kwargs) {
  requireArguments(handle.schema(), args, kwargs);
  torch::jit::ToIValueAllowNumbersAsTensors numbers(takesNumbers(handle.schema()));
  try {
    return torch::jit::createStackForSchema(handle.schema(), torch::jit::tuple_slice(args), kwargs, std::nullopt);
  } catch (const torch::jit::schema_match_error& error) {
    throw py::type_error(error.what());
  }
}

}  // namespace saker::python
