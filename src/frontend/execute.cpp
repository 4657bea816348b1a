#include "frontend/execute.h"

#include <c10/core/GradMode.h>

#include <algorithm>

#include "aot/number_inputs.h"
#include "aot/pipeline.h"
#include "capture/errors.h"
#include "frontend/casts_around.h"
#include "frontend/compiled.h"
#include "frontend/host_call.h"
#include "frontend/open_functions.h"
#include "frontend/wrapped.h"
#include "host/backend.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/trace_host.h"
#include "runtime/shown.h"
#include "runtime/single_call.h"

namespace saker::frontend {

namespace {

std::vector<at::Tensor> runRecording(const runtime::Program& program, const std::vector<at::Tensor>& inputs) {
  std::vector<c10::IValue> results = runtime::run(program, inputs, /*guarded=*/true);
  std::vector<at::Tensor> out;
  out.reserve(results.size());
  for (c10::IValue& value : results) out.push_back(std::move(value).toTensor());
  return out;
}

Executor recording(const std::shared_ptr<runtime::Program>& program) {
  return [program](const std::vector<at::Tensor>& inputs) {
    NoAutocast casts;
    ReleaseInterpreter released;
    return runRecording(*program, inputs);
  };
}

void addExact(const aot::CompiledFunction& compiled, Made& made) {
  std::vector<bool> exact = compiled.exactOffsets();
  for (size_t i = 0; i < made.exactOffsets.size(); ++i) made.exactOffsets[i] = made.exactOffsets[i] || exact[i];
}

// Of a program that computes with numbers of Python's.
Executor graphsOfNumbers(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                         Made& made, passes::Stages& stages) {
  NoAutocast casts;
  std::optional<aot::NumberInputs> numbers = aot::NumberInputs::takenOutOf(*program, inputs);
  std::optional<std::vector<at::Tensor>> examples = numbers ? numbers->with(inputs) : std::nullopt;
  if (!examples) throw aot::NotAheadOfTime(Why::NumberIsData);
  std::shared_ptr<aot::CompiledFunction> compiled = aot::compile(pythonHost(), *numbers->program(), *examples, stages);
  made.compiled = compiled;
  addExact(*compiled, made);
  return [compiled, program, numbers = std::move(*numbers)](const std::vector<at::Tensor>& given) {
    NoAutocast casts;
    ReleaseInterpreter released;
    std::optional<std::vector<at::Tensor>> all = numbers.with(given);
    std::optional<std::vector<at::Tensor>> results = all ? (*compiled)(std::move(*all)) : std::nullopt;
    return results ? std::move(*results) : runRecording(*program, given);
  };
}

Executor compiledGraphs(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                        Made& made, passes::Stages& stages) {
  NoAutocast casts;
  std::shared_ptr<aot::CompiledFunction> compiled = aot::compile(pythonHost(), *program, inputs, stages);
  made.compiled = compiled;
  addExact(*compiled, made);
  return [compiled, program](const std::vector<at::Tensor>& given) {
    NoAutocast casts;
    ReleaseInterpreter released;
    std::optional<std::vector<at::Tensor>> results = (*compiled)(given);
    // Where autograd refuses a write, the operator that writes is to raise the error.
    return results ? std::move(*results) : runRecording(*program, given);
  };
}

// Of an error that the program raised on stand-ins; it is cleared.
std::string textOf(const std::exception_ptr& cause) {
  std::string text;
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    text = error.what();
    clearPythonError();
  } catch (...) {
    text = "an error";
  }
  return text.substr(0, text.find('\n'));
}

// Does autograd follow any of its operators? The step of an optimizer writes to parameters where gradients are off.
bool followsAny(const runtime::Program& program) {
  for (const ir::Node* node = program.graph->top()->first(); node; node = node->next()) {
    if (!node->isReturn() && !node->attributes().noGrad) return true;
  }
  return false;
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

Made makeExecutor(const std::shared_ptr<runtime::Program>& program, const std::vector<at::Tensor>& inputs,
                  const ExecutorOptions& options) {
  if (options.backend) {
    if (options.undone) return {};
    return {backend(program, inputs, options.backend.get()), {}, {}, {}, std::vector<bool>(inputs.size(), true)};
  }
  Made made;
  made.exactOffsets.resize(inputs.size());
  std::vector<bool> placed = runtime::placedParameters(*program->graph);
  for (size_t i = 0; i < placed.size(); ++i) {
    const runtime::Source& source = program->sources[i];
    bool closed = source.kind == runtime::Source::Kind::Closed;
    if (placed[i] && !closed) made.exactOffsets[source.argument] = true;
  }
  bool numbers = options.numbers || std::any_of(inputs.begin(), inputs.end(), aot::isNumberInput);
  // Without gradients there is nothing to do ahead of time: the recording is what would run. Nor is there where
  // autograd has one small operator to follow.
  bool wanted = options.ahead && program->differentiable && followsAny(*program);
  bool wraps = options.wraps || std::any_of(inputs.begin(), inputs.end(), isWrapper);
  wanted = wanted && (numbers || wraps || options.undone || options.instead || !runtime::isSingle(*program));
  made.instead = wanted ? options.instead : std::nullopt;
  if (wanted && !made.instead && !program->gradAround) made.instead = Why::TurnsGradOn;
  if (options.ahead && !options.instead && wraps) {
    if (options.undone && options.wraps) return {};
    if (wanted) made.instead = Why::WrapsTensors;
    made.run = backend(program, inputs, Ref::steal(wrapperBackend()).get());
    made.exactOffsets.assign(inputs.size(), true);
    return made;
  }
  if (wanted && !made.instead) {
    passes::Stages stages;
    try {
      made.run =
          numbers ? graphsOfNumbers(program, inputs, made, stages) : compiledGraphs(program, inputs, made, stages);
    } catch (const aot::NotAheadOfTime& refused) {
      made.instead = refused.why;
    } catch (const tracing::CaptureError& refused) {  // hooks, say
      made.instead = Stop(Why::NotTraced, refused.what());
    } catch (const aot::CallFailed& failed) {
      made.instead = Stop(Why::NotTraced, textOf(failed.cause));
    } catch (const std::exception& error) {
      made.instead = Stop(Why::NotTraced, error.what());
      if (!clearPythonError()) tellInternalFailure(error.what(), "the gradients of a function ahead of time");
    }
    made.stages = stages.runs();
  }
  if (!made.run && !options.undone) made.run = recording(program);
  if (made.run && wanted && options.functions && program->gradAround) {
    made.run = openingFunctions(program, std::move(made.run), made.exactOffsets);
  }
  return made;
}

}  // namespace saker::frontend
