// PyTorch's state of autocast. Its own header includes every operator, which costs each file that includes it half a
// minute to compile: one file does.
#pragma once

#include <c10/core/DeviceType.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/ScalarType.h>

namespace saker::aten::autocast {

bool isAvailable(c10::DeviceType device);
// On which autocast's kernels for tensors of the device are.
c10::DispatchKey keyOf(c10::DeviceType device);

bool isEnabled(c10::DeviceType device);
c10::ScalarType dtypeOf(c10::DeviceType device);
void setDtype(c10::DeviceType device, c10::ScalarType dtype);

bool keepsCasts();
void keepCasts(bool keep);
void forgetCasts();

// How many regions are open; the last one to end forgets the casts.
int enter();
int leave();

}  // namespace saker::aten::autocast
