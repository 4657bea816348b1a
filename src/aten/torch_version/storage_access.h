// Lets a storage whose data pointer throws give data again.
#pragma once

#include <c10/core/StorageImpl.h>

#include "aten/torch_version/version.h"

namespace saker::aten {

#if SAKER_TORCH_AT_LEAST(2, 13)

// clear_data_ptr_access_error_msg_() is a member of every storage.
template <typename Storage>
void allowAccess(Storage& storage) {
  storage.clear_data_ptr_access_error_msg_();
}

#else

// Before, nothing takes the mark off again, and it is private. The arguments of an explicit instantiation may name
// private members.
struct ThrowsFlag {
  using Type = bool c10::StorageImpl::*;
  friend Type member(ThrowsFlag);
};
template <typename Tag, typename Tag::Type pointer>
struct Reach {
  friend typename Tag::Type member(Tag) { return pointer; }
};
template struct Reach<ThrowsFlag, &c10::StorageImpl::throw_on_immutable_data_ptr_>;

// Whoever sets a data pointer afterwards has the storage look at its marks again.
inline void allowAccess(c10::StorageImpl& storage) { storage.*member(ThrowsFlag{}) = false; }

#endif

}  // namespace saker::aten
