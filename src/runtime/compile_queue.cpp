#include "runtime/compile_queue.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>

#include "codegen/load.h"

namespace saker::runtime {

namespace {

using Batch = std::vector<std::shared_ptr<GroupCode>>;

// PyTorch's library has the vector functions that eager mode calls; Python loads it where dlsym does not look.
void* inTorch(const char* name) {
  static void* library = [] {
    Dl_info info;
    bool found = dladdr(reinterpret_cast<const void*>(&at::show_config), &info) && info.dli_fname;
    return found ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
  }();
  return library ? dlsym(library, name) : nullptr;
}

class Queue {
 public:
  // A child of fork() has no thread but its own.
  static Queue& ofProcess() {
    static std::mutex lock;
    static Queue* one = nullptr;
    std::lock_guard held(lock);
    if (!one || one->process_ != getpid()) {
      bool first = !one;
      one = new Queue;
      codegen::setResolver(inTorch);
      // At exit the thread is stopped before the library that it may be in ends: what is loaded first ends last.
      std::string error;  // compile() tells it
      codegen::loadEmitter(error);
      if (first) std::atexit([] { one->stop(); });
    }
    return *one;
  }

  void add(Batch batch) {
    const char* when = std::getenv("SAKER_COMPILE");
    if (when && std::strcmp(when, "sync") == 0) return compile(batch);
    std::lock_guard held(lock_);
    if (stopped_) return;
    batches_.push_back(std::move(batch));
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    changed_.notify_all();
  }

  void wait() {
    std::unique_lock held(lock_);
    changed_.wait(held, [&] { return (batches_.empty() && !busy_) || stopped_; });
  }

  std::string error() {
    std::lock_guard held(lock_);
    return error_;
  }

 private:
  void work() {
    std::unique_lock held(lock_);
    while (true) {
      changed_.wait(held, [&] { return !batches_.empty() || stopped_; });
      if (stopped_) return;
      Batch batch = std::move(batches_.front());
      batches_.pop_front();
      busy_ = true;
      held.unlock();
      compile(batch);
      batch.clear();
      held.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  void compile(const Batch& batch) {
    std::vector<const kernel::Kernel*> kernels;
    for (const auto& group : batch) {
      for (const kernel::Kernel& each : group->kernels) kernels.push_back(&each);
    }
    codegen::Result made = codegen::compile(kernels, codegen::hostTarget());
    {
      std::lock_guard held(lock_);
      error_ = made.error;
    }
    if (!made.ok()) return;
    size_t next = 0;
    for (const auto& group : batch) {
      for (size_t i = 0; i < group->kernels.size(); ++i) group->compiled.push_back(std::move(made.kernels[next++]));
      group->ready.store(true, std::memory_order_release);
    }
  }

  void stop() {
    if (process_ != getpid()) return;
    {
      std::lock_guard held(lock_);
      stopped_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  const pid_t process_ = getpid();
  std::mutex lock_;
  std::condition_variable changed_;
  std::deque<Batch> batches_;
  bool busy_ = false, stopped_ = false;
  std::string error_;
  std::thread thread_;
};

}  // namespace

void compileSoon(std::vector<std::shared_ptr<GroupCode>> groups) { Queue::ofProcess().add(std::move(groups)); }
void waitForCode() { Queue::ofProcess().wait(); }

codegen::Result compileNow(const std::vector<const kernel::Kernel*>& kernels) {
  Queue::ofProcess();  // which tells LLVM's part where functions are
  return codegen::compile(kernels, codegen::hostTarget());
}

CodeStatus codeStatus() {
  CodeStatus status;
  status.target = codegen::info(codegen::hostTarget()).name;
  for (codegen::Target target : codegen::kTargets) {
    if (codegen::isSupported(target)) status.supported.emplace_back(codegen::info(target).name);
  }
  Dl_info found{};
  SakerEmitFunction emitter = codegen::loadEmitter(status.error);
  if (emitter && dladdr(reinterpret_cast<void*>(emitter), &found) && found.dli_fname) status.library = found.dli_fname;
  status.threads = std::max(1u, std::thread::hardware_concurrency());
  status.vectorFunctions = inTorch("Sleef_expf8_u10") != nullptr;
  return status;
}

std::string compileError() { return Queue::ofProcess().error(); }

}  // namespace saker::runtime
