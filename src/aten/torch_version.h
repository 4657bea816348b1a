// Everything that differs between the torch versions Saker builds against (2.11 to 2.13) stands here.
#pragma once

#if __has_include(<torch/headeronly/version.h>)
#include <torch/headeronly/version.h>
#else
#include <torch/version.h>
#endif

#define SAKER_TORCH_AT_LEAST(major, minor) \
  (TORCH_VERSION_MAJOR > (major) || (TORCH_VERSION_MAJOR == (major) && TORCH_VERSION_MINOR >= (minor)))

static_assert(SAKER_TORCH_AT_LEAST(2, 11), "Saker needs torch 2.11 or later");
