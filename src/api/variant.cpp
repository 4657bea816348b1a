#include "api/variant.h"

#include <c10/core/ScalarType.h>

#include <algorithm>

namespace saker::api {

namespace {

// The references that a compiled function holds to a tensor that it closes over.
size_t referencesTo(const at::Tensor& tensor, const aot::Joint& joint) {
  size_t count = 0;
  for (const at::Tensor& closed : joint.closed) count += closed.is_same(tensor);
  auto add = [&](const runtime::Program* program) {
    for (size_t i = 0; program && i < program->sources.size(); ++i) {
      count += program->sources[i].tensor.is_same(tensor);
    }
  };
  add(joint.program.get());
  add(joint.recording.get());
  return count;
}

}  // namespace

template <typename Kind, typename Geometry>
static void tellCall(const Tensors& inputs, const State& state, Kind& kind, Geometry& geometry) {
  aot::tellSignature(inputs, kind);
  kind.push_back(inputs.size());
  for (const at::Tensor& input : inputs) {
    if (!input.defined()) {
      kind.push_back(~uint64_t{0});
      continue;
    }
    c10::Device device = input.device();
    kind.push_back(static_cast<uint64_t>(input.scalar_type()) | static_cast<uint64_t>(device.type()) << 8 |
                   static_cast<uint64_t>(static_cast<uint8_t>(device.index())) << 16 |
                   static_cast<uint64_t>(input.dim()) << 24);
    c10::IntArrayRef sizes = input.sizes(), strides = input.strides();
    for (int64_t size : sizes) geometry.push_back(static_cast<uint64_t>(size));
    bool empty = input.numel() == 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      geometry.push_back(empty || sizes[i] == 1 ? 0 : static_cast<uint64_t>(strides[i]));
    }
  }
  kind.push_back(state.numbers.size());
  for (int64_t number : state.numbers) kind.push_back(static_cast<uint64_t>(number));
  for (const at::Tensor& tensor : state.tensors) {
    kind.push_back(reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl()));
  }
}

CallKey::CallKey(const Tensors& inputs, const State& state) {
  size_t dims = 0;
  for (const at::Tensor& input : inputs) dims += input.defined() ? static_cast<size_t>(input.dim()) : 0;
  geometry.reserve(2 * dims);
  kind.reserve(5 + 3 * inputs.size() + state.numbers.size() + state.tensors.size());
  tellCall(inputs, state, kind, geometry);
}

void Variant::noteClosed() {
  exactOffsets_ = native->exactOffsets();
  const aot::Joint& joint = native->joint();
  for (const at::Tensor& tensor : joint.closed) {
    size_t own = referencesTo(tensor, joint);
    for (const at::Tensor& each : state.tensors) own += each.is_same(tensor);
    closed_.push_back({tensor.requires_grad(), tensor.use_count() > own ? own : 0});
  }
}

bool Variant::borrowsMemory() const {
  const std::vector<at::Tensor>& tensors = native->joint().closed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (closed_[i].own != 0 || !tensors[i].has_storage()) continue;
    const c10::DataPtr& memory = tensors[i].storage().data_ptr();
    if (memory.get() && !memory.get_context()) return true;
  }
  return false;
}

bool Variant::closedAsBefore() const {
  const std::vector<at::Tensor>& tensors = native->joint().closed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].requires_grad() != closed_[i].requiresGrad || tensors[i].use_count() <= closed_[i].own) return false;
  }
  return true;
}

bool Variant::isStale() const {
  if (!native) return false;
  const std::vector<at::Tensor>& tensors = native->joint().closed;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].use_count() <= closed_[i].own) return true;
  }
  return false;
}

bool Variant::fits(const CallKey& call, const Tensors& inputs) const {
  if (!sameKind(call)) return false;
  if (!native) return true;
  if (symbols.empty() && key.geometry != call.geometry) return false;
  return liesAsBefore(inputs);
}

bool Variant::fitsExactly(const Tensors& inputs, const State& given) const {
  if (!native || !symbols.empty()) return false;
  aot::SignatureMatch kind(key.kind), geometry(key.geometry);
  tellCall(inputs, given, kind, geometry);
  return kind.isWhole() && geometry.isWhole() && liesAsBefore(inputs);
}

bool Variant::liesAsBefore(const Tensors& inputs) const {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (exactOffsets_[i] && inputs[i].defined() && inputs[i].storage_offset() != offsets[i]) return false;
  }
  return closedAsBefore();
}

std::vector<std::string> describe(const Tensors& inputs, std::span<const std::string> names,
                                  std::span<const SizePlace> symbols) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string& out = parts.emplace_back(i < names.size() ? names[i] + ": " : "");
    const at::Tensor& input = inputs[i];
    if (!input.defined()) {
      out += "undefined";
      continue;
    }
    out += c10::toString(input.scalar_type());
    out += "[";
    for (size_t d = 0; d < static_cast<size_t>(input.dim()); ++d) {
      bool changes = std::find(symbols.begin(), symbols.end(), SizePlace(i, d)) != symbols.end();
      out += (d ? ", " : "") + (changes ? "*" : std::to_string(input.sizes()[d]));
    }
    out += "]";
    if (!input.is_contiguous()) {
      out += " with strides [";
      for (size_t d = 0; d < static_cast<size_t>(input.dim()); ++d) {
        out += (d ? ", " : "") + std::to_string(input.strides()[d]);
      }
      out += "]";
    }
    if (!input.device().is_cpu()) out += " on " + input.device().str();
    if (input.requires_grad()) out += " requires_grad";
  }
  return parts;
}

std::string joined(std::span<const std::string> parts) {
  std::string out;
  for (const std::string& part : parts) out += (out.empty() ? "" : ", ") + part;
  return out.empty() ? "no inputs" : out;
}

}  // namespace saker::api
