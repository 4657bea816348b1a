// What one element is: pooling over windows, which are written out, and the nearest element in another size. Mixing
// neighbours (bilinear interpolation) is left to the library, which is faster than loads at computed places.
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

// The one window that an element is in. Where windows overlap the library adds up what comes from each, faster than
// each element finds its windows.
struct Around {
  Places places;              // of the gradient
  std::optional<Num> inside;  // not where it is between two windows
};
Around windowAround(Element& e, const std::vector<Window>& windows) {
  Around found{e.places(), std::nullopt};
  size_t first = found.places.size() - 2;
  for (size_t i = 0; i < 2; ++i) {
    const Window& w = windows[i];
    bool apart = w.size <= w.stride && w.padding == 0 && w.dilation == 1 && w.input == w.output * w.stride;
    if (!apart) notLowered("windows that overlap or do not cover the input");
    auto [window, rest] = e.divide(found.places[first + i], Int(w.stride));
    found.places[first + i] = window;
    if (w.size < w.stride) found.inside = both(found.inside, e.number(rest) < static_cast<double>(w.size));
  }
  return found;
}

// (grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
Num averagePoolBackward(Element& e) {
  DType dtype = e.type().dtype;
  requireFull(dtype);
  std::vector<Window> windows = windowsOf(e.in, e.in.tensor(1), e.in.tensor(0), 2, false);
  Around around = windowAround(e, windows);
  Num grad = e.at(0, around.places) / divisor(e, windows, around.places, 5, dtype);
  return around.inside ? select(*around.inside, grad, 0) : grad;
}

// ---- interpolation ----

// (self, output_size, scales...): what a step of the result is in the input
double scaleOf(const Element& e, size_t dim) {
  const TensorType &from = e.in.tensor(0), &to = e.type();
  if (!from.size(dim).isConst() || !to.size(dim).isConst()) notLowered("interpolation of sizes that change");
  auto size = static_cast<double>(from.size(dim).constant()), wanted = static_cast<double>(to.size(dim).constant());
  return e.in.given(dim) && e.in.number(dim) > 0 ? 1 / e.in.number(dim) : size / wanted;
}

Num nearest(Element& e) {
  const TensorType &from = e.in.tensor(0), &to = e.type();
  Places own = e.places();
  for (size_t d = 2; d < from.rank; ++d) {
    double scale = scaleOf(e, d);
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

}  // namespace

void addWindowElements(ElementRows& rows) {
  auto add = [&](const char* name, ElementFn rule) { rows.push_back({std::string("aten::") + name, rule}); };
  add("max_pool2d_with_indices", maxPool);
  add("avg_pool2d", averagePool);
  add("avg_pool2d_backward", averagePoolBackward);
  for (const char* name : {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d"}) add(name, nearest);
}

}  // namespace saker::ops
