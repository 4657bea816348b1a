#include "frontend/casts_around.h"

namespace saker::frontend {

namespace autocast = aten::autocast;

namespace {

constexpr std::array kDevices = {c10::DeviceType::CPU, c10::DeviceType::CUDA};

std::array<c10::ScalarType, 2> dtypesNow() { return {autocast::dtypeOf(kDevices[0]), autocast::dtypeOf(kDevices[1])}; }

void setDtypes(const std::array<c10::ScalarType, 2>& dtypes) {
  for (size_t i = 0; i < kDevices.size(); ++i) autocast::setDtype(kDevices[i], dtypes[i]);
}

}  // namespace

std::optional<CastsAround> CastsAround::now() {
  c10::DispatchKeySet off = c10::impl::tls_local_dispatch_key_set().excluded_ & c10::autocast_dispatch_keyset;
  if (off == c10::autocast_dispatch_keyset) return std::nullopt;
  return CastsAround{c10::autocast_dispatch_keyset - off, dtypesNow()};
}

UnderCasts::UnderCasts(const CastsAround& around) : before_(dtypesNow()) {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = keys.excluded_ - around.on;
  setDtypes(around.dtypes);
  autocast::enter();  // casts of parameters are kept until the region ends
  guard_.emplace(keys);
}

UnderCasts::~UnderCasts() {
  guard_.reset();
  if (autocast::leave() == 0) autocast::forgetCasts();
  setDtypes(before_);
}

}  // namespace saker::frontend
