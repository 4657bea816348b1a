#include "frontend/execute.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

#include "capture/errors.h"
#include "frontend/compiled.h"
#include "frontend/host_call.h"
#include "frontend/wrapped.h"
#include "python/foreign_results.h"
#include "python/host.h"

namespace saker::frontend {

namespace {

namespace py = pybind11;

// Casts are in the graph.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

std::vector<at::Tensor> runRecording(const runtime::Program& program, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> out;
  for (c10::IValue& value : runtime::run(program, inputs)) out.push_back(std::move(value).toTensor());
  return out;
}

Executor recording(const std::shared_ptr<runtime::Program>& program) {
  return [program](const std::vector<at::Tensor>& inputs) {
    NoAutocast casts;
    py::gil_scoped_release released;
    return runRecording(*program, inputs);
  };
}

Executor aheadOfTime(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs) {
  NoAutocast casts;
  auto callee = [&](const std::vector<at::Tensor>& standIns) {
    return aot::Returned{runRecording(*program, standIns)};
  };
  autograd::PartitionOptions options;
  options.strategy = autograd::Strategy::MinCut;
  auto compiled =
      std::make_shared<aot::CompiledFunction>(aot::captureJoint(python::pythonHost(), inputs, {}, callee), options);
  return [compiled, program](const std::vector<at::Tensor>& given) {
    NoAutocast casts;
    py::gil_scoped_release released;
    std::optional<std::vector<at::Tensor>> results = (*compiled)(given);
    // Where autograd refuses a write, the operator that writes is to raise the error.
    return results ? std::move(*results) : runRecording(*program, given);
  };
}

// A callable of Python's, held until no thread runs it any more.
Executor backend(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                 const py::object& maker) {
  py::list examples;
  for (const at::Tensor& input : inputs) examples.append(py::cast(input));
  auto made = std::shared_ptr<py::object>(new py::object(maker(program, examples)), [](py::object* object) {
    py::gil_scoped_acquire gil;
    delete object;
  });
  // PyTorch hands tensors that stand for numbers to Python as numbers.
  python::ForeignResults expected(*program->graph, "backend", 0, program->results);
  expected.allowNumbers();
  return [made, expected](const std::vector<at::Tensor>& given) {
    NoAutocast casts;
    c10::AutoGradMode kept(c10::GradMode::is_enabled());  // also where it raises in the middle
    NumbersOfPython numbers;
    py::list list;
    for (const at::Tensor& tensor : given) list.append(py::cast(tensor));
    return expected.take((*made)(list));
  };
}

}  // namespace

Executor makeExecutor(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                      const ExecutorOptions& options) {
  if (options.undone && (!options.backend.is_none() || !options.ahead || options.wraps || !program->differentiable)) {
    return nullptr;
  }
  if (!options.backend.is_none()) return backend(program, inputs, options.backend);
  if (options.ahead && (options.wraps || std::any_of(inputs.begin(), inputs.end(), isWrapper))) {
    return backend(program, inputs, py::module_::import("saker._wrapped").attr("make"));
  }
  // Without gradients there is nothing to do ahead of time: the recording is what would run.
  if (!options.ahead || !program->differentiable) return recording(program);
  try {
    return aheadOfTime(program, inputs);
  } catch (const tracing::CaptureError&) {
    // What cannot be captured ahead (hooks, say) still runs as it was recorded.
  } catch (const python_error&) {
    PyErr_Clear();
  } catch (const py::error_already_set&) {
  } catch (const aot::NotAheadOfTime&) {
  } catch (const aot::CallFailed&) {
    PyErr_Clear();
  } catch (const std::exception& error) {
    tellInternalFailure(error.what(), "the gradients of a function ahead of time");
  }
  return options.undone ? nullptr : recording(program);
}

}  // namespace saker::frontend
