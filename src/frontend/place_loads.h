// How the places of guards are reached: by place, the load that fills it.
#pragma once

#include <vector>

#include "frontend/guards.h"

namespace saker::frontend {

class PlaceLoads {
 public:
  // The guards live as long as this does.
  explicit PlaceLoads(const Guards& guards) : loads_(guards.places) {
    for (const Instruction& at : guards.instructions) {
      bool loads = at.op <= Op::ContextValue && at.op != Op::FrameUnbound;
      if (loads && at.place < loads_.size() && !loads_[at.place]) loads_[at.place] = &at;
    }
  }
  // nullptr: nothing does.
  const Instruction* operator[](uint32_t place) const { return place < loads_.size() ? loads_[place] : nullptr; }
  // The load of the place that this load starts from; nullptr: it starts from the call, or from an object itself.
  const Instruction* before(const Instruction& load) const {
    return load.op <= Op::Fixed ? nullptr : (*this)[load.parent];
  }

 private:
  std::vector<const Instruction*> loads_;
};

}  // namespace saker::frontend
