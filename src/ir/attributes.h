// Facts about one node that neither its operator nor its arguments tell: the modes it was recorded in, what a caller
// sees of it, what the program asked autograd to do with it, which region it is part of. Most nodes have none; six
// bytes in each.
#pragma once

#include <cstdint>

namespace saker::ir {

// name of the member, as text
#define SAKER_NODE_FLAGS(X)                                                                                       \
  X(noGrad, "no_grad")                     /* autograd was off */                                                 \
  X(inferenceToggled, "inference_toggled") /* inference mode was other than around the call */                    \
  X(shown, "shown")                        /* the caller sees the view it makes, or the version that it counts */ \
  X(ownVersion, "own_version")             /* a detach that is `.data`: its result counts writes by itself */

// What a program asks of the cut into forward and backward, by torch.utils.checkpoint: member, as text.
#define SAKER_CHECKPOINTS(X)                                                   \
  X(Recompute, "recompute") /* compute it again in the backward */             \
  X(Redraw, "redraw")       /* likewise, and draw other random numbers then */ \
  X(Save, "save")           /* keep its results, although the region around it is computed again */

struct Attributes {
  enum class Checkpoint : uint8_t {
    None,
#define X(enumerator, text) enumerator,
    SAKER_CHECKPOINTS(X)
#undef X
  };
  static constexpr uint16_t kMaxRegion = UINT16_MAX;

#define X(member, text) bool member : 1 = false;
  SAKER_NODE_FLAGS(X)
#undef X
  Checkpoint checkpoint = Checkpoint::None;
  // Which region of a checkpoint it belongs to; 0 where there is none.
  uint16_t region = 0;
  // Which call of a region that the program marked (nested_compile_region) it belongs to; 0 where there is none.
  uint16_t call = 0;

  // The modes alone: neither checkpoints nor regions say what a node computes.
  Attributes modes() const {
    Attributes out = *this;
    out.checkpoint = Checkpoint::None;
    out.region = out.call = 0;
    return out;
  }
  bool isCheckpointed() const { return checkpoint != Checkpoint::None; }
  bool recomputes() const { return checkpoint == Checkpoint::Recompute || checkpoint == Checkpoint::Redraw; }
  friend bool operator==(const Attributes&, const Attributes&) = default;
};
static_assert(sizeof(Attributes) == 6);

}  // namespace saker::ir
