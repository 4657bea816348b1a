// Watching a part of a call by another observer: while a Nested lives, frames of this thread are told to its observer.
#pragma once

#include <memory>

#include "watch/observer.h"

namespace saker::watch {

class Nested {
 public:
  explicit Nested(Observer& observer);
  ~Nested();
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  struct Watched;
  std::unique_ptr<Watched> watched_;
};

}  // namespace saker::watch
