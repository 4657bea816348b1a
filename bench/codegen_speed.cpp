// Machine code of typical kernels: nanoseconds for an element and the traffic in gigabytes a second, on one thread; and
// how long compiling takes. Each number is the best of several runs.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "codegen/compile.h"
#include "kernel/parse.h"

namespace {

using namespace saker;
using Clock = std::chrono::steady_clock;

double seconds(Clock::time_point from) { return std::chrono::duration<double>(Clock::now() - from).count(); }
// What the process has computed, on all its threads.
double cpuMilliseconds() { return 1e3 * static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Case {
  const char* name;
  int bytes;  // of traffic for an element
  std::string text;
};

std::string width(std::string text, int64_t columns) {
  for (size_t at; (at = text.find("WIDTH")) != text.npos;) text.replace(at, 5, std::to_string(columns));
  for (size_t at; (at = text.find("INVERSE")) != text.npos;)
    text.replace(at, 7, std::to_string(1.0 / static_cast<double>(columns)));
  return text;
}

// b0: numbers, b1 and b2: a row each, b3: numbers, b4: results
const char* const kSignature =
    "kernel(b0: f32, b1: f32, b2: f32, b3: f32, b4: out f32, s0: size) {\n  parallel i0 < s0\n";

std::vector<Case> cases(int64_t columns) {
  std::string gelu = std::string(kSignature) + R"(  parallel i1 < WIDTH
  vector i1
  once {
    %0: f32 = load b0[WIDTH*i0 + i1]
    %1: f32 = load b1[i1]
    %2: f32 = add %0, %1
    %3: f32 = mul %2, %2
    %4: f32 = mul %3, %2
    %5: f32 = const 0.044715
    %6: f32 = mul %4, %5
    %7: f32 = add %2, %6
    %8: f32 = const 0.79788457
    %9: f32 = mul %7, %8
    %10: f32 = tanh %9
    %11: f32 = const 1.0
    %12: f32 = add %10, %11
    %13: f32 = const 0.5
    %14: f32 = mul %2, %13
    %15: f32 = mul %14, %12
    %16: f32 = load b3[WIDTH*i0 + i1]
    %17: f32 = add %15, %16
    store b4[WIDTH*i0 + i1], %17
  }
}
)";
  std::string geluErf = std::string(kSignature) + R"(  parallel i1 < WIDTH
  vector i1
  once {
    %0: f32 = load b0[WIDTH*i0 + i1]
    %1: f32 = load b1[i1]
    %2: f32 = add %0, %1
    %3: f32 = const 0.70710677
    %4: f32 = mul %2, %3
    %5: f32 = erf %4
    %6: f32 = const 1.0
    %7: f32 = add %5, %6
    %8: f32 = const 0.5
    %9: f32 = mul %2, %8
    %10: f32 = mul %9, %7
    %11: f32 = load b3[WIDTH*i0 + i1]
    %12: f32 = add %10, %11
    store b4[WIDTH*i0 + i1], %12
  }
}
)";
  std::string layernorm = std::string(kSignature) + R"(  reduced i1 < WIDTH
  vector i1
  once {
    %0: f32 = const INVERSE
  }
  loop {
    %1: f32 = load b0[WIDTH*i0 + i1]
    %2: f32 = reduce.sum %1
  }
  once {
    %3: f32 = mul %2, %0
  }
  loop {
    %4: f32 = load b0[WIDTH*i0 + i1]
    %5: f32 = sub %4, %3
    %6: f32 = mul %5, %5
    %7: f32 = reduce.sum %6
  }
  once {
    %8: f32 = mul %7, %0
    %9: f32 = const 1e-05
    %10: f32 = add %8, %9
    %11: f32 = sqrt %10
    %12: f32 = const 1.0
    %13: f32 = div %12, %11
  }
  loop {
    %14: f32 = load b0[WIDTH*i0 + i1]
    %15: f32 = sub %14, %3
    %16: f32 = mul %15, %13
    %17: f32 = load b1[i1]
    %18: f32 = load b2[i1]
    %19: f32 = fma %16, %17, %18
    store b4[WIDTH*i0 + i1], %19
  }
}
)";
  std::string softmax = std::string(kSignature) + R"(  reduced i1 < WIDTH
  vector i1
  loop {
    %0: f32 = load b0[WIDTH*i0 + i1]
    %1: f32 = reduce.max %0
  }
  loop {
    %2: f32 = load b0[WIDTH*i0 + i1]
    %3: f32 = sub %2, %1
    %4: f32 = exp %3
    %5: f32 = reduce.sum %4
    store b4[WIDTH*i0 + i1], %4
  }
  loop {
    %7: f32 = load b4[WIDTH*i0 + i1]
    %8: f32 = div %7, %5
    store b4[WIDTH*i0 + i1], %8
  }
}
)";
  std::string columnSums =
      "kernel(b0: f32, b1: f32, b2: f32, b3: f32, b4: out f32, s0: size) {\n  parallel i0 < WIDTH\n" +
      std::string(R"(  reduced i1 < s0
  vector i0
  loop {
    %0: f32 = load b0[WIDTH*i1 + i0]
    %1: f32 = reduce.sum %0
  }
  once {
    store b4[i0], %1
  }
}
)");
  return {{"gelu_tanh + bias + residual", 12, width(gelu, columns)},
          {"gelu_erf + bias + residual", 12, width(geluErf, columns)},
          {"layernorm", 8, width(layernorm, columns)},
          {"softmax", 8, width(softmax, columns)},
          {"sums of columns", 4, width(columnSums, columns)}};
}

void run(const Case& each, codegen::Target target, int64_t columns) {
  kernel::Kernel kernel = kernel::parse(each.text).kernel;
  const kernel::Kernel* one[] = {&kernel};
  double start = cpuMilliseconds();
  codegen::Result result = codegen::compile(one, target);
  double spent = cpuMilliseconds() - start;
  if (!result.ok()) return void(std::printf("%s: %s\n", each.name, result.error.c_str()));
  std::printf("%-28s %-7s C=%-5ld compiled in %5.1f ms:", each.name, codegen::info(target).name.data(), columns, spent);
  for (int64_t elements : {int64_t{4} << 10, int64_t{1} << 20, int64_t{16} << 20}) {
    int64_t rows = elements / columns;
    size_t size = static_cast<size_t>(rows * columns);
    std::vector<float> x(size), w(static_cast<size_t>(columns), 0.5f), v(static_cast<size_t>(columns), 0.25f),
        r(size, 1.0f), y(size);
    for (size_t i = 0; i < size; ++i) x[i] = std::sin(static_cast<float>(i)) * 3;
    void* buffers[] = {x.data(), w.data(), v.data(), r.data(), y.data()};
    int64_t end = kernel.axes[0].extent.isNumber() ? columns : rows;
    double best = 1e9;
    // Short turns, many of them: on a machine that does other things too, some are not interrupted.
    int turns = elements > (1 << 20) ? 9 : 50;
    for (int turn = 0; turn < turns; ++turn) {
      int repeats = static_cast<int>(std::max<int64_t>(1, (int64_t{1} << 18) / elements));
      Clock::time_point from = Clock::now();
      for (int i = 0; i < repeats; ++i) result.kernels[0].function(buffers, &rows, 0, end);
      best = std::min(best, seconds(from) / repeats);
    }
    double ns = best * 1e9 / static_cast<double>(size);
    std::printf("  %4ldK %.3f ns (%.0f GB/s)", elements >> 10, ns, each.bytes / ns);
  }
  std::printf("\n");
}

void compileMany() {
  std::vector<kernel::Kernel> kernels;
  for (int64_t i = 0; i < 50; ++i)
    kernels.push_back(kernel::parse(cases(512 + 8 * i + (i % 5 == 0))[static_cast<size_t>(i % 4)].text).kernel);
  std::vector<const kernel::Kernel*> all;
  for (const kernel::Kernel& each : kernels) all.push_back(&each);
  double before = cpuMilliseconds();
  Clock::time_point start = Clock::now();
  codegen::Result result = codegen::compile(all, codegen::hostTarget());
  std::printf("50 kernels: %.1f ms, of computing on all threads %.1f ms %s\n", 1e3 * seconds(start),
              cpuMilliseconds() - before, result.error.c_str());
  start = Clock::now();
  codegen::compile(all, codegen::hostTarget());
  std::printf("50 kernels that are kept: %.2f ms\n", 1e3 * seconds(start));
}

}  // namespace

int main() {
  Clock::time_point start = Clock::now();
  kernel::Kernel tiny = kernel::parse("kernel(b0: out f32) {\n  parallel i0 < 8\n  once {\n  }\n}\n").kernel;
  const kernel::Kernel* one[] = {&tiny};
  codegen::compile(one, codegen::hostTarget());
  std::printf("loading LLVM and an empty kernel: %.1f ms\n", 1e3 * seconds(start));
  for (int64_t columns : {1024, 1003}) {
    for (const Case& each : cases(columns)) run(each, codegen::hostTarget(), columns);
  }
  for (const Case& each : cases(1024)) {
    if (codegen::hostTarget() > codegen::Target::Avx2) run(each, codegen::Target::Avx2, 1024);
  }
  compileMany();
}
