// Generated code next to PyTorch: it calls the vector functions in PyTorch's library. With `eagerFunctions` it gives
// the very bits of eager mode, but for functions of whole tensors that PyTorch has from MKL or from the C library:
// those differ in the last bit.
#include <ATen/Functions.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "aten/torch_version/version.h"
#include "codegen/compile.h"
#include "kernel/parse.h"

namespace saker::codegen {
namespace {

int found = 0;

void* inTorch(const char* name) {
  void* address = dlsym(RTLD_DEFAULT, name);
  if (address && std::string_view(name).starts_with("Sleef_")) ++found;
  return address;
}

at::Tensor run(const std::string& op, const at::Tensor& x, const Options& options) {
  std::string type = x.scalar_type() == at::kFloat ? "f32" : "f64";
  std::string text = "kernel(b0: " + type + ", b1: out " + type +
                     ", s0: size) {\n  parallel i0 < s0\n  vector i0\n  once {\n" + "    %0: " + type +
                     " = load b0[i0]\n    %1: " + type + " = " + op + " %0\n    store b1[i0], %1\n  }\n}\n";
  kernel::Kernel kernel = kernel::parse(text).kernel;
  const kernel::Kernel* one[] = {&kernel};
  Result result = compile(one, hostTarget(), options);
  EXPECT_TRUE(result.ok()) << result.error;
  at::Tensor y = at::full_like(x, -77);
  if (!result.ok()) return y;
  void* buffers[] = {x.data_ptr(), y.data_ptr()};
  int64_t count = x.numel();
  result.kernels[0].function(buffers, &count, 0, count);
  return y;
}

TEST(CodegenNextToTorch, GivesTheBitsOfEagerMode) {
  if (hostTarget() < Target::Avx2) GTEST_SKIP() << "PyTorch has vector functions for AVX2 and better only";
  setResolver(inTorch);
  using Function = at::Tensor (*)(const at::Tensor&);
  struct Row {
    const char* op;
    Function eager;
    bool fromOthers = false;
  };
  const Row rows[] = {{"log1p", at::log1p},
                      {"expm1", at::expm1},
                      {"sinh", at::sinh, !aten::kSinhIsSleefs},
                      {"cosh", at::cosh, !aten::kSinhIsSleefs},
                      {"exp2", at::exp2},
                      {"asinh", at::asinh, true},
                      {"acosh", at::acosh, true},
                      {"atanh", at::atanh},
                      {"exp", at::exp, true},
                      {"log", at::log, true},
                      {"log2", at::log2, true},
                      {"log10", at::log10, true},
                      {"tan", at::tan, true},
                      {"asin", at::asin, true},
                      {"acos", at::acos, true},
                      {"atan", at::atan, true},
                      {"erfc", at::erfc, true},
                      {"erf", at::erf, true},
                      {"sin", at::sin, true},
                      {"cos", at::cos, true},
                      {"tanh", at::tanh, true}};
  for (at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    at::Tensor x = at::randn({4096}, dtype).mul_(3);  // whole vectors
    for (const Row& row : rows) {
      int before = found;
      at::Tensor ours = run(row.op, x, {.eagerFunctions = true});
      EXPECT_GT(found, before) << row.op;
      at::Tensor eager = row.eager(x);
      bool same = at::equal(at::nan_to_num(ours), at::nan_to_num(eager));
      EXPECT_TRUE(same || row.fromOthers) << row.op << " " << dtype;
      double tolerance = dtype == at::kFloat ? 5e-7 : 1e-15;  // four units
      double tiny = dtype == at::kFloat ? 1e-43 : 1e-321;     // numbers that have fewer bits
      EXPECT_TRUE(at::allclose(ours, eager, tolerance, tiny, true)) << row.op << " " << dtype;
      EXPECT_TRUE(at::allclose(run(row.op, x, {}), eager, tolerance, tiny, true)) << row.op << " " << dtype;
    }
  }
}

}  // namespace
}  // namespace saker::codegen
