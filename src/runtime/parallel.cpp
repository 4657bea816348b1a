#include "runtime/parallel.h"

#include <ATen/Parallel.h>

#include <algorithm>

#if AT_PARALLEL_OPENMP && (defined(__GNUC__) || defined(__clang__))
// GCC's library has them, and those of LLVM and Intel too. PyTorch loads one of these; without it, they are null.
extern "C" {
__attribute__((weak)) void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
__attribute__((weak)) int omp_get_num_threads();
__attribute__((weak)) int omp_get_thread_num();
}
#define SAKER_OPENMP 1
#else
#define SAKER_OPENMP 0
#endif

namespace saker::runtime {

namespace {

#if SAKER_OPENMP
struct Shared {
  int64_t steps, grain;
  c10::function_ref<void(int64_t, int64_t)> work;
};

// What one of the threads does: the same part in each call, whose memory is then in its cache.
void doPart(void* data) {
  const Shared& shared = *static_cast<const Shared*>(data);
  int64_t most = (shared.steps + shared.grain - 1) / shared.grain;
  int64_t threads = std::min<int64_t>(omp_get_num_threads(), most);
  int64_t part = (shared.steps + threads - 1) / threads;
  int64_t begin = part * omp_get_thread_num(), end = std::min(begin + part, shared.steps);
  if (begin < end) shared.work(begin, end);
}
#endif

}  // namespace

void inParallel(int64_t steps, int64_t grain, c10::function_ref<void(int64_t, int64_t)> work) {
  if (steps <= 0) return;
#if SAKER_OPENMP
  at::internal::lazy_init_num_threads();
  bool several = steps > grain && !at::in_parallel_region() && at::get_num_threads() > 1;
  if (several && GOMP_parallel && omp_get_num_threads && omp_get_thread_num) {
    Shared shared{steps, std::max<int64_t>(grain, 1), work};
    GOMP_parallel(&doPart, &shared, 0, 0);
    return;
  }
  work(0, steps);
#else
  at::parallel_for(0, steps, grain, [&](int64_t begin, int64_t end) { work(begin, end); });
#endif
}

}  // namespace saker::runtime
