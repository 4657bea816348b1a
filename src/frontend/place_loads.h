// How the places of guards are reached: by place, the load that fills it.
#pragma once

#include <vector>

#include "frontend/guards.h"

namespace saker::frontend {

class PlaceLoads {
 public:
  // The guards live as long as this does.
  explicit PlaceLoads(const Guards& guards) : loads_(guards.places) {
    for (const GuardInstruction& at : guards.instructions) {
      bool loads = at.op <= GuardOp::ContextValue && at.op != GuardOp::FrameUnbound;
      if (loads && at.place < loads_.size() && !loads_[at.place]) loads_[at.place] = &at;
    }
  }
  // nullptr: nothing does.
  const GuardInstruction* operator[](uint32_t place) const { return place < loads_.size() ? loads_[place] : nullptr; }
  // The load of the place that this load starts from; nullptr: it starts from the call, or from an object itself.
  const GuardInstruction* before(const GuardInstruction& load) const {
    return load.op <= GuardOp::Fixed ? nullptr : (*this)[load.parent];
  }

 private:
  std::vector<const GuardInstruction*> loads_;
};

}  // namespace saker::frontend
