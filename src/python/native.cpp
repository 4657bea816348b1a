#include "python/native.h"

#include "aten/kept_call.h"
#include "passes/stages.h"
#include "runtime/compile_queue.h"
#include "runtime/fused.h"
#include "runtime/guard_pages.h"
#include "runtime/kernel_report.h"

namespace saker::python {

namespace {

py::object optional(std::optional<int64_t> number) { return number ? py::object(py::int_(*number)) : py::none(); }

py::dict kernelsOf(const ir::Graph& graph, bool simplified, bool compiles, bool toTheBit) {
  runtime::FusionReport report;
  {
    py::gil_scoped_release released;
    report = runtime::reportKernels(graph, simplified, compiles, {true, toTheBit});
  }
  py::list groups;
  for (const runtime::GroupReport& group : report.groups) {
    py::list kernels;
    for (const runtime::KernelReport& kernel : group.kernels) {
      py::dict told;
      told["text"] = kernel.text;
      told["bytes_read"] = optional(kernel.bytesRead);
      told["bytes_written"] = optional(kernel.bytesWritten);
      told["seconds"] = kernel.milliseconds / 1e3;
      told["code_bytes"] = kernel.codeBytes;
      kernels.append(told);
    }
    py::dict told;
    told["operators"] = group.operators;
    told["ended"] = group.ended;
    told["kernels"] = kernels;
    groups.append(told);
  }
  py::dict out;
  out["groups"] = groups;
  out["outside"] = report.outside;
  out["refused"] = report.refused;
  out["reason"] = report.reason;
  py::dict seconds;
  seconds["fuse"] = report.fuseMilliseconds / 1e3;
  seconds["lower"] = report.lowerMilliseconds / 1e3;
  seconds["compile"] = report.compileMilliseconds / 1e3;
  out["seconds"] = seconds;
  return out;
}

py::dict status() {
  runtime::CodeStatus found = runtime::codeStatus();
  py::dict out;
  out["target"] = found.target;
  out["supported"] = found.supported;
  out["library"] = found.library;
  out["error"] = found.error;
  out["threads"] = found.threads;
  out["vector_functions"] = found.vectorFunctions;
  return out;
}

// What a kernel with a fault would do, for the test that guard pages notice it: reads one byte beside a contiguous
// tensor, or writes to it.
void touchGuarded(const at::Tensor& tensor, bool writes) {
  runtime::GuardPages mode = runtime::guardPages();
  runtime::GuardedBuffers buffers(mode);
  auto* data = static_cast<volatile char*>(buffers.add(tensor, /*written=*/false));
  if (writes) {
    data[0] = 1;
  } else {
    static_cast<void>(mode == runtime::GuardPages::Behind ? data[tensor.nbytes()] : data[-1]);
  }
}

}  // namespace

void bindNative(py::module_& module) {
  module.def("kernels_launched", &runtime::FusedCode::launched);
  module.def("kept_calls", [] { return std::pair(aten::KeptCall::prepared(), aten::KeptCall::missed()); });
  module.def("workspace_bytes", &runtime::Workspace::allBytes);
  module.def("wait_for_code", &runtime::waitForCode, py::call_guard<py::gil_scoped_release>());
  module.def("code_error", &runtime::compileError);
  module.def("code_status", &status);
  module.def("fuses", [] { return !passes::isOff(passes::Stage::Fuse); });
  module.def("kernels_of", &kernelsOf);
  module.def("touch_guarded", &touchGuarded);
  module.def("set_guard_pages", [](const std::string& mode) {
    if (!runtime::setGuardPages(mode)) throw py::value_error("guard pages are \"\", \"behind\" or \"before\"");
  });
}

}  // namespace saker::python
