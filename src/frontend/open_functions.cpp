#include "frontend/open_functions.h"

#include <algorithm>
#include <atomic>

#include "aot/pipeline.h"
#include "capture/errors.h"
#include "capture/user_code.h"
#include "frontend/casts_around.h"
#include "frontend/execute.h"
#include "frontend/log.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/trace_host.h"
#include "watch/ref.h"

namespace saker::frontend {

namespace {

// What happens to Functions on this thread.
enum class Way : uint8_t {
  Plain,    // they are called
  Studied,  // and written down
  Opened,   // what was written down is run, forward and backward
  Again,    // their forward is run as it was written down; autograd calls their backward
};
thread_local Way way = Way::Plain;

class Scope {
 public:
  explicit Scope(Way now) : before_(std::exchange(way, now)) {}
  ~Scope() { way = before_; }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  Way before_;
};

PyObject* module() {
  static PyObject* const found = PyImport_ImportModule("saker._functions");
  return found;
}

bool says(PyObject* study, const char* method) {
  Ref answer = Ref::steal(PyObject_CallMethod(study, method, nullptr));
  if (!answer) throwPythonError();
  return PyObject_IsTrue(answer.get()) == 1;
}

class Opening {
 public:
  Opening(std::shared_ptr<runtime::Program> program, Executor plainly, std::vector<bool> exact)
      : program_(std::move(program)), plainly_(std::move(plainly)), exact_(std::move(exact)) {
    for (const c10::IValue& object : program_->objects) {
      if (c10::intrusive_ptr<HostCall> call = hostCallIn(object)) calls_.push_back(std::move(call));
    }
  }

  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) {
    if (refused_) return plainly_(inputs);
    if (!compiled_ && isKnown()) compile(inputs);
    if (compiled_ && forwardsHold()) {
      std::optional<std::vector<at::Tensor>> results = runCompiled(inputs);
      if (results) return std::move(*results);
    }
    if (compiled_ || refused_ || !isTurn()) return plainly_(inputs);
    Scope studied(Way::Studied);
    return plainly_(inputs);
  }

 private:
  // Calls 2, 3, 5, 9 and so on are looked at, until a backward has run.
  bool isTurn() {
    size_t number = runs_++;
    return number < kMostRuns && (number & (number - 1)) == 0;
  }

  PyObject* studyOf(HostCall& call) const {
    if (!call.study) {
      PyObject* type = PyCFunction_GET_SELF(call.callable.get());
      call.study = Ref::steal(module() ? PyObject_CallMethod(module(), "Study", "O", type) : nullptr);
      if (!call.study) throwPythonError();
    }
    return call.study.get();
  }

  bool isKnown() {
    bool known = true;
    for (const auto& call : calls_) {
      PyObject* study = studyOf(*call);
      known = known && says(study, "known");
      if (!refused_ && says(study, "refused")) refuse(textOf(study));
    }
    return known && !refused_;
  }

  static std::string textOf(PyObject* study) {
    Ref text = Ref::steal(PyObject_Str(study));
    const char* chars = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
    PyErr_Clear();
    return chars ? chars : "a torch.autograd.Function";
  }

  void refuse(const std::string& why) {
    refused_ = true;
    if (logs(Topic::Breaks)) log(Topic::Breaks, "gradients are not compiled: " + why);
  }

  bool allHold(const char* method) const {
    return std::all_of(calls_.begin(), calls_.end(), [&](const auto& call) { return says(call->study.get(), method); });
  }
  bool forwardsHold() const { return allHold("forward_holds"); }

  std::optional<std::vector<at::Tensor>> runCompiled(const std::vector<at::Tensor>& inputs) const {
    NoAutocast casts;
    ReleaseInterpreter released;
    return (*compiled_)(inputs);
  }

  // Whatever keeps the gradients from being compiled, the program runs as before.
  void compile(const std::vector<at::Tensor>& inputs) {
    refused_ = true;
    std::shared_ptr<aot::CompiledFunction> made;
    try {
      NoAutocast casts;
      Scope opened(Way::Opened);
      tracing::OpenedNodes nodes;
      passes::Stages stages;
      made = aot::compile(pythonHost(), *program_, inputs, stages);
    } catch (const std::exception& error) {
      std::string text = error.what();
      clearPythonError();
      return refuse(text.substr(0, text.find('\n')));
    }
    std::vector<bool> exact = made->exactOffsets();
    for (size_t i = 0; i < exact.size(); ++i) {
      if (exact[i] && !exact_[i]) return refuse("operators read memory by absolute places");
    }
    if (!made->training() || !made->needsFunction()) return refuse("results are views, or written arguments");
    if (!forwardsHold()) return refuse("something that a forward reads has changed");
    made->setFunction([plainly = plainly_](const std::vector<at::Tensor>& given) {
      HoldInterpreter held;
      Scope again(Way::Again);
      return aot::Returned{plainly(given)};
    });
    std::vector<c10::intrusive_ptr<HostCall>> calls = calls_;
    made->setBackwardHolds([calls = std::move(calls)] {
      HoldInterpreter held;
      return std::all_of(calls.begin(), calls.end(),
                         [](const auto& call) { return says(call->study.get(), "backward_holds"); });
    });
    compiled_ = std::move(made);
    refused_ = false;
  }

  static constexpr size_t kMostRuns = 1000;
  std::shared_ptr<runtime::Program> program_;
  Executor plainly_;
  std::vector<bool> exact_;
  std::vector<c10::intrusive_ptr<HostCall>> calls_;
  std::shared_ptr<aot::CompiledFunction> compiled_;
  bool refused_ = false;
  size_t runs_ = 0;
};

}  // namespace

Ref functionToCall(const HostCall& call) {
  if (way == Way::Plain || !call.isPlainFunction()) return call.callable;
  const char* name = way == Way::Studied ? "studied" : way == Way::Opened ? "opened" : "again";
  Ref apply = Ref::steal(call.study ? PyObject_GetAttrString(call.study.get(), name) : nullptr);
  PyErr_Clear();
  return apply ? std::move(apply) : call.callable;
}

Executor openingFunctions(const std::shared_ptr<runtime::Program>& program, Executor plainly, std::vector<bool> exact) {
  auto opening = std::make_shared<Opening>(program, std::move(plainly), std::move(exact));
  return [opening](const std::vector<at::Tensor>& inputs) { return opening->run(inputs); };
}

}  // namespace saker::frontend
