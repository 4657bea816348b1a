// Traces for Python: saker.deferred(), saker.capture() and the doors to data.
#include "python/trace.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Storage.h>
#include <torch/csrc/autograd/python_variable.h>

#include <typeinfo>

#include "aten/torch_version/fake_tensors.h"
#include "aten/trace_key.h"
#include "capture/capture.h"
#include "capture/deferred.h"
#include "capture/trace.h"
#include "capture/undo.h"
#include "host/trace_host.h"
#include "ir/parameter_names.h"
#include "python/program_state.h"
#include "runtime/program.h"

namespace saker::python {

namespace {

class DeferredScope {
 public:
  void enter() {
    if (block_) throw py::value_error("this deferred block has been entered already");
    block_ = std::make_unique<tracing::DeferredBlock>(pythonHost());
  }
  // The mode is left first, whatever comes of the flush.
  void leave() {
    if (!block().isOnItsThread()) {
      throw py::value_error("a deferred block is left on another thread than it was entered on");
    }
    block().leave();
  }
  void flush() { block().flush(); }
  size_t pending() { return block().pending(); }
  py::dict stats() {
    tracing::TraceStats stats = block().stats();
    py::dict out;
    out["recorded"] = stats.recorded;
    out["flushes"] = stats.flushes;
    out["ran_at_once"] = stats.ranAtOnce;
    out["layout_mismatches"] = stats.layoutMismatches;
    out["fallbacks"] = stats.fallbacks;
    return out;
  }

 private:
  tracing::DeferredBlock& block() {
    if (!block_) throw py::value_error("this deferred block has not been entered");
    return *block_;
  }
  std::unique_ptr<tracing::DeferredBlock> block_;
};

class PyCapture {
 public:
  PyCapture(const std::vector<at::Tensor>& arguments,
            const std::vector<std::tuple<size_t, size_t, std::string>>& dynamic) {
    std::vector<tracing::DynamicSize> sizes;
    for (const auto& [argument, dim, name] : dynamic) sizes.push_back({argument, dim, name});
    capture_ = std::make_unique<tracing::Capture>(pythonHost(), arguments, sizes);
    capture_->trace().noteInferenceMode();
    capture_->takeGradients(arguments);
  }
  std::vector<at::Tensor> arguments() const { return open().arguments(); }
  std::shared_ptr<runtime::Program> finish(const py::list& outputs) {
    std::vector<c10::IValue> values;
    for (py::handle output : outputs) {
      if (THPVariable_Check(output.ptr())) {
        values.emplace_back(THPVariable_Unpack(output.ptr()));
      } else {
        values.emplace_back(py::cast<c10::SymInt>(output));
      }
    }
    std::shared_ptr<runtime::Program> program = open().finish(values);
    capture_.reset();
    return program;
  }
  void cancel() { capture_.reset(); }
  py::dict stats() const {
    py::dict out;
    out["recorded"] = open().stats().recorded;
    out["fallbacks"] = open().stats().fallbacks;
    return out;
  }

 private:
  tracing::Capture& open() const {
    if (!capture_) throw py::value_error("this capture has ended");
    return *capture_;
  }
  std::unique_ptr<tracing::Capture> capture_;
};

py::list run(const runtime::Program& program, const std::vector<at::Tensor>& arguments) {
  std::vector<c10::IValue> results;
  {
    py::gil_scoped_release released;
    results = runtime::run(program, arguments);
  }
  py::list out;
  for (const c10::IValue& value : results) {
    if (value.isTensor()) {
      out.append(value.toTensor().defined() ? py::cast(value.toTensor()) : py::none());
    } else {
      out.append(value.isNone() ? py::object(py::none()) : py::cast(value.toInt()));
    }
  }
  return out;
}

// Is it to be read by something pending? Whoever has the address may write there before that.
bool isRead(const tracing::Trace& trace, const at::Tensor& tensor) {
  return trace.mode() == tracing::Mode::Deferred && !tracing::pendingStorage(*tensor.unsafeGetTensorImpl()) &&
         trace.isInput(tensor.storage().unsafeGetStorageImpl());
}

// Data of this tensor is about to be read without an operator: make it be there. Refused in a capture. `exposes`: who
// asks may keep the address, and read or write there later.
void open(const at::Tensor& tensor, const std::string& door, bool exposes) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return;
  tracing::Trace* mine = tracing::current();
  std::shared_ptr<tracing::Trace> owner;
  if (tracing::TraceStorage* storage = tracing::traceStorage(*tensor.unsafeGetTensorImpl())) {
    storage->raiseFailure();
    owner = storage->trace();
  }
  if (!owner && mine && (mine->isPending(tensor) || (exposes && isRead(*mine, tensor)))) {
    owner = mine->shared_from_this();
  }
  if (owner && owner->mode() == tracing::Mode::Capture) {
    owner->raise({ops::Reason::DataDependent,
                  "the program reads a tensor's data, which is not there before it runs; compute with tensors, or do "
                  "this outside of what is captured"},
                 door);
  }
  if (owner) owner->flush();
  if (exposes && mine && mine->mode() == tracing::Mode::Deferred && !tensor.is_meta()) {
    mine->expose(*tensor.storage().unsafeGetStorageImpl());
  }
}

// The same for a storage, of which all is about to be used.
void openStorage(const py::object& object, bool exposes) {
  if (!THPStorage_Check(object.ptr())) return;
  c10::Storage storage = THPStorage_Unpack(object.ptr());
  c10::StorageImpl* impl = storage.unsafeGetStorageImpl();
  tracing::Trace* mine = tracing::current();
  if (impl && typeid(*impl) == typeid(tracing::TraceStorage)) {
    std::shared_ptr<tracing::Trace> owner = static_cast<tracing::TraceStorage*>(impl)->trace();
    if (owner && owner.get() != mine && owner->mode() == tracing::Mode::Deferred) owner->flush();
  }
  if (!mine || mine->mode() != tracing::Mode::Deferred) return;
  mine->flush();
  if (exposes && impl && !impl->device().is_meta()) mine->expose(*impl);
}

}  // namespace

void bindTrace(py::module_& module) {
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      if (thrown) std::rethrow_exception(thrown);
    } catch (const runtime::RunError& error) {
      PyErr_SetString(py::module_::import("saker.errors").attr("RunError").ptr(), error.what());
    } catch (python_error& error) {
      error.restore();
    }
  });
  py::class_<DeferredScope>(module, "DeferredScope")
      .def(py::init<>())
      .def("enter", &DeferredScope::enter)
      .def("leave", &DeferredScope::leave)
      .def("flush", &DeferredScope::flush)
      .def("pending", &DeferredScope::pending)
      .def("stats", &DeferredScope::stats);
  py::class_<PyCapture>(module, "Capture")
      .def(py::init<const std::vector<at::Tensor>&, const std::vector<std::tuple<size_t, size_t, std::string>>&>())
      .def("arguments", &PyCapture::arguments)
      .def("finish", &PyCapture::finish)
      .def("cancel", &PyCapture::cancel)
      .def("stats", &PyCapture::stats);
  py::class_<runtime::Program, std::shared_ptr<runtime::Program>>(module, "Program")
      .def("run", &run)
      .def("needs_function",
           [](const runtime::Program& self, const std::vector<at::Tensor>& arguments) {
             return runtime::needsFunction(self, arguments);
           })
      .def_readonly("user_gradients", &runtime::Program::userGradients)
      .def("functional",
           [](const std::shared_ptr<runtime::Program>& self) {
             return std::shared_ptr<runtime::Program>(tracing::makeFunctional(self));
           })
      .def_property_readonly(
          "graph", [](const runtime::Program& self) { return self.graph.get(); },
          py::return_value_policy::reference_internal)
      .def(py::pickle(&programState, &programFrom))
      .def_property_readonly("guards", &runtime::Program::guards)
      // By parameter: what it is called in the text of the graph; an empty text leaves it as it is.
      .def("name_parameters", [](runtime::Program& self,
                                 const std::vector<std::string>& names) { ir::nameParameters(*self.graph, names); })
      .def_property_readonly("sources", [](const runtime::Program& self) {
        py::list out;
        for (const runtime::Source& source : self.sources) {
          const char* kind = source.kind == runtime::Source::Kind::Closed     ? "closed"
                             : source.kind == runtime::Source::Kind::Flat     ? "flat"
                             : source.kind == runtime::Source::Kind::Gradient ? "gradient"
                                                                              : "argument";
          out.append(py::make_tuple(kind, source.argument, source.tensor, source.literal));
        }
        return out;
      });
  module.def(
      "share_memory",
      [](const at::Tensor& a, const at::Tensor& b) {
        return a.has_storage() && b.has_storage() &&
               a.storage().unsafeGetStorageImpl() == b.storage().unsafeGetStorageImpl();
      },
      py::arg("a"), py::arg("b"));
  // A FakeTensor of PyTorch's own, as C++ makes it: not a tensor of a trace, which has the same key.
  module.def(
      "is_torch_fake", [](const at::Tensor& tensor) { return aten::isPyTorchsFake(*tensor.unsafeGetTensorImpl()); },
      py::arg("tensor"));
  module.def("open_door", &open, py::arg("tensor"), py::arg("door"), py::arg("exposes") = false);
  module.def("open_storage", &openStorage, py::arg("storage"), py::arg("exposes") = false);
  // Calls a function of PyTorch's that works on memory, so that the operators it uses run at once.
  module.def("call_unrecorded", [](const py::object& function, const py::args& args, const py::kwargs& kwargs) {
    c10::impl::ExcludeDispatchKeyGuard unrecorded(aten::kTraceKeys);
    return function(*args, **kwargs);
  });
  // Something reads or changes what pending operators depend on. A capture has nothing to run.
  module.def("settle", [] {
    tracing::Trace* trace = tracing::current();
    if (trace && trace->mode() == tracing::Mode::Deferred) trace->flush();
  });
  // Attributes that no operator reads or sets: what a capture has to know before, and to put back.
  module.def("note_grad_read", [](const at::Tensor& tensor) {
    tracing::Trace* trace = tracing::current();
    if (!trace || trace->mode() != tracing::Mode::Capture) return;
    if (trace->mayBeEager()) trace->noteOnlyEager("it asks for the .grad of a tensor");
    if (!tracing::traceTensor(*tensor.unsafeGetTensorImpl())) trace->undo().noteLeaf(tensor);
  });
  module.def("note_grad_set", [](const at::Tensor& tensor) {
    tracing::Trace* trace = tracing::current();
    if (trace && trace->mode() == tracing::Mode::Capture) trace->undo().noteGradientSet(tensor);
  });
  module.def("note_data_read", [](const at::Tensor& tensor) {
    tracing::Trace* trace = tracing::current();
    if (!trace || trace->mode() != tracing::Mode::Capture || !tensor.has_storage()) return;
    const c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
    bool plain = tensor.layout() == c10::kStrided && !tensor.is_meta() && !tensor.is_quantized() &&
                 !impl.key_set().has(c10::DispatchKey::Python) && !tracing::traceStorage(impl);
    if (!plain) return;
    auto held = trace->lock();
    trace->valueOf(tensor);
  });
  module.def("leave_mode", &tracing::leaveMode);
  // True: a capture is on, and random numbers drawn from here on are not those of the graph.
  module.def("note_generator_set", [] {
    tracing::Trace* trace = tracing::current();
    if (!trace || trace->mode() != tracing::Mode::Capture) return false;
    trace->noteGeneratorSet();
    return true;
  });
  // True: the function that is being captured will run in eager mode, for this reason. False: it may not.
  module.def("note_only_eager", [](const std::string& why) {
    tracing::Trace* trace = tracing::current();
    if (!trace || !trace->mayBeEager()) return false;
    trace->noteOnlyEager(why);
    return true;
  });
  module.attr("recording_keys") = py::cast(aten::kRecordingKeys);
  // None: no trace on this thread. Otherwise its mode, and whether anything is pending.
  module.def("trace_mode", []() -> std::optional<std::string> {
    tracing::Trace* trace = tracing::current();
    if (!trace) return std::nullopt;
    return trace->mode() == tracing::Mode::Capture ? "capture" : "deferred";
  });
}

}  // namespace saker::python
