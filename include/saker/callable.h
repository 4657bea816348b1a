// How functions that take and give single tensors are called with lists of them, so that saker::compile takes a lambda
// or a module as it is written. Programs include saker/saker.h.
#pragma once

#include <ATen/core/Tensor.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace saker {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors& inputs)>;

namespace detail {

template <size_t>
using TensorAt = const at::Tensor&;

template <typename Callable, typename Indices>
struct TakesCount : std::false_type {};
template <typename Callable, size_t... I>
struct TakesCount<Callable, std::index_sequence<I...>> : std::is_invocable<Callable&, TensorAt<I>...> {};
// May it be called with that many tensors?
template <typename Callable, size_t count>
inline constexpr bool takes = TakesCount<Callable, std::make_index_sequence<count>>::value;

// --- results: a tensor, a list of them, a pair or a tuple ---

inline Tensors listOf(at::Tensor result) { return {std::move(result)}; }
inline Tensors listOf(Tensors results) { return results; }
template <typename... Each>
Tensors listOf(std::tuple<Each...> results) {
  return std::apply([](auto&... each) { return Tensors{std::move(each)...}; }, results);
}
template <typename First, typename Second>
Tensors listOf(std::pair<First, Second> results) {
  return {std::move(results.first), std::move(results.second)};
}

template <typename Result>
Result resultOf(Tensors results) {
  if constexpr (std::same_as<Result, at::Tensor>) {
    return std::move(results.at(0));
  } else if constexpr (std::same_as<Result, Tensors>) {
    return results;
  } else {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return Result(std::move(results.at(I))...);
    }(std::make_index_sequence<std::tuple_size_v<Result>>());
  }
}

inline constexpr size_t kMostTensors = 12;

// Calls it with as many tensors as there are.
template <size_t count, typename Callable>
Tensors callWith(Callable& callable, const Tensors& inputs) {
  if constexpr (takes<Callable, count>) {
    if (inputs.size() == count) {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return listOf(callable(inputs[I]...));
      }(std::make_index_sequence<count>());
    }
  }
  if constexpr (count < kMostTensors) {
    return callWith<count + 1>(callable, inputs);
  } else {
    throw std::invalid_argument("saker::compile: the function does not take " + std::to_string(inputs.size()) +
                                " tensors");
  }
}

// A module of LibTorch behind a pointer or a holder, without its header.
template <typename Pointer>
concept PointsToModule = requires(const Pointer& module) {
  module->parameters();
  module->buffers();
  module->modules();
  { module->is_training() } -> std::convertible_to<bool>;
};

template <typename Callable>
concept TakesList = !PointsToModule<Callable> && std::is_invocable_r_v<Tensors, Callable&, const Tensors&>;

template <typename Callable, size_t count = 0>
constexpr bool takesSingleTensors() {
  if constexpr (takes<Callable, count>) {
    return true;
  } else if constexpr (count < kMostTensors) {
    return takesSingleTensors<Callable, count + 1>();
  } else {
    return false;
  }
}
template <typename Callable>
concept TakesTensors = !PointsToModule<Callable> && !TakesList<Callable> && takesSingleTensors<Callable>();

// A module's forward as a callable.
template <typename Pointer>
struct Forward {
  Pointer module;
  template <typename... Each>
  auto operator()(const Each&... inputs) -> decltype(std::declval<Pointer&>()->forward(inputs...)) {
    return module->forward(inputs...);
  }
};

}  // namespace detail
}  // namespace saker
