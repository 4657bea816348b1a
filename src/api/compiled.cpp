#include "api/compiled.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "aot/check.h"
#include "api/compile_call.h"
#include "ir/print.h"
#include "runtime/single_call.h"

namespace saker::api {

namespace {

// How often sizes that are symbols already are made symbols once more, because what the function decided on them (a
// guard) does not hold for a call. Then each set of sizes gets a variant of its own.
constexpr size_t kMostGuardedVariants = 3;

// Once that many calls in a row have been one small operator, as many more go on without being looked at, again and
// again until one of those that are is another one.
constexpr uint32_t kManySmall = 16, kUnlooked = 64;

// Is a call nothing but one small operator?
bool isSmall(const aot::CompiledFunction& native) {
  const aot::Joint& joint = native.joint();
  const ir::Node* first = joint.recording->graph->top()->first();
  if (!first || first->isReturn() || first->id() >= joint.forwardNodes) return false;
  const ir::Node* next = first->next();
  return (!next || next->isReturn() || next->id() >= joint.forwardNodes) && runtime::isSmallOperator(*first);
}

bool sameTensors(const State& a, const State& b) {
  return std::equal(a.tensors.begin(), a.tensors.end(), b.tensors.begin(), b.tensors.end(),
                    [](const at::Tensor& left, const at::Tensor& right) { return left.is_same(right); });
}

// Sizes of `now` that were others in `then`. 0 and 1 mean other things in PyTorch, and stay what they are.
void addChanged(const Tensors& inputs, const CallKey& then, const CallKey& now, std::vector<SizePlace>& places) {
  size_t at = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_t rank = inputs[i].defined() ? static_cast<size_t>(inputs[i].dim()) : 0;
    for (size_t d = 0; d < rank; ++d) {
      uint64_t before = then.geometry[at + d], after = now.geometry[at + d];
      bool known = std::find(places.begin(), places.end(), SizePlace(i, d)) != places.end();
      if (before != after && before >= 2 && after >= 2 && !known) places.emplace_back(i, d);
    }
    at += 2 * rank;
  }
}

std::vector<SizePlace> everySize(const Tensors& inputs) {
  std::vector<SizePlace> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t d = 0; inputs[i].defined() && d < static_cast<size_t>(inputs[i].dim()); ++d) {
      if (inputs[i].sizes()[d] >= 2) places.emplace_back(i, d);
    }
  }
  return places;
}

bool contains(const std::vector<SizePlace>& all, const std::vector<SizePlace>& some) {
  return std::all_of(some.begin(), some.end(),
                     [&](const SizePlace& place) { return std::find(all.begin(), all.end(), place) != all.end(); });
}

std::string milliseconds(double time) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f ms", time);
  return text;
}

}  // namespace

CompiledCalls::CompiledCalls(Function function, CompileOptions options)
    : function_(std::move(function)), options_(std::move(options)) {
  if (!function_) throw std::invalid_argument("saker::compile: the function is empty");
  if (options_.limit == 0) throw std::invalid_argument("saker::compile: limit is 0, and has to be 1 or more");
  if (!(options_.memoryBudget >= 0 && options_.memoryBudget <= 1)) {
    throw std::invalid_argument("saker::compile: memoryBudget is " + std::to_string(options_.memoryBudget) +
                                ", and has to be between 0 and 1");
  }
}

CompiledCalls::Known CompiledCalls::known() const {
  std::shared_lock held(lock_);
  return variants_;
}

// Whether such calls are what they were is looked at seldom: calling the function is always right.
bool CompiledCalls::goesOn() {
  uint32_t left = unlooked_.load(std::memory_order_relaxed);
  if (left == 0) return false;
  unlooked_.store(left - 1, std::memory_order_relaxed);
  calls_.fetch_add(1, std::memory_order_relaxed);
  eagerCalls_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Tensors CompiledCalls::call(const Tensors& inputs) {
  if (goesOn()) return function_(inputs);
  ++calls_;
  if (aot::threadBelongsToEager()) {
    return callEagerly(inputs, "the call is inside of a capture, of anomaly detection or of a dispatch mode");
  }
  if (aot::belongToEager(inputs)) {
    return callEagerly(inputs, "an input is no plain dense tensor");
  }
  State state = options_.state ? options_.state() : State{};
  if (std::optional<Tensors> results = runLatest(*known(), inputs, state)) return std::move(*results);
  CallKey key(inputs, state);
  for (bool again = false;; again = true) {
    Known variants = known();
    if (std::optional<Tensors> results = runKnown(*variants, key, inputs)) return std::move(*results);
    if (again) return callEagerly(inputs, "what was compiled for the call does not fit it");
    std::string raises = addVariant(variants, key, inputs, state);
    if (raises.empty()) continue;
    Tensors results = callEagerly(inputs, raises);
    // It raised an error on stand-ins only.
    if (options_.fullgraph) throw CaptureError("saker::compile: " + raises);
    auto variant = std::make_shared<Variant>(key, inputs, state);
    variant->reason = raises;
    variant->inputs = describe(inputs, options_.names, {});
    if (makeRoom(state)) keep(std::move(variant));
    return results;
  }
}

std::optional<Tensors> CompiledCalls::runLatest(const List& variants, const Tensors& inputs, const State& state) {
  size_t at = latest_.load(std::memory_order_relaxed);
  if (at >= variants.size() || !variants[at]->fitsExactly(inputs, state)) return std::nullopt;
  return run(*variants[at], inputs);
}

// Nothing: it does not fit after all.
std::optional<Tensors> CompiledCalls::run(const Variant& variant, const Tensors& inputs) {
  if (variant.isSmall) {
    ++variant.calls;
    if (++small_ >= kManySmall) unlooked_ = kUnlooked;
    return callEagerly(inputs);
  }
  small_ = 0;
  std::optional<Tensors> results;
  try {
    results = (*variant.native)(inputs);
  } catch (const aot::WrongArguments&) {
    return std::nullopt;
  } catch (const runtime::RunError& error) {
    throw RunError(std::string("saker::compile: ") + error.what());
  }
  if (!results) {
    return callEagerly(inputs,
                       "autograd may refuse a write to an input, or an input shares memory with a tensor "
                       "that the function closes over");
  }
  ++variant.calls;
  ++compiledCalls_;
  return results;
}

std::optional<Tensors> CompiledCalls::runKnown(const List& variants, const CallKey& key, const Tensors& inputs) {
  // Those of fixed sizes first: what they need is compared at once. Those that stand for eager mode last.
  auto rankOf = [](const Variant& variant) { return !variant.native ? 2 : variant.symbols.empty() ? 0 : 1; };
  for (int rank : {0, 1, 2}) {
    for (size_t i = 0; i < variants.size(); ++i) {
      const Variant* variant = variants[i].get();
      if (rankOf(*variant) != rank || !variant->fits(key, inputs)) continue;
      if (!variant->native) {
        if (options_.fullgraph) throw CaptureError("saker::compile: " + variant->reason);
        ++variant->calls;
        return callEagerly(inputs);
      }
      if (std::optional<Tensors> results = run(*variant, inputs)) {
        latest_.store(i, std::memory_order_relaxed);
        return results;
      }
    }
  }
  return std::nullopt;
}

std::vector<SizePlace> CompiledCalls::sizesToChange(const List& variants, const CallKey& key,
                                                    const Tensors& inputs) const {
  if (options_.sizes == CompileOptions::Sizes::Fixed) return {};
  std::vector<SizePlace> places;
  if (options_.sizes == CompileOptions::Sizes::Symbolic) places = everySize(inputs);
  for (const std::shared_ptr<const Variant>& variant : variants) {
    if (variant->native && variant->sameKind(key)) addChanged(inputs, variant->key, key, places);
  }
  auto tried = std::count_if(variants.begin(), variants.end(), [&](const std::shared_ptr<const Variant>& variant) {
    return !variant->symbols.empty() && variant->sameKind(key) && contains(variant->symbols, places);
  });
  if (static_cast<size_t>(tried) >= kMostGuardedVariants) return {};
  return places;
}

std::string CompiledCalls::addVariant(const Known& before, const CallKey& key, const Tensors& inputs,
                                      const State& state) {
  std::lock_guard compiling(compiling_);
  if (known() != before) return {};
  if (!makeRoom(state)) {
    std::string why = beyondLimit(inputs);
    if (options_.fullgraph) throw RunError("saker::compile: " + why);
    return why;
  }
  std::vector<SizePlace> places = sizesToChange(*before, key, inputs);
  auto start = std::chrono::steady_clock::now();
  ++captures_;
  Outcome outcome = compileCall(function_, inputs, places, options_.memoryBudget);
  if (!outcome.compiled && !places.empty()) {
    ++captures_;
    places.clear();
    outcome = compileCall(function_, inputs, {}, options_.memoryBudget);
  }
  std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
  milliseconds_.fetch_add(time.count());
  checkState(state);
  if (outcome.raises) return outcome.reason;
  auto variant = std::make_shared<Variant>(key, inputs, state);
  variant->native = std::move(outcome.compiled);
  variant->reason = std::move(outcome.reason);
  variant->inputs = describe(inputs, options_.names, places);
  variant->symbols = std::move(places);
  variant->milliseconds = time.count();
  if (variant->native) {
    variant->noteClosed();
    variant->isSmall = !options_.compileSmall && !options_.fullgraph && isSmall(*variant->native);
    if (variant->borrowsMemory()) {
      variant->native = nullptr;
      variant->symbols.clear();
      variant->reason =
          "the function makes a tensor of memory that it does not own (torch::from_blob), and that may "
          "be gone in the next call (make the tensor outside of the function, or pass it as an input)";
    }
  }
  keep(std::move(variant));
  return {};
}

void CompiledCalls::checkState(const State& before) const {
  if (!options_.state || sameTensors(options_.state(), before)) return;
  throw CaptureError(
      "saker::compile: the function has put another tensor in the place of one that it keeps, which a compiled "
      "function cannot do (write into the tensor that is there, with copy_ or add_; the one that it put there has no "
      "data)");
}

void CompiledCalls::keep(std::shared_ptr<Variant> variant) {
  std::unique_lock held(lock_);
  auto list = std::make_shared<List>(*variants_);
  list->push_back(std::move(variant));
  variants_ = std::move(list);
}

bool CompiledCalls::makeRoom(const State& state) {
  std::unique_lock held(lock_);
  auto list = std::make_shared<List>(*variants_);
  auto drop = [&](auto&& isOld) { std::erase_if(*list, [&](const auto& variant) { return isOld(*variant); }); };
  drop([](const Variant& variant) { return variant.isStale(); });
  // Tensors that the state no longer names have been replaced, most likely.
  if (list->size() >= options_.limit) {
    drop([&](const Variant& variant) { return !sameTensors(variant.state, state); });
  }
  bool room = list->size() < options_.limit;
  Known before = list->size() < variants_->size() ? std::exchange(variants_, std::move(list)) : nullptr;
  held.unlock();  // before what is dropped is freed
  return room;
}

Tensors CompiledCalls::callEagerly(const Tensors& inputs, const std::string& reason) {
  ++eagerCalls_;
  if (!reason.empty()) {
    std::unique_lock held(lock_);
    lastEager_ = reason;
  }
  return function_(inputs);
}

std::string CompiledCalls::beyondLimit(const Tensors& inputs) const {
  std::vector<std::string> given = describe(inputs, options_.names, {});
  // The variant that differs in the fewest inputs tells the most.
  Known variants = known();
  const Variant* nearest = nullptr;
  std::vector<size_t> differing;
  for (const std::shared_ptr<const Variant>& variant : *variants) {
    if (variant->inputs.size() != given.size()) continue;
    std::vector<size_t> places;
    for (size_t i = 0; i < given.size(); ++i) {
      if (variant->inputs[i] != given[i]) places.push_back(i);
    }
    if (!nearest || places.size() < differing.size()) nearest = variant.get(), differing = std::move(places);
  }
  std::string out = "the limit of " + std::to_string(options_.limit) + " variants is reached, and the call fits none: ";
  if (!nearest) {
    out += "it has " + std::to_string(given.size()) + " inputs";
  } else if (differing.empty()) {
    out += "the state of autograd or of the thread, or a tensor that the function closes over, is another one";
  } else {
    size_t i = differing.front();
    out += "input " + std::to_string(i) + " is " + given[i] + ", and the nearest variant is for " + nearest->inputs[i];
  }
  return out + " (raise CompileOptions::limit, or give inputs that differ less)";
}

CompileStats CompiledCalls::stats() const {
  return {.calls = calls_,
          .compiledCalls = compiledCalls_,
          .eagerCalls = eagerCalls_,
          .captures = captures_,
          .variants = known()->size(),
          .compileMilliseconds = milliseconds_};
}

std::string CompiledCalls::report() const {
  CompileStats now = stats();
  std::string out = std::to_string(now.calls) + " calls, " + std::to_string(now.compiledCalls) + " compiled, " +
                    std::to_string(now.eagerCalls) + " eager; " + std::to_string(now.variants) +
                    " variants, the limit is " + std::to_string(options_.limit) + "\n";
  Known variants = known();
  for (const std::shared_ptr<const Variant>& variant : *variants) {
    out += "  (" + joined(variant->inputs) + "): " + std::to_string(variant->calls) + " calls, ";
    if (!variant->native) {
      out += "eager: " + variant->reason + "\n";
      continue;
    }
    const aot::CompiledFunction& native = *variant->native;
    if (variant->isSmall) {
      out += "of those that were looked at: one small operator, and nothing to gain, so that they go on as they are\n";
      continue;
    }
    out += "compiled in " + milliseconds(variant->milliseconds) + ", forward " +
           std::to_string(native.forwardGraph().liveNodes() - 1) + " operators";
    if (native.training()) out += ", backward " + std::to_string(native.backwardGraph().liveNodes() - 1);
    std::vector<std::string> guards = native.joint().program->guards();
    if (!guards.empty()) out += ", where " + joined(guards);
    out += "\n";
  }
  std::shared_lock held(lock_);
  if (!lastEager_.empty()) out += "  a call ran eagerly: " + lastEager_ + "\n";
  return out;
}

std::string CompiledCalls::text() const {
  std::string out;
  Known variants = known();
  for (const std::shared_ptr<const Variant>& variant : *variants) {
    if (!variant->native) continue;
    out += ir::print(variant->native->forwardGraph());
    if (variant->native->training()) out += ir::print(variant->native->backwardGraph());
  }
  return out;
}

}  // namespace saker::api

namespace saker {

Compiled::Compiled(Function function, CompileOptions options)
    : calls_(std::make_shared<api::CompiledCalls>(std::move(function), std::move(options))) {}

Tensors Compiled::operator()(const Tensors& inputs) const { return calls_->call(inputs); }
bool Compiled::goesOn() const { return calls_->goesOn(); }
CompileStats Compiled::stats() const { return calls_->stats(); }
std::string Compiled::report() const { return calls_->report(); }
std::string Compiled::text() const { return calls_->text(); }

}  // namespace saker
