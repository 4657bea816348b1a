#include "api/compile_call.h"

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>

#include "aot/pipeline.h"
#include "autograd/partition.h"
#include "capture/errors.h"
#include "capture/host.h"
#include "ops/infer.h"
#include "passes/stages.h"

namespace saker::api {

namespace {

// What cannot be captured, as an exception inside of the function that is captured.
struct Refusal : tracing::CaptureError {
  Refusal(const ops::Refusal& refusal, const std::string& op)
      : CaptureError(op.empty() ? refusal.message : op + " cannot be captured: " + refusal.message),
        reason(refusal.reason) {}
  ops::Reason reason;
};

tracing::Host hostOfCompile() {
  tracing::Host host;
  host.error = [](const ops::Refusal& refusal, const std::string& op, const ir::Location*) {
    return std::make_exception_ptr(Refusal(refusal, op));
  };
  host.othersRun = [] { return true; };  // whoever calls the function meanwhile
  return host;
}

// The state of the default generator. A function that seeds it, or draws from it directly, does so without an operator.
class GeneratorWatch {
 public:
  GeneratorWatch() : generator_(at::globalContext().defaultGenerator(c10::kCPU)), before_(state()) {}
  // Puts it back. True: something had changed it.
  bool restore() {
    at::Tensor now = state();
    bool same = now.numel() == before_.numel() &&
                std::memcmp(now.const_data_ptr(), before_.const_data_ptr(), now.nbytes()) == 0;
    if (same) return false;
    std::lock_guard held(generator_.mutex());
    generator_.set_state(before_);
    return true;
  }

 private:
  at::Tensor state() {
    std::lock_guard held(generator_.mutex());
    return generator_.get_state();
  }
  at::Generator generator_;
  at::Tensor before_;
};

std::string withHint(const std::string& text, const std::string& hint) {
  return hint.empty() ? text : text + " (" + hint + ")";
}

Outcome outcomeOf(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const Refusal& error) {
    // Eager mode raises an error of its own for these.
    bool raises = error.reason == ops::Reason::BadArgument;
    return {.reason = error.what(), .raises = raises};
  } catch (const tracing::CaptureError& error) {
    return {.reason = error.what()};
  } catch (const c10::Error& error) {
    return {.reason = std::string("the function raises: ") + error.what_without_backtrace(), .raises = true};
  } catch (const std::exception& error) {
    return {.reason = std::string("the function raises: ") + error.what(), .raises = true};
  } catch (...) {
    return {.reason = "the function raises an exception of a type that is unknown here", .raises = true};
  }
}

Outcome compileUnguarded(const Function& function, const Tensors& inputs, std::span<const SizePlace> symbols,
                         double memoryBudget) {
  aot::JointOptions options;
  for (auto [input, dim] : symbols) options.dynamic.push_back({input, dim, ""});
  autograd::PartitionOptions partition;
  partition.memoryBudget = memoryBudget;
  auto callee = [&](const std::vector<at::Tensor>& standIns) { return aot::Returned{function(standIns)}; };
  try {
    passes::Stages stages;
    return {.compiled = aot::compile(hostOfCompile(), inputs, callee, options, partition, stages)};
  } catch (const aot::NotAheadOfTime& refused) {
    return {.reason = withHint(refused.what(), refused.why.reason().hint)};
  } catch (const aot::CallFailed& failed) {
    return outcomeOf(failed.cause);
  } catch (...) {
    return outcomeOf(std::current_exception());
  }
}

}  // namespace

Outcome compileCall(const Function& function, const Tensors& inputs, std::span<const SizePlace> symbols,
                    double memoryBudget) {
  static std::mutex oneAtATime;
  std::lock_guard held(oneAtATime);
  GeneratorWatch generator;
  Outcome outcome = compileUnguarded(function, inputs, symbols, memoryBudget);
  if (generator.restore() && outcome.compiled) {
    return {.reason =
                "the function seeds the default generator, or draws from it without an operator"
                " (seed it outside of the function)"};
  }
  return outcome;
}

}  // namespace saker::api
