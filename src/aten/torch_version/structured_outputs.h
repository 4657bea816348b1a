// The base of PyTorch's structured kernels tells what their results look like, by functions that took names of
// dimensions too up to some version. Here it tells them to `told`, whatever it took.
#pragma once

#include <ATen/TensorMeta.h>

namespace saker::aten {

template <typename Function>
struct OutputSetter;

template <typename... Names>
struct OutputSetter<void (at::impl::MetaBase::*)(int64_t, c10::IntArrayRef, c10::IntArrayRef, c10::TensorOptions,
                                                 Names...)> {
  // `Kernel` is one of PyTorch's, whose outputs are set by `told` and found by `result`.
  template <typename Kernel>
  class Told : public Kernel {
   protected:
    // A result is to have these sizes; strides, where they are not empty and `exactly`.
    virtual void told(int64_t output, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::TensorOptions options,
                      bool exactly) = 0;

   private:
    void set_output_strided(int64_t output, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                            c10::TensorOptions options, Names... names) override {
      told(output, sizes, strides, options, true);
      pass(output, sizes, strides, options, names...);
    }
    void set_output_raw_strided(int64_t output, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                                c10::TensorOptions options, Names... names) override {
      told(output, sizes, strides, options, false);
      pass(output, sizes, strides, options, names...);
    }
    // Iterators over elements note what their results are; the others have nothing to note.
    void pass(int64_t output, c10::IntArrayRef sizes, c10::IntArrayRef strides, c10::TensorOptions options,
              Names... names) {
      if constexpr (requires(Kernel& kernel) { kernel.ntensors(); }) {
        Kernel::set_output_raw_strided(output, sizes, strides, options, names...);
      }
    }
  };
};

template <typename Kernel>
using WithToldOutputs =
    typename OutputSetter<decltype(&at::impl::MetaBase::set_output_raw_strided)>::template Told<Kernel>;

}  // namespace saker::aten
