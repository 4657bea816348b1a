// The locks that a recorded call takes, held for all of a replay.
#pragma once

#include <vector>

#include "watch/ref.h"

namespace saker::frontend {

class Locked {
 public:
  // Takes all of them, or none that another thread has: nothing is waited for.
  explicit Locked(const std::vector<Ref>& locks);
  ~Locked() { release(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

  bool all() const { return all_; }
  void release();

 private:
  std::vector<Ref> taken_;
  bool all_ = true;
};

}  // namespace saker::frontend
