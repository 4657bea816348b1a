// Random kernels on every processor of this machine against the interpreter, with all buffers against forbidden pages.
// SAKER_FUZZ_ITERATIONS makes it longer; SAKER_FUZZ_SEED does one kernel.
#include <bit>
#include <memory>

#include "guarded_memory.h"
#include "harness.h"
#include "kernel/half.h"
#include "kernel/interpret.h"
#include "random_kernel.h"

namespace saker::codegen {
namespace {

using kernel::DType;

void fill(const GuardedMemory& memory, DType dtype, bool indices, std::mt19937_64& random) {
  size_t size = static_cast<size_t>(ir::byteSize(dtype));
  for (size_t at = 0; at + size <= memory.size(); at += size) {
    int64_t number = indices ? static_cast<int64_t>(random() % 8) : static_cast<int64_t>(random() % 9) - 4;
    uint64_t bits = static_cast<uint64_t>(number);
    float exact = static_cast<float>(number);
    if (dtype == DType::Float32) bits = std::bit_cast<uint32_t>(exact);
    if (dtype == DType::Float64) bits = std::bit_cast<uint64_t>(static_cast<double>(number));
    if (dtype == DType::Float16) bits = kernel::floatToFloat16(exact);
    if (dtype == DType::BFloat16) bits = kernel::floatToBfloat16(exact);
    if (dtype == DType::UInt8) bits = static_cast<uint64_t>(number + 4) % 5;
    if (dtype == DType::Bool) bits = number > 0;
    std::memcpy(memory.data() + at, &bits, size);
  }
}

void check(uint64_t seed) {
  RandomKernel made = KernelMaker(seed).make();
  const kernel::Kernel& kernel = made.kernel;
  std::vector<kernel::Diagnostic> wrong = kernel::verify(kernel);
  std::string text = print(kernel);
  SCOPED_TRACE("SAKER_FUZZ_SEED=" + std::to_string(seed) + "\n" + text);
  ASSERT_TRUE(wrong.empty()) << wrong[0].message;
  ASSERT_EQ(print(kernel::parse(text).kernel), text);

  std::mt19937_64 random(seed + 1);
  std::vector<std::unique_ptr<GuardedMemory>> memory;
  std::vector<std::vector<char>> before, expected;
  std::vector<void*> buffers;
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    size_t bytes = static_cast<size_t>(made.lengths[i] * ir::byteSize(kernel.buffers[i].dtype));
    memory.push_back(std::make_unique<GuardedMemory>(bytes, random() % 3 != 0));
    fill(*memory.back(), kernel.buffers[i].dtype, made.indices[i], random);
    buffers.push_back(memory.back()->data());
    before.emplace_back(memory.back()->data(), memory.back()->data() + bytes);
  }
  kernel::interpret(kernel, buffers.data(), made.arguments.data(), 0, made.steps);
  for (const auto& each : memory) expected.emplace_back(each->data(), each->data() + each->size());
  for (Target target : targetsHere()) {
    for (size_t i = 0; i < memory.size(); ++i) std::memcpy(memory[i]->data(), before[i].data(), before[i].size());
    // A listing is verified by LLVM.
    if (seed % 8 == 0) {
      ASSERT_EQ(list(kernel, target, {}, Form::Llvm).error, "");
    }
    Compiled code = compiled(kernel, target);
    ASSERT_TRUE(code.function);
    // In parts, as threads do it, and backwards, so that what is written behind the end of a part is found there.
    int64_t part = 1 + static_cast<int64_t>(random() % 3);
    for (int64_t end = made.steps; end > 0; end -= part) {
      code.function(buffers.data(), made.arguments.data(), std::max<int64_t>(0, end - part), end);
    }
    for (size_t i = 0; i < memory.size(); ++i) {
      size_t size = static_cast<size_t>(ir::byteSize(kernel.buffers[i].dtype));
      for (size_t at = 0; at < before[i].size(); at += size) {
        if (std::memcmp(memory[i]->data() + at, &expected[i][at], size) == 0) continue;
        uint64_t a = 0, b = 0;
        std::memcpy(&a, &expected[i][at], size), std::memcpy(&b, memory[i]->data() + at, size);
        // Of two zeros, max and min may give either where they reduce.
        bool zeros = (kernel.buffers[i].dtype == DType::Float32 && ((a | b) & 0x7fffffff) == 0) ||
                     (size == 2 && ((a | b) & 0x7fff) == 0) || (size == 8 && ((a | b) << 1) == 0);
        bool nans = kernel.buffers[i].dtype == DType::Float32 &&
                    std::isnan(std::bit_cast<float>(static_cast<uint32_t>(a))) &&
                    std::isnan(std::bit_cast<float>(static_cast<uint32_t>(b)));
        if (zeros || nans) continue;
        FAIL() << info(target).name << ": b" << i << "[" << at / size << "] is " << std::hex << b << " and not " << a;
      }
    }
  }
}

// The fuzzer would notice: a kernel that reads or writes one element too many crashes.
TEST(Fuzz, ForbiddenPagesAreFelt) {
  const std::string kCopy =
      "kernel(b0: f32, b1: out f32) {\n  parallel i0 < 37\n  vector i0\n  once {\n    %0: f32 = load b0[i0]\n"
      "    store b1[i0], %0\n  }\n}\n";
  kernel::Kernel kernel = kernelOf(kCopy);
  GuardedMemory whole(37 * 4, true), other(37 * 4, true), shorter(36 * 4, true);
  for (Target target : targetsHere()) {
    Compiled code = compiled(kernel, target);
    void* fine[] = {whole.data(), other.data()};
    code.function(fine, nullptr, 0, 37);
    void* readsTooFar[] = {shorter.data(), other.data()};
    EXPECT_DEATH(code.function(readsTooFar, nullptr, 0, 37), "");
    void* writesTooFar[] = {whole.data(), shorter.data()};
    EXPECT_DEATH(code.function(writesTooFar, nullptr, 0, 37), "");
  }
}

TEST(Fuzz, RandomKernels) {
  if (const char* seed = std::getenv("SAKER_FUZZ_SEED")) return check(std::strtoull(seed, nullptr, 10));
  const char* factor = std::getenv("SAKER_FUZZ_ITERATIONS");
  uint64_t count = 150 * (factor ? std::strtoull(factor, nullptr, 10) : 1);
  for (uint64_t seed = 0; seed < count && !HasFatalFailure(); ++seed) check(seed);
}

}  // namespace
}  // namespace saker::codegen
