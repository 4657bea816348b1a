// PyTorch's FakeTensors in C++ carry the key of a trace. Versions that have them have no kernel there: operators raise,
// as they do without Saker, and the tensors stay what they are.
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <memory>

#include "aten/torch_version/fake_tensors.h"
#include "recordings.h"

#if __has_include(<c10/core/impl/FakeTensorModeTLS.h>)
#include <c10/core/impl/FakeTensorModeTLS.h>
#endif

namespace saker::tracing::testing {
namespace {

// False where PyTorch has no such tensors.
template <typename Impl>
bool makeFake(Impl& impl) {
  if constexpr (aten::kTorchHasFakeTensors && requires { impl.set_fake_device(c10::Device(c10::kCPU)); }) {
    impl.set_fake_device(c10::Device(c10::kCPU));
    return true;
  }
  return false;
}

at::Tensor metaTensor() { return at::empty({2, 3}, c10::TensorOptions().device(c10::kMeta)); }

TEST(FakeTensors, OperatorsOnThemRaiseAndLeaveThemAsTheyAre) {
  at::Tensor fake = metaTensor();
  if (!makeFake(*fake.unsafeGetTensorImpl())) GTEST_SKIP() << "this torch has none";
  EXPECT_TRUE(aten::isPyTorchsFake(*fake.unsafeGetTensorImpl()));
  c10::DispatchKeySet keys = fake.key_set();
  EXPECT_THROW(at::add(fake, fake), c10::NotImplementedError);
  EXPECT_TRUE(fake.key_set() == keys);
  EXPECT_EQ(fake.device(), c10::Device(c10::kCPU));
}

TEST(FakeTensors, OperatorsOnThemRaiseInsideOfRecordingsToo) {
  at::Tensor fake = metaTensor();
  if (!makeFake(*fake.unsafeGetTensorImpl())) GTEST_SKIP() << "this torch has none";
  for (By by : {By::Tape, By::Capture}) {
    Tensors given = {at::ones({2, 3})};
    auto program = recordProgram(
        by,
        [&](Recording&, const Tensors& arguments) -> Tensors {
          EXPECT_THROW(at::add(arguments[0], fake), c10::NotImplementedError);
          return {at::add(arguments[0], arguments[0])};
        },
        given);
    ASSERT_TRUE(program);
  }
}

TEST(FakeTensors, OthersAreNot) {
  EXPECT_FALSE(aten::isPyTorchsFake(*metaTensor().unsafeGetTensorImpl()));
  EXPECT_FALSE(aten::isPyTorchsFake(*at::ones({2}).unsafeGetTensorImpl()));
  for (c10::DeviceType device : {c10::kCPU, c10::kMeta}) {
    Tensors given = {at::empty({2, 3}, c10::TensorOptions().device(device))};
    recordProgram(
        By::Capture,
        [](Recording&, const Tensors& arguments) -> Tensors {
          EXPECT_FALSE(aten::isPyTorchsFake(*arguments[0].unsafeGetTensorImpl()));
          return {at::add(arguments[0], arguments[0])};
        },
        given);
  }
}

#if __has_include(<c10/core/impl/FakeTensorModeTLS.h>)
TEST(FakeTensors, TheirModeIsNotATrace) {
  at::Tensor real = at::ones({2, 3});
  c10::impl::FakeTensorModeTLS::set_state(std::make_shared<c10::FakeTensorMode>(nullptr, nullptr));
  EXPECT_THROW(at::add(real, real), c10::NotImplementedError);
  EXPECT_THROW(at::ones({2}), c10::NotImplementedError);
  c10::impl::FakeTensorModeTLS::reset_state();
  EXPECT_EQ(at::add(real, real).sum().item<float>(), 12);
}
#endif

}  // namespace
}  // namespace saker::tracing::testing
