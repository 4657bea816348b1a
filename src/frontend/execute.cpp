#include "frontend/execute.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>

#include "aot/retrace.h"
#include "capture/errors.h"
#include "frontend/compiled.h"
#include "frontend/host_call.h"
#include "frontend/wrapped.h"
#include "host/backend.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/trace_host.h"
#include "runtime/shown.h"
#include "symbolic/context.h"

namespace saker::frontend {

namespace {

// Casts are in the graph.
struct NoAutocast {
  c10::impl::ExcludeDispatchKeyGuard guard{c10::autocast_dispatch_keyset};
};

std::vector<at::Tensor> runRecording(const runtime::Program& program, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> out;
  for (c10::IValue& value : runtime::run(program, inputs, /*guarded=*/true)) out.push_back(std::move(value).toTensor());
  return out;
}

Executor recording(const std::shared_ptr<runtime::Program>& program) {
  return [program](const std::vector<at::Tensor>& inputs) {
    NoAutocast casts;
    ReleaseInterpreter released;
    return runRecording(*program, inputs);
  };
}

// Sizes of arguments that are symbols.
std::vector<tracing::DynamicSize> changingSizes(const runtime::Program& program) {
  std::vector<tracing::DynamicSize> out;
  std::span<ir::Value* const> parameters = program.graph->top()->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ir::TensorType* type = parameters[i]->tensor();
    if (program.sources[i].kind != runtime::Source::Kind::Argument || !type || !type->symbolic) continue;
    for (size_t d = 0; d < type->rank; ++d) {
      const sym::Node* size = type->size(d).node();
      if (!size || !size->isSymbol()) continue;
      out.push_back({program.sources[i].argument, d, program.context->symbols().symbolOf(size).name});
    }
  }
  return out;
}

// What a backward that cannot be captured asked of sizes is of no interest.
class Facts {
 public:
  explicit Facts(ir::Context& context) : context_(context), before_(context.symbols().checkpoint()) {}
  ~Facts() {
    if (before_) context_.symbols().rollback(*before_);
  }
  Facts(const Facts&) = delete;
  Facts& operator=(const Facts&) = delete;
  void keep() { before_.reset(); }

 private:
  ir::Context& context_;
  std::optional<sym::Context::Checkpoint> before_;
};

Executor aheadOfTime(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs) {
  NoAutocast casts;
  aot::JointOptions capturing;
  capturing.dynamic = changingSizes(*program);
  bool symbolic = !capturing.dynamic.empty();
  if (symbolic) capturing.context = program->context;
  std::vector<bool> written = runtime::writtenParameters(*program->graph);
  capturing.writesNone = std::find(written.begin(), written.end(), true) == written.end();
  auto callee = [&](const std::vector<at::Tensor>& standIns) {
    return aot::Returned{symbolic ? aot::retrace(*program, *tracing::current(), standIns)
                                  : runRecording(*program, standIns)};
  };
  autograd::PartitionOptions options;
  options.strategy = autograd::Strategy::MinCut;
  Facts facts(*program->context);
  auto compiled =
      std::make_shared<aot::CompiledFunction>(aot::captureJoint(pythonHost(), inputs, callee, capturing), options);
  facts.keep();
  return [compiled, program](const std::vector<at::Tensor>& given) {
    NoAutocast casts;
    ReleaseInterpreter released;
    std::optional<std::vector<at::Tensor>> results = (*compiled)(given);
    // Where autograd refuses a write, the operator that writes is to raise the error.
    return results ? std::move(*results) : runRecording(*program, given);
  };
}

Executor backend(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                 PyObject* maker) {
  return [run = makeBackend(program, inputs, maker)](const std::vector<at::Tensor>& given) {
    NoAutocast casts;
    c10::AutoGradMode kept(c10::GradMode::is_enabled());  // also where it raises in the middle
    NumbersOfPython numbers;
    return run(given);
  };
}

}  // namespace

Executor makeExecutor(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                      const ExecutorOptions& options) {
  if (options.undone && (options.backend || !options.ahead || options.wraps || !program->differentiable)) {
    return nullptr;
  }
  if (options.backend) return backend(program, inputs, options.backend.get());
  if (options.ahead && (options.wraps || std::any_of(inputs.begin(), inputs.end(), isWrapper))) {
    return backend(program, inputs, Ref::steal(wrapperBackend()).get());
  }
  // Without gradients there is nothing to do ahead of time: the recording is what would run.
  if (!options.ahead || !program->differentiable) return recording(program);
  try {
    return aheadOfTime(program, inputs);
  } catch (const tracing::CaptureError&) {
    // What cannot be captured ahead (hooks, say) still runs as it was recorded.
  } catch (const aot::NotAheadOfTime&) {
  } catch (const aot::CallFailed&) {
    PyErr_Clear();
  } catch (const std::exception& error) {
    if (!setPythonError()) tellInternalFailure(error.what(), "the gradients of a function ahead of time");
    PyErr_Clear();
  }
  return options.undone ? nullptr : recording(program);
}

}  // namespace saker::frontend
