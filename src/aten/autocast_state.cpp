#include "aten/autocast_state.h"

#include <ATen/autocast_mode.h>

namespace saker::aten::autocast {

bool isAvailable(c10::DeviceType device) { return at::autocast::is_autocast_available(device); }

c10::DispatchKey keyOf(c10::DeviceType device) {
  return at::autocast::get_autocast_dispatch_key_from_device_type(device);
}

bool isEnabled(c10::DeviceType device) { return at::autocast::is_autocast_enabled(device); }

c10::ScalarType dtypeOf(c10::DeviceType device) { return at::autocast::get_autocast_dtype(device); }

void setDtype(c10::DeviceType device, c10::ScalarType dtype) { at::autocast::set_autocast_dtype(device, dtype); }

bool keepsCasts() { return at::autocast::is_autocast_cache_enabled(); }

void keepCasts(bool keep) { at::autocast::set_autocast_cache_enabled(keep); }

void forgetCasts() { at::autocast::clear_cache(); }

int enter() { return at::autocast::increment_nesting(); }

int leave() { return at::autocast::decrement_nesting(); }

}  // namespace saker::aten::autocast
