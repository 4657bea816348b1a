#include "frontend/dynamic.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <unordered_set>

#include "aten/memory.h"
#include "aten/sym_node.h"
#include "capture/capture.h"
#include "capture/trace_tensor.h"
#include "capture/undo.h"
#include "capture/zero_tensors.h"
#include "frontend/log.h"
#include "frontend/subjects/subjects.h"
#include "frontend/surroundings.h"
#include "frontend/user_names.h"
#include "host/errors.h"
#include "host/gil.h"
#include "host/kept_error.h"
#include "host/objects.h"
#include "host/symbol_watch.h"
#include "host/trace_host.h"
#include "runtime/geometry.h"
#include "runtime/shown.h"
#include "watch/loop.h"

namespace saker::frontend {

namespace {

// Has the trace refused something? The program may have caught the error and gone another way.
thread_local bool refused = false;

std::exception_ptr refuse(const ops::Refusal& refusal, const std::string& op, const ir::Location* location) {
  refused = true;
  return pythonHost().error(refusal, op, location);
}

std::string pendingError() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  Ref text = Ref::steal(value ? PyObject_Str(value) : nullptr);
  const char* data = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  std::string out = data ? data : "it raised an exception or changed something";
  PyErr_Restore(type, value, trace);
  return out;
}

// The index of a stand-in that is no argument: it stands in an object of the program.
constexpr size_t kPlanted = size_t{1} << 32;

// Symbols in place of numbers in the program's own dicts, closures, lists and slots, which are put back.
class Planted {
 public:
  Planted() = default;
  ~Planted() {
    const KeptError kept;
    for (auto each = before_.rbegin(); each != before_.rend(); ++each) {
      each->holder.put(each->value.get());
    }
    PyErr_Clear();
  }
  Planted(const Planted&) = delete;
  Planted& operator=(const Planted&) = delete;

  void put(const ChangedNumber& number, PyObject* symbol) {
    before_.push_back(number);
    number.holder.put(symbol);
  }

 private:
  std::vector<ChangedNumber> before_;
};

size_t symbolsOf(const std::vector<StandIn>& arguments) {
  size_t count = 0;
  for (const StandIn& argument : arguments) count += argument.dims.size();
  return count;
}

// Does a guard ask for an object that only this call has seen?
bool holdsDouble(const Guards& guards, const Doubles& doubles) {
  bool holds = false;
  guards.eachObject([&](PyObject* object) { holds |= object && doubles.isDouble(object); });
  return holds;
}

// Tensors that the trace met elsewhere are inputs like the others.
bool closedToArguments(runtime::Program& program, const Recorder& recorder, Segment& segment,
                       std::vector<at::Tensor>& examples) {
  for (size_t i = 0; i < program.sources.size(); ++i) {
    runtime::Source& source = program.sources[i];
    if (source.kind == runtime::Source::Kind::Flat) return false;
    if (source.kind == runtime::Source::Kind::Argument || source.literal) continue;
    bool gradient = source.kind == runtime::Source::Kind::Gradient;
    at::Tensor met = gradient ? source.tensor.grad() : source.tensor;
    uint32_t place = recorder.placeOfTensor(met);
    if (place == kInside) return false;
    examples.push_back(std::move(met));
    source = {runtime::Source::Kind::Argument, program.arguments, {}, false};
    program.sameAs.push_back(program.arguments++);
    program.argumentWrites.push_back(program.closedWrites[i]);
    program.closedWrites[i] = 0;
    segment.inputs.push_back(place);
  }
  return true;
}

}  // namespace

namespace {

void collectSymbols(const sym::Node* node, std::unordered_set<const sym::Node*>& found) {
  if (node->isSymbol()) found.insert(node);
  for (const sym::Node* operand : node->args()) collectSymbols(operand, found);
}

// Takes from the sizes and numbers that are symbols those that the program has seen for what they are, or decided on:
// they stay what they are in this call. `symbolOf` tells the symbol of a dimension of an argument.
template <typename SymbolOf>
void fix(std::vector<StandIn>& arguments, SymbolOf symbolOf, std::span<const sym::Node* const> expressions) {
  std::unordered_set<const sym::Node*> symbols;
  for (const sym::Node* node : expressions) collectSymbols(node, symbols);
  std::vector<StandIn> left;
  for (size_t i = 0; i < arguments.size(); ++i) {
    StandIn& argument = arguments[i];
    std::erase_if(argument.dims, [&](size_t dim) { return symbols.contains(symbolOf(i, dim)); });
    if (!argument.dims.empty()) left.push_back(std::move(argument));
  }
  arguments = std::move(left);
}

// Does the program write to memory that several of its inputs see?
bool writesShared(const runtime::Program& program, const std::vector<at::Tensor>& inputs) {
  std::vector<bool> written = runtime::writtenParameters(*program.graph);
  if (std::find(written.begin(), written.end(), true) == written.end()) return false;
  return !aten::sharingPairs(inputs).empty();
}

// The same of an input that the trace met elsewhere, from `first` on: it does not know that this one shares memory.
bool writesSharedElsewhere(const runtime::Program& program, const std::vector<at::Tensor>& inputs, size_t first) {
  if (inputs.size() == first || !writesShared(program, inputs)) return false;
  auto pairs = aten::sharingPairs(inputs);
  return std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) { return pair.second >= first; });
}

// Did the trace take two tensors of the program for one input, since they lie at the same place of the same memory?
// In another call they may lie apart.
bool takesForOne(const Recorder& recorder, const std::vector<at::Tensor>& inputs) {
  for (const auto& [impl, place] : recorder.provenance().tensors()) {
    PyObject* object = recorder.provenance().at(place);
    if (!isTensor(object) || tracing::traceTensor(*impl)) continue;
    const at::Tensor& tensor = tensorOf(object);
    auto same = [&](const at::Tensor& input) { return input.is_same(tensor); };
    if (!tensor.defined() || !tensor.has_storage() || std::any_of(inputs.begin(), inputs.end(), same)) continue;
    for (const at::Tensor& input : inputs) {
      if (input.has_storage() && !aten::sharingPairs(std::array{input, tensor}).empty()) return true;
    }
  }
  return false;
}

// One attempt. Where the program saw symbols, these are taken from `arguments`. `apart`: inputs are taken to lie apart,
// and it is taken back where that matters.
std::unique_ptr<Segment> attempt(PyObject* function, const Ambient& before, const CallArguments& call,
                                 std::vector<StandIn>& arguments, const std::vector<ChangedNumber>& held,
                                 std::vector<at::Tensor>& examples, std::optional<Stop>& why, bool& apart) {
  std::vector<at::Tensor> tensors;
  std::vector<size_t> numbers;  // by argument: of its tensor. One tensor may be found in several places
  std::vector<tracing::DynamicSize> sizes;
  for (const StandIn& argument : arguments) {
    auto same = [&](const at::Tensor& tensor) { return tensor.is_same(argument.real); };
    auto known = std::find_if(tensors.begin(), tensors.end(), same);
    numbers.push_back(static_cast<size_t>(known - tensors.begin()));
    if (known != tensors.end()) continue;
    for (size_t dim : argument.dims) {
      if (!argument.isFloat()) sizes.push_back({tensors.size(), dim, ""});
    }
    tensors.push_back(argument.real);
  }
  tracing::Host host = pythonHost();
  host.error = &refuse;
  refused = false;
  auto segment = std::make_unique<Segment>();
  segment->ambient = before;
  Surroundings surroundings;
  SymbolWatch watch;
  try {
    std::vector<size_t> memories(apart ? tensors.size() : 0);
    std::iota(memories.begin(), memories.end(), size_t{0});
    tracing::Capture capture(host, tensors, sizes, memories);
    capture.trace().undo().takeBackAtOnce();
    capture.trace().noteInferenceMode();
    std::vector<const sym::Node*> floats(tensors.size());  // of those that hold one
    auto fixSeen = [&] {
      auto symbolOf = [&](size_t argument, size_t dim) -> const sym::Node* {
        if (const sym::Node* number = floats[numbers[argument]]) return number;
        const at::Tensor& given = capture.arguments()[numbers[argument]];
        const aten::SymNode* size = aten::ourNode(given.sym_size(static_cast<int64_t>(dim)));
        return size ? size->node() : nullptr;
      };
      fix(arguments, symbolOf, watch.seen());
    };
    std::vector<PyObject*> values(call.values, call.values + argumentCount(call));
    std::vector<Ref> wrapped(tensors.size());
    Doubles doubles;
    Planted planted;
    for (size_t i = 0; i < arguments.size(); ++i) {
      StandIn& argument = arguments[i];
      const at::Tensor& standIn = capture.arguments()[numbers[i]];
      Ref& given = wrapped[numbers[i]];
      if (!given && argument.isFloat()) {
        double example = *static_cast<const double*>(argument.real.const_data_ptr());
        sym::Float number = capture.numberIn(numbers[i], example);
        floats[numbers[i]] = number.node();
        given = wrapSymFloat(aten::toSymFloat(capture.trace().context(), number));
      } else if (!given) {
        given = argument.number ? wrapSymInt(standIn.sym_size(0)) : Ref::steal(wrapTensor(standIn));
      }
      argument.given = given;
      if (argument.index >= kPlanted) {
        planted.put(held[argument.index - kPlanted], given.get());
        continue;
      }
      if (!doubles.put(values[argument.index], argument.path, given.get())) {
        why = Why::CopyFailed;
        return nullptr;
      }
    }
    tracing::Tape unused(host);
    CallArguments given{values.data(), call.positional, call.names};
    std::vector<Ref> modes = functionModes();
    Recorder recorder(unused, function, given, /*raising=*/true, arguments, /*scalarsAreData=*/false, &doubles);
    Ref result = Ref::steal(watch::run(recorder, function, values.data(), call.positional, call.names));
    bool leavesModes = recorder.subjects().flags.leftModes().has_value();
    if (leavesModes) setFunctionModes(modes);
    bool seen = !watch.seen().empty() || !watch.failure().empty();
    if (!result || leavesModes || recorder.abandoned() || refused || seen || !(Ambient::now() == before) ||
        !recorder.balanced()) {
      why = recorder.abandoned() ? *recorder.abandoned()
            : seen               ? Stop(Why::SymbolFailed, watch.failure())
                                 : Stop(Why::AttemptRaised, pendingError());
      PyErr_Clear();
      fixSeen();
      return nullptr;
    }
    why = recorder.seal();
    if (!why && holdsDouble(recorder.guards(), doubles)) why = Why::IdentityDecides;
    if (why) return nullptr;
    auto made = [](const at::Tensor& tensor) { return tracing::traceTensor(*tensor.unsafeGetTensorImpl()) != nullptr; };
    Cookbook book(recorder, made);
    std::optional<uint32_t> returned = book.write(result.get());
    if (!returned || !segment->addEffects(recorder, book)) {
      why = book.refusal();
      return nullptr;
    }
    segment->exit.result = *returned;
    for (const Ref& standIn : wrapped) {
      uint32_t number = recorder.placeOfNumber(standIn.get());
      segment->inputs.push_back(number == kInside ? recorder.placeOf(standIn.get()) : number);
      if (segment->inputs.back() != kInside) continue;
      why = Why::SizeUnused;
      return nullptr;
    }
    // The program that runs later would have to write to them with the same history: it is recorded as it is.
    if (capture.trace().undo().changesHistories(capture.arguments())) {
      why = Stop(Why::ChangesSomething, "the history of a tensor");
      return nullptr;
    }
    if (std::any_of(book.outputs.begin(), book.outputs.end(), tracing::isZeroTensor)) {
      why = Stop(Why::SymbolFailed, "a result is a tangent without memory");
      return nullptr;
    }
    std::vector<c10::IValue> outputs(book.outputs.begin(), book.outputs.end());
    std::shared_ptr<runtime::Program> program = capture.finish(outputs);
    if (program->userGradients) {
      why = Why::UserGradients;
      return nullptr;
    }
    examples = tensors;
    if (!closedToArguments(*program, recorder, *segment, examples) || takesForOne(recorder, examples)) {
      why = Why::TensorsElsewhere;
      return nullptr;
    }
    if (apart && writesShared(*program, examples)) {
      apart = false;
      return nullptr;
    }
    if (writesSharedElsewhere(*program, examples, tensors.size())) {
      why = Why::TensorsElsewhere;
      return nullptr;
    }
    for (uint32_t writes : program->argumentWrites) segment->writes |= writes != 0;
    segment->alone = segment->writes && !callsUserOperators(*program->graph);
    if (!segment->takeRiskOf(*program)) {
      why = Why::MayFailAfterWrite;
      return nullptr;
    }
    segment->recipes = std::move(book.recipes);
    segment->guards = recorder.takeGuards();
    segment->program = std::move(program);
    segment->dynamic = true;
    return segment;
  } catch (const std::exception& error) {
    std::string text = setPythonError() ? pendingError() : error.what();
    why = Stop(Why::AttemptRaised, text.substr(0, text.find('\n')));
    PyErr_Clear();
  }
  return nullptr;
}

}  // namespace

std::unique_ptr<Segment> captureDynamic(PyObject* function, const Ambient& before, const CallArguments& call,
                                        std::vector<StandIn>& arguments, const std::vector<ChangedNumber>& held,
                                        std::vector<at::Tensor>& examples, std::optional<Stop>& why) {
  for (size_t i = 0; i < held.size() && onlyPythonThread(); ++i) {  // others would see them
    arguments.push_back(numberStandIn(kPlanted + i, {}, held[i].value.get()));
  }
  while (!arguments.empty()) {
    size_t count = symbolsOf(arguments);
    bool apart = true, tried = apart;
    do {
      tried = apart;
      std::unique_ptr<Segment> segment = attempt(function, before, call, arguments, held, examples, why, apart);
      if (segment) return segment;
    } while (tried != apart);
    bool fewer = symbolsOf(arguments) != count;
    // A float that it cannot do with may still be compared.
    if (!fewer && std::erase_if(arguments, [](const StandIn& each) { return each.isFloat(); }) == 0) return nullptr;
    if (!fewer && logs(Topic::Recompiles)) {
      log(Topic::Recompiles, functionName(function) + " is recorded for the floats of this call: " +
                                 (why ? why->text() : "with others it could not be recorded for all sizes"));
    }
  }
  return nullptr;
}

}  // namespace saker::frontend
