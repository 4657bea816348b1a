// The torch version Saker is built against, and what follows from it where code need not differ to compile. Everything
// that differs between the versions (2.11 to 2.15) stands in this folder: README.md lists it.
#pragma once

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/version.h>
#endif

#include "ir/torch_facts.h"

#define SAKER_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

static_assert(SAKER_TORCH_AT_LEAST(2, 11), "Saker needs torch 2.11 or later");

namespace saker::aten {

// 2.13: what modes and subclasses call comes back to the trace. Before, it is kept from the trace, so it must find
// data.
inline constexpr bool kPythonIsRecorded = SAKER_TORCH_AT_LEAST(2, 13);

// 2.13: InferenceMode excludes ADInplaceOrView, so that a kernel there has run unless it is excluded. Before, the mode
// keeps that key from what it calls by other means.
inline constexpr bool kInferenceModeExcludes = SAKER_TORCH_AT_LEAST(2, 13);

// 2.14: sinh and cosh of f32 differ in last bits from SLEEF's.
inline constexpr bool kSinhIsSleefs = !SAKER_TORCH_AT_LEAST(2, 14);

// What the rules of the operator table have to know.
inline constexpr ir::TorchFacts kTorchFacts = {
    .complexOfBFloat16 = SAKER_TORCH_AT_LEAST(2, 14),
    .groupNormMakesDense = SAKER_TORCH_AT_LEAST(2, 14),
    .polarTakesHalf = SAKER_TORCH_AT_LEAST(2, 14),
    .softShrinkRounds = SAKER_TORCH_AT_LEAST(2, 14),
    .clampTakesIntegers = SAKER_TORCH_AT_LEAST(2, 15),
    .cubicGridsInSpace = SAKER_TORCH_AT_LEAST(2, 15),
};

}  // namespace saker::aten
