#include "codegen/compile.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "codegen/cache.h"
#include "codegen/elf.h"
#include "codegen/load.h"
#include "codegen/outside.h"
#include "codegen/perf_map.h"

namespace saker::codegen {
namespace {

// Preparing LLVM's passes costs as much as a small kernel, for each module; more in one would leave cores idle.
constexpr size_t kKernelsOfModule = 16;

std::atomic<Resolver> resolver{nullptr};
std::atomic<size_t> compiledKernels{0}, foundKernels{0};
std::atomic<int64_t> microseconds{0};

Cache& cache() {
  static Cache* const kCache = new Cache;  // threads may compile while the program ends
  return *kCache;
}

void* resolve(const char* name) {
  Resolver given = resolver.load();
  void* address = given ? given(name) : nullptr;
  return address ? address : libraryFunction(name);
}

struct Emitted {
  std::string bytes, error;
};

Emitted emit(SakerEmitFunction emitter, const std::vector<const char*>& texts, Target target, const Options& options,
             int form) {
  Emitted emitted;
  SakerEmit request{};
  request.kernels = texts.data();
  request.count = texts.size();
  request.target = info(target).name.data();
  request.tuneFor = "";
  request.eagerFunctions = options.eagerFunctions;
  request.form = form;
  request.user = &emitted;
  request.has = [](void*, const char* name) { return resolve(name) != nullptr; };
  request.take = [](void* user, const char* bytes, size_t count) {
    static_cast<Emitted*>(user)->bytes.assign(bytes, count);
  };
  request.fail = [](void* user, const char* message) { static_cast<Emitted*>(user)->error = message; };
  emitter(&request);
  return emitted;
}

// One of the kernels that are not kept yet.
struct Missing {
  std::string text, key;
  Compiled compiled;
};

// Compiles some kernels as one module; the error, if there is one.
std::string compileModule(SakerEmitFunction emitter, std::span<Missing> kernels, Target target,
                          const Options& options) {
  auto start = std::chrono::steady_clock::now();
  std::vector<const char*> texts;
  for (const Missing& each : kernels) texts.push_back(each.text.c_str());
  Emitted emitted = emit(emitter, texts, target, options, 0);
  if (!emitted.error.empty()) return emitted.error;
  Object object = loadObject(emitted.bytes, resolve);
  if (!object.error.empty()) return object.error;
  std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  double share = spent.count() / static_cast<double>(kernels.size());
  for (size_t i = 0; i < kernels.size(); ++i) {
    auto found = object.functions.find("kernel" + std::to_string(i));
    if (found == object.functions.end()) return "object file: a kernel is missing";
    kernels[i].compiled = {reinterpret_cast<kernel::Function>(found->second.address), share, found->second.size,
                           object.memory};
    size_t number = compiledKernels.fetch_add(1);
    addToPerfMap(found->second.address, found->second.size, "saker_kernel" + std::to_string(number));
  }
  return "";
}

std::string compileAll(std::span<Missing> kernels, Target target, const Options& options) {
  if (!isSupported(target)) return "this machine has no " + std::string(info(target).name);
  std::string error;
  SakerEmitFunction emitter = loadEmitter(error);
  if (!emitter) return error;
  size_t workers = std::max<size_t>(1, std::thread::hardware_concurrency());
  size_t share = std::clamp<size_t>((kernels.size() + workers - 1) / workers, 1, kKernelsOfModule);
  size_t modules = (kernels.size() + share - 1) / share;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  auto work = [&] {
    for (size_t module; (module = next.fetch_add(1)) < modules;) {
      size_t first = module * share;
      std::string failed =
          compileModule(emitter, kernels.subspan(first, std::min(share, kernels.size() - first)), target, options);
      if (failed.empty()) continue;
      std::lock_guard lock(mutex);
      error = failed;
    }
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < std::min(workers, modules); ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return error;
}

}  // namespace

Result compile(std::span<const kernel::Kernel* const> kernels, Target target, const Options& options) {
  auto start = std::chrono::steady_clock::now();
  Result result;
  std::vector<std::string> keys;
  std::vector<Missing> missing;
  std::unordered_map<std::string, size_t> asked;  // key to number in `missing`
  for (const kernel::Kernel* kernel : kernels) {
    std::string text = print(*kernel);
    keys.push_back(keyOf(text, target, options));
    result.kernels.push_back(cache().find(keys.back()));
    if (result.kernels.back().function) {
      foundKernels.fetch_add(1);
    } else if (asked.emplace(keys.back(), missing.size()).second) {
      missing.push_back({std::move(text), keys.back(), {}});
    }
  }
  if (!missing.empty()) result.error = compileAll(missing, target, options);
  if (!result.ok()) {
    result.kernels.clear();
    return result;
  }
  for (const Missing& each : missing) cache().insert(each.key, each.compiled);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!result.kernels[i].function) result.kernels[i] = missing[asked.at(keys[i])].compiled;
  }
  auto spent = std::chrono::steady_clock::now() - start;
  microseconds.fetch_add(std::chrono::duration_cast<std::chrono::microseconds>(spent).count());
  return result;
}

Listing list(const kernel::Kernel& kernel, Target target, const Options& options, Form form) {
  Listing listing;
  SakerEmitFunction emitter = loadEmitter(listing.error);
  if (!emitter) return listing;
  std::string text = print(kernel);
  Emitted emitted = emit(emitter, {text.c_str()}, target, options, form == Form::Llvm ? 1 : 2);
  return {std::move(emitted.bytes), std::move(emitted.error)};
}

void setResolver(Resolver given) { resolver.store(given); }
void setCacheLimit(size_t kernels) { cache().setLimit(kernels); }

Statistics statistics() {
  return {compiledKernels.load(), foundKernels.load(), cache().size(), static_cast<double>(microseconds.load()) / 1e3};
}

}  // namespace saker::codegen
