// What one element is: pooling over windows, which are written out, and interpolation to other sizes.
#include <cmath>
#include <limits>

#include "ops/element.h"

namespace saker::ops {
namespace {

// ---- pooling of planes: the last two dimensions ----

struct Window {
  int64_t size, stride, padding, dilation = 1;
  int64_t input, output;  // sizes of the dimension
};

std::vector<int64_t> twoNumbers(const Infer& in, size_t i) {
  std::vector<int64_t> numbers;
  for (Int each : in.ints(i)) {
    if (!each.isConst()) notLowered("a window that changes");
    numbers.push_back(each.constant());
  }
  if (numbers.size() == 1) numbers.push_back(numbers[0]);
  return numbers;
}

// `at`: where the kernel's size stands, then stride, padding and dilation if there is one.
std::vector<Window> windowsOf(const Infer& in, const TensorType& input, const TensorType& output, size_t at,
                              bool dilates) {
  std::vector<int64_t> size = twoNumbers(in, at), stride = twoNumbers(in, at + 1), padding = twoNumbers(in, at + 2);
  std::vector<int64_t> dilation = dilates ? twoNumbers(in, at + 3) : std::vector<int64_t>{1, 1};
  if (stride.empty()) stride = size;
  std::vector<Window> windows;
  for (size_t i = 0; i < 2; ++i) {
    Int from = input.size(input.rank - 2 + i), to = output.size(output.rank - 2 + i);
    if (!from.isConst() || !to.isConst()) notLowered("pooling of sizes that change");
    windows.push_back({size[i], stride[i], padding[i], dilation[i], from.constant(), to.constant()});
  }
  constexpr int64_t kMost = 32;  // elements of a window: each is a line or more
  if (size[0] * size[1] > kMost) notLowered("a large window");
  return windows;
}

// Whether a place is inside of [0, size), where that is not known: null, if it always is.
std::optional<Num> isInside(Element& e, const Place& place, bool below, bool above, int64_t size) {
  std::optional<Num> holds;
  if (below) holds = e.number(place) >= 0;
  if (above) {
    Num end = e.number(place) < static_cast<double>(size);
    holds = holds ? *holds & end : end;
  }
  return holds;
}

std::optional<Num> both(std::optional<Num> a, std::optional<Num> b) { return a && b ? *a & *b : a ? a : b; }

// Calls `f(places of the input, number in the plane, whether it is inside)` for each element of the window.
template <typename F>
void eachOfWindow(Element& e, const std::vector<Window>& windows, F&& f) {
  const Places& at = e.places();
  size_t first = at.size() - 2;
  auto inputPlace = [&](size_t i, int64_t step) {
    const Window& w = windows[i];
    return at[first + i] * Int(w.stride) + Place(Int(step * w.dilation - w.padding));
  };
  auto inside = [&](size_t i, int64_t step, const Place& place) {
    const Window& w = windows[i];
    int64_t offset = step * w.dilation - w.padding;
    return isInside(e, place, offset < 0, (w.output - 1) * w.stride + offset >= w.input, w.input);
  };
  for (int64_t y = 0; y < windows[0].size; ++y) {
    for (int64_t x = 0; x < windows[1].size; ++x) {
      Places own = at;
      own[first] = inputPlace(0, y);
      own[first + 1] = inputPlace(1, x);
      Place number = own[first] * Int(windows[1].input) + own[first + 1];
      f(own, number, both(inside(0, y, own[first]), inside(1, x, own[first + 1])));
    }
  }
}

// (self, kernel_size, stride, padding, dilation, ceil_mode)
Num maxPool(Element& e) {
  const TensorType& self = e.in.tensor(0);
  std::vector<Window> windows = windowsOf(e.in, self, e.type(), 1, true);
  DType dtype = computed(self.dtype);
  if (!ir::isFloat(dtype)) notLowered("the largest of integers in a window");
  Num most = e.constant(dtype, -std::numeric_limits<double>::infinity());
  // Of numbers that are all the smallest it is the first one that is inside.
  Num place = e.integer(DType::Int64, 0);
  for (size_t i = 0; i < 2; ++i) {
    const Window& w = windows[i];
    Num begin = e.number(e.places()[e.places().size() - 2 + i] * Int(w.stride) + Place(Int(-w.padding)));
    for (int64_t step = 0; step < w.padding; step += w.dilation)
      begin = select(begin < 0, begin + double(w.dilation), begin);
    place = i == 0 ? begin * static_cast<double>(windows[1].input) : place + begin;
  }
  eachOfWindow(e, windows, [&](const Places& own, const Place& number, std::optional<Num> inside) {
    auto load = [&] { return e.rounded(e.stored(0, own), self.dtype); };
    Num x = inside ? e.where(*inside, load, e.constant(dtype, -std::numeric_limits<double>::infinity())) : load();
    Num larger = (x > most) | isNan(x);
    if (inside) larger = larger & *inside;
    place = select(larger, e.number(number), place);
    most = select(larger, x, most);
  });
  return e.result == 0 ? most : place;
}

// How many elements an average is divided by.
Num divisor(Element& e, const std::vector<Window>& windows, const Places& output, size_t at, DType dtype) {
  if (e.in.given(at + 2)) return e.convert(e.number(Place(e.in.integer(at + 2))), dtype);
  bool countsPadding = e.in.boolean(at + 1, true);
  std::optional<Num> product;
  Int known = 1;
  for (size_t i = 0; i < 2; ++i) {
    const Window& w = windows[i];
    int64_t limit = w.input + (countsPadding ? w.padding : 0), last = (w.output - 1) * w.stride - w.padding;
    if (last + w.size <= limit && (countsPadding || w.padding == 0)) {
      known *= Int(w.size);
      continue;
    }
    Num begin = e.number(output[output.size() - 2 + i] * Int(w.stride) + Place(Int(-w.padding)));
    Num end = min(begin + static_cast<double>(w.size), static_cast<double>(limit));
    if (!countsPadding) begin = max(begin, 0);
    Num length = end - begin;
    product = product ? *product * length : length;
  }
  Num count = e.number(Place(known));
  return e.convert(product ? *product * count : count, dtype);
}

void requireFull(DType dtype) {
  if (dtype != DType::Float32 && dtype != DType::Float64) notLowered("averages of windows in this dtype");
}

// (self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
Num averagePool(Element& e) {
  DType dtype = e.type().dtype;
  requireFull(dtype);
  std::vector<Window> windows = windowsOf(e.in, e.in.tensor(0), e.type(), 1, false);
  Num sum = e.constant(dtype, 0);
  eachOfWindow(e, windows, [&](const Places& own, const Place&, std::optional<Num> inside) {
    auto load = [&] { return e.stored(0, own); };
    sum = sum + (inside ? e.where(*inside, load, e.constant(dtype, 0)) : load());
  });
  return sum / divisor(e, windows, e.places(), 4, dtype);
}

// Calls `f(places of the gradient, whether there is such a window)` for each window that the element is in.
template <typename F>
void eachWindowAround(Element& e, const std::vector<Window>& windows, F&& f) {
  const Places& at = e.places();
  size_t first = at.size() - 2;
  struct Along {
    Place place;
    std::optional<Num> holds;
  };
  std::vector<Along> along[2];
  for (size_t i = 0; i < 2; ++i) {
    const Window& w = windows[i];
    Place shifted = at[first + i] + Place(Int(w.padding));
    auto [quotient, rest] = e.divide(shifted, Int(w.stride));
    for (int64_t back = (w.size - 1) / w.stride; back >= 0; --back) {
      Place window = quotient - Place(Int(back));
      // The last window may end before the element, and there may be none so far.
      std::optional<Num> holds =
          isInside(e, window, back > 0, (w.input - 1 + w.padding) / w.stride - back >= w.output, w.output);
      if (back * w.stride + w.stride > w.size) {
        holds = both(holds, e.number(rest) < static_cast<double>(w.size - back * w.stride));
      }
      along[i].push_back({window, holds});
    }
  }
  for (const Along& y : along[0]) {
    for (const Along& x : along[1]) {
      Places own = at;
      own[first] = y.place;
      own[first + 1] = x.place;
      f(own, both(y.holds, x.holds));
    }
  }
}

// (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
Num averagePoolBackward(Element& e) {
  DType dtype = e.type().dtype;
  requireFull(dtype);
  std::vector<Window> windows = windowsOf(e.in, e.in.tensor(1), e.in.tensor(0), 2, false);
  Num sum = e.constant(dtype, 0);
  eachWindowAround(e, windows, [&](const Places& own, std::optional<Num> holds) {
    auto load = [&] { return e.stored(0, own) / divisor(e, windows, own, 5, dtype); };
    sum = sum + (holds ? e.where(*holds, load, e.constant(dtype, 0)) : load());
  });
  return sum;
}

// (grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices)
Num maxPoolBackward(Element& e) {
  DType dtype = e.type().dtype;
  requireFull(dtype);
  std::vector<Window> windows = windowsOf(e.in, e.in.tensor(1), e.in.tensor(0), 2, true);
  if (windows[0].dilation != 1 || windows[1].dilation != 1) notLowered("windows with holes");
  size_t first = e.places().size() - 2;
  Num own = e.number(e.places()[first] * Int(windows[1].input) + e.places()[first + 1]);
  Num sum = e.constant(dtype, 0);
  eachWindowAround(e, windows, [&](const Places& at, std::optional<Num> holds) {
    Num zero = e.constant(dtype, 0);
    auto load = [&] { return select(e.stored(7, at) == own, e.stored(0, at), zero); };
    sum = sum + (holds ? e.where(*holds, load, zero) : load());
  });
  return sum;
}

// ---- interpolation ----

// (self, output_size, [align_corners,] scales...): what a step of the result is in the input
double scaleOf(const Element& e, size_t dim, size_t scales, bool corners) {
  const TensorType &from = e.in.tensor(0), &to = e.type();
  if (!from.size(dim).isConst() || !to.size(dim).isConst()) notLowered("interpolation of sizes that change");
  auto size = static_cast<double>(from.size(dim).constant()), wanted = static_cast<double>(to.size(dim).constant());
  if (corners) return wanted > 1 ? (size - 1) / (wanted - 1) : 0;
  size_t argument = scales + dim - 2;
  return e.in.given(argument) && e.in.number(argument) > 0 ? 1 / e.in.number(argument) : size / wanted;
}

Num nearest(Element& e) {
  const TensorType &from = e.in.tensor(0), &to = e.type();
  Places own = e.places();
  for (size_t d = 2; d < from.rank; ++d) {
    double scale = scaleOf(e, d, 2, false);
    int64_t size = from.size(d).constant(), wanted = to.size(d).constant();
    if (size == wanted) continue;
    if (wanted == 2 * size) {
      own[d] = e.divide(own[d], Int(2)).first;
      continue;
    }
    Num at = e.convert(e.number(own[d]), DType::Float32) * e.constant(DType::Float32, scale);
    own[d] = e.place(min(e.convert(floor(at), DType::Int64), static_cast<double>(size - 1)));
  }
  return e.at(0, own);
}

// (self, output_size, align_corners, scales_h, scales_w)
Num bilinear(Element& e) {
  const TensorType& from = e.in.tensor(0);
  DType dtype = from.dtype;
  requireFull(dtype);
  bool corners = e.in.boolean(2);
  struct Side {
    Place low, high;
    Num ofLow, ofHigh;
  };
  auto side = [&](size_t d) {
    Num scale = e.constant(dtype, scaleOf(e, d, 3, corners)), at = e.convert(e.number(e.places()[d]), dtype);
    Num real = corners ? scale * at : max(scale * (at + 0.5) - 0.5, 0);
    auto last = static_cast<double>(from.size(d).constant() - 1);
    Num low = min(e.convert(floor(real), DType::Int64), last);
    Num high = min(low + 1, last);
    Num part = min(max(real - e.convert(low, dtype), 0), 1);
    return Side{e.place(low), e.place(high), 1 - part, part};
  };
  Side y = side(2), x = side(3);
  auto row = [&](const Place& place) {
    Places at = e.places();
    at[2] = place;
    at[3] = x.low;
    Num low = e.stored(0, at);
    at[3] = x.high;
    return low * x.ofLow + e.stored(0, at) * x.ofHigh;
  };
  return row(y.low) * y.ofLow + row(y.high) * y.ofHigh;
}

}  // namespace

void addWindowElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  add("max_pool2d_with_indices", maxPool);
  add("max_pool2d_with_indices_backward", maxPoolBackward);
  add("avg_pool2d", averagePool);
  add("avg_pool2d_backward", averagePoolBackward);
  for (const char* name : {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"}) add(name, nearest);
  add("upsample_bilinear2d", bilinear);
}

}  // namespace saker::ops
