// Sliding windows laid out as columns, and columns added up to an image.
#include "ops/accept.h"
#include "ops/families.h"
#include "ops/shape.h"

namespace saker::ops {

namespace {

struct Windows {
  Dims kernel, dilation, padding, stride;
};

Windows readWindows(const Infer& in, size_t first) {
  Windows w{in.ints(first), in.ints(first + 1), in.ints(first + 2), in.ints(first + 3)};
  for (Dims* dims : {&w.kernel, &w.dilation, &w.padding, &w.stride}) {
    if (dims->size() != 2) refuse("two numbers are needed");
  }
  for (size_t i : {0, 1}) {
    if (w.kernel[i] <= Int(0) || w.dilation[i] <= Int(0) || w.stride[i] <= Int(0) || w.padding[i] < Int(0)) {
      refuse("kernel, dilation and stride must be positive, padding not negative");
    }
  }
  return w;
}

// Positions of a window along one side.
Int positions(const Windows& w, size_t side, Int size) {
  Int covered = w.dilation[side] * (w.kernel[side] - Int(1)) + Int(1);
  Int count = (size + w.padding[side] * Int(2) - covered) / w.stride[side] + Int(1);
  if (count < Int(1)) refuse("no window fits");
  return count;
}

void im2col(Infer& in) {
  const TensorType& self = in.tensor(0);
  Windows w = readWindows(in, 1);
  if (self.rank != 3 && self.rank != 4) refuse("an image or a batch of images is needed");
  size_t batch = self.rank == 4 ? 1 : 0;
  for (size_t i = batch; i < self.rank; ++i) {
    if (self.size(i) == Int(0)) refuse("only the batch may be empty");
  }
  Int blocks = positions(w, 0, self.size(batch + 1)) * positions(w, 1, self.size(batch + 2));
  require(in, kBool | kFloating, self.dtype);
  Dims sizes;
  if (batch) sizes.push_back(self.size(0));
  sizes.push_back(self.size(batch) * w.kernel[0] * w.kernel[1]);
  sizes.push_back(blocks);
  in.contiguous(sizes, self);
}

void col2im(Infer& in) {
  const TensorType& self = in.tensor(0);
  Dims image = in.ints(1);
  Windows w = readWindows(in, 2);
  if (image.size() != 2) refuse("two numbers are needed");
  if (self.rank != 2 && self.rank != 3) refuse("columns or a batch of columns are needed");
  size_t batch = self.rank == 3 ? 1 : 0;
  for (size_t i = batch; i < self.rank; ++i) {
    if (self.size(i) == Int(0)) refuse("only the batch may be empty");
  }
  Int area = w.kernel[0] * w.kernel[1];
  if (self.size(batch) % area != Int(0)) refuse("the rows are not divisible by the size of a window");
  if (positions(w, 0, image[0]) * positions(w, 1, image[1]) != self.size(batch + 1)) {
    refuse("as many columns as windows are needed");
  }
  if (image[0] < Int(1) || image[1] < Int(1)) refuse("an image without pixels");
  require(in, kBool | kFloating, self.dtype);
  Dims sizes;
  if (batch) sizes.push_back(self.size(0));
  sizes.push_back(self.size(batch) / area);
  sizes.append(image);
  in.contiguous(sizes, self);
}

}  // namespace

void addColumns(Rows& rows) {
  auto add = [&](const char* schema, InferFn rule) { rows.push_back({schema, rule, Cost::Indexing}); };
  auto addOut = [&](const char* schema, InferFn rule) { rows.push_back({schema, rule, Cost::Indexing, kExactOut}); };
  add("aten::im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride) -> Tensor",
      im2col);
  addOut(
      "aten::im2col.out(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] stride, *, Tensor(a!) "
      "out) -> Tensor(a!)",
      im2col);
  add("aten::col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] "
      "stride) "
      "-> Tensor",
      col2im);
  addOut(
      "aten::col2im.out(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] padding, "
      "int[2] "
      "stride, *, Tensor(a!) out) -> Tensor(a!)",
      col2im);
}

}  // namespace saker::ops
