// What most files of src/frontend include of CPython and PyTorch, parsed once. Files still name what they use. pybind11
// is not among it: whoever includes that compiles parts of it anew in each file.
#pragma once
#include <Python.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>
