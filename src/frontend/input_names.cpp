#include "frontend/input_names.h"

#include <string_view>

#include "frontend/place_loads.h"
#include "runtime/argument_names.h"

namespace saker::frontend {

namespace {

std::string keyText(const GuardInstruction& load) {
  PyObject* key = load.object.get();
  const char* text = key && PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
  if (!text) PyErr_Clear();
  return text ? text : "";
}

// The dicts in which a torch.nn.Module keeps what belongs to it.
bool keepsParts(std::string_view name) { return name == "_modules" || name == "_parameters" || name == "_buffers"; }

// The load of a key out of one of the dicts of a module; else nullptr.
const GuardInstruction* partOf(const PlaceLoads& loads, const GuardInstruction* key) {
  if (!key || key->op != GuardOp::Key) return nullptr;
  const GuardInstruction* dict = loads.before(*key);
  bool named = dict && (dict->op == GuardOp::Key || dict->op == GuardOp::Attribute);
  return named && keepsParts(keyText(*dict)) && !keyText(*key).empty() ? key : nullptr;
}

// The load of the module that such a dict belongs to: the dict is its attribute, or a key of its __dict__.
const GuardInstruction* ownerOf(const PlaceLoads& loads, const GuardInstruction& part) {
  const GuardInstruction* dict = loads.before(part);
  const GuardInstruction* owner = loads.before(*dict);
  return dict->op == GuardOp::Key && owner && owner->op == GuardOp::DictOf ? loads.before(*owner) : owner;
}

std::string nameOf(const PlaceLoads& loads, uint32_t place) {
  std::string name;
  for (const GuardInstruction* at = partOf(loads, loads[place]); at; at = partOf(loads, ownerOf(loads, *at))) {
    name = name.empty() ? keyText(*at) : keyText(*at) + "." + name;
  }
  return name;
}

}  // namespace

void nameInputs(runtime::Program& program, const Guards& guards, std::span<const uint32_t> places) {
  PlaceLoads loads(guards);
  std::vector<std::string> names;
  for (uint32_t place : places) names.push_back(nameOf(loads, place));
  runtime::nameArguments(program, names);
}

}  // namespace saker::frontend
