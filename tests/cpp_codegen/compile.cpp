// Compiling: what is kept, several threads, object files that are refused, listings.
#include "codegen/compile.h"

#include <algorithm>
#include <set>
#include <thread>

#include "codegen/cache.h"
#include "codegen/elf.h"
#include "codegen/outside.h"
#include "harness.h"

namespace saker::codegen {
namespace {

// b1[i] = b0[i] + number
kernel::Kernel adding(int number) {
  return kernelOf(
      "kernel(b0: f32, b1: out f32, s0: size) {\n  parallel i0 < s0\n  vector i0\n  once {\n    %0: f32 = load b0[i0]\n"
      "    %1: f32 = const " +
      std::to_string(number) + ".0\n    %2: f32 = add %0, %1\n    store b1[i0], %2\n  }\n}\n");
}

void expectAdds(const Compiled& code, int number) {
  std::vector<float> x(45, 2.0f), y(45);
  void* buffers[] = {x.data(), y.data()};
  int64_t count = 45;
  code.function(buffers, &count, 0, count);
  EXPECT_EQ(y, std::vector<float>(45, 2.0f + static_cast<float>(number)));
}

TEST(Compile, KeepsWhatItMade) {
  kernel::Kernel kernel = adding(1001), same = adding(1001), other = adding(1002);
  Statistics before = statistics();
  const kernel::Kernel* list[] = {&kernel, &same, &other};
  Result first = compile(list, hostTarget());
  ASSERT_TRUE(first.ok()) << first.error;
  EXPECT_EQ(first.kernels[0].function, first.kernels[1].function);
  EXPECT_NE(first.kernels[0].function, first.kernels[2].function);
  EXPECT_EQ(statistics().compiled - before.compiled, 2u);
  Result second = compile(list, hostTarget());
  EXPECT_EQ(second.kernels[0].function, first.kernels[0].function);
  EXPECT_EQ(statistics().compiled - before.compiled, 2u);
  EXPECT_EQ(statistics().found - before.found, 3u);
  // Another target or other options are other code.
  EXPECT_NE(compiled(kernel, Target::Scalar).function, first.kernels[0].function);
  EXPECT_NE(compiled(kernel, hostTarget(), {.eagerFunctions = true}).function, first.kernels[0].function);
}

TEST(Compile, KeysArePrintedAndSayAllThatCodeDependsOn) {
  std::string text = print(adding(1003));
  std::string key = keyOf(text, Target::Avx2, {});
  EXPECT_EQ(key, "emitter " + std::to_string(kEmitterVersion) + ", avx2\n" + text);
  EXPECT_EQ(key, keyOf(print(kernelOf(text)), Target::Avx2, {})) << "a kernel that was read from text is the same";
  EXPECT_TRUE(std::all_of(key.begin(), key.end(), [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  std::set<std::string> others{key, keyOf(text, Target::Avx2, {.eagerFunctions = true}),
                               keyOf(text, Target::Avx512, {}), keyOf(print(adding(1004)), Target::Avx2, {})};
  EXPECT_EQ(others.size(), 4u);
}

TEST(Compile, LetsGoOfTheLongestUnused) {
  Compiled held = compiled(adding(2000), hostTarget());
  setCacheLimit(3);
  for (int i = 1; i < 6; ++i) expectAdds(compiled(adding(2000 + i), hostTarget()), 2000 + i);
  EXPECT_EQ(statistics().kept, 3u);
  expectAdds(held, 2000);  // it is held here
  size_t before = statistics().compiled;
  compiled(adding(2005), hostTarget());
  EXPECT_EQ(statistics().compiled, before);
  compiled(adding(2001), hostTarget());
  EXPECT_EQ(statistics().compiled, before + 1);
  setCacheLimit(4096);
}

TEST(Compile, ManyKernelsFromManyThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      std::vector<kernel::Kernel> kernels;
      for (int i = 0; i < 40; ++i) kernels.push_back(adding(3000 + 20 * t + i));  // half of them are another's too
      std::vector<const kernel::Kernel*> list;
      for (const kernel::Kernel& each : kernels) list.push_back(&each);
      Result result = compile(list, hostTarget());
      ASSERT_TRUE(result.ok()) << result.error;
      for (int i = 0; i < 40; ++i) expectAdds(result.kernels[static_cast<size_t>(i)], 3000 + 20 * t + i);
    });
  }
  for (std::thread& each : threads) each.join();
}

TEST(Compile, NothingIsCompiledToNothing) { EXPECT_TRUE(compile({}, hostTarget()).ok()); }

TEST(Compile, ListsWhatItGoesThrough) {
  kernel::Kernel kernel = adding(5);
  Listing llvm = list(kernel, Target::Avx512, {}, Form::Llvm);
  EXPECT_EQ(llvm.error, "");
  EXPECT_NE(llvm.text.find("fadd <16 x float>"), std::string::npos) << llvm.text;
  EXPECT_NE(list(kernel, Target::Avx2, {}, Form::Llvm).text.find("fadd <8 x float>"), std::string::npos);
  EXPECT_NE(list(kernel, Target::Sse4, {}, Form::Llvm).text.find("fadd <4 x float>"), std::string::npos);
  EXPECT_EQ(list(kernel, Target::Scalar, {}, Form::Llvm).text.find(" x float>"), std::string::npos);
  EXPECT_NE(list(kernel, Target::Avx512, {}, Form::Assembly).text.find("zmm"), std::string::npos);
}

TEST(Targets, AreForcedByTheEnvironment) {
  Target best = hostTarget();
  setenv("SAKER_CPU", "scalar", 1);
  EXPECT_EQ(hostTarget(), Target::Scalar);
  setenv("SAKER_CPU", "avx512", 1);
  EXPECT_EQ(hostTarget(), best);
  setenv("SAKER_CPU", "nonsense", 1);
  EXPECT_EQ(hostTarget(), best);
  unsetenv("SAKER_CPU");
}

TEST(ObjectFiles, AreRefusedIfTheyAreNone) {
  auto none = [](const char*) -> void* { return nullptr; };
  EXPECT_NE(loadObject("", none).error, "");
  EXPECT_NE(loadObject(std::string(4096, 'x'), none).error, "");
  EXPECT_NE(loadObject(std::string("\x7f"
                                   "ELF\x02\x01\x01",
                                   7) +
                           std::string(57, '\0'),
                       none)
                .error,
            "");
}

TEST(OutsideFunctions, HaveNames) {
  EXPECT_EQ(scalarFunction(kernel::Op::Exp, kernel::DType::Float32), "expf");
  EXPECT_EQ(scalarFunction(kernel::Op::Rem, kernel::DType::Float64), "fmod");
  EXPECT_EQ(vectorFunction(kernel::Op::Exp, kernel::DType::Float32, 16, true), "Sleef_expf16_u10");
  EXPECT_EQ(vectorFunction(kernel::Op::Sin, kernel::DType::Float32, 8, true), "Sleef_sinf8_u35");
  EXPECT_EQ(vectorFunction(kernel::Op::Sin, kernel::DType::Float32, 8, false), "Sleef_sinf8_u10");
  EXPECT_EQ(vectorFunction(kernel::Op::Rem, kernel::DType::Float32, 8, true), "Sleef_fmodf8");
  EXPECT_EQ(vectorFunction(kernel::Op::Floor, kernel::DType::Float32, 8, true), "");
  EXPECT_NE(libraryFunction("atan2f"), nullptr);
  EXPECT_EQ(libraryFunction("system"), nullptr);
  // Every operation that may be called has an address.
  for (int op = static_cast<int>(kernel::Op::Exp); op <= static_cast<int>(kernel::Op::Pow); ++op) {
    for (kernel::DType dtype : {kernel::DType::Float32, kernel::DType::Float64}) {
      std::string name = scalarFunction(static_cast<kernel::Op>(op), dtype);
      EXPECT_NE(libraryFunction(name.c_str()), nullptr) << name;
    }
  }
}

}  // namespace
}  // namespace saker::codegen
