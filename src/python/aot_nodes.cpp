// The nodes of compiled functions as Python sees them: by a class that has their name.
#include <torch/csrc/autograd/python_cpp_function.h>

#include "aot/backward.h"
#include "aot/view_node.h"
#include "host/subclass_nodes.h"
#include "python/aot_call.h"

namespace saker::python {

void nameAotNodes() {
  static PyTypeObject type;
  torch::autograd::_initFunctionPyTypeObject(type, aot::kBackwardName, nullptr, nullptr);
  torch::autograd::registerCppFunction(typeid(aot::Backward), &type);
  torch::autograd::registerCppFunction(aot::entryType(), &type);
  torch::autograd::registerCppFunction(aot::exitType(), &type);
  torch::autograd::registerCppFunction(aot::viewNodeType(), &type);
  nameSubclassNodes();
}

}  // namespace saker::python
