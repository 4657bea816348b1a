// Back ends that are written in Python.
#pragma once

#include <ATen/core/Tensor.h>
#include <Python.h>

#include <functional>
#include <memory>
#include <vector>

#include "runtime/program.h"

namespace saker {

// What `maker(program, example inputs)` gives, as a function that must be called with the interpreter's lock held. Its
// results are checked against the graph.
std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> makeBackend(
    const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs, PyObject* maker);

// The function that makes what runs programs on tensors made of others.
PyObject* wrapperBackend();

}  // namespace saker
