#include "aten/infer.h"

#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>

#include "aten/call_text.h"
#include "aten/enums.h"
#include "aten/meta_fallback.h"
#include "aten/torch_version/schemas.h"

namespace saker::aten {

namespace {

std::string qualified(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// False if the dispatcher's schema has an argument that ours has not.
bool findPlaces(const ir::Schema& ours, const c10::FunctionSchema& theirs, std::vector<int>& places) {
  bool same = ours.arguments.size() == theirs.arguments().size();
  size_t found = 0;
  for (size_t i = 0; i < ours.arguments.size(); ++i) {
    std::optional<int> place = theirs.argumentIndexWithName(ours.arguments[i].name);
    std::string_view former = formerName(theirs.name(), ours.arguments[i].name);
    if (!place && !former.empty()) place = theirs.argumentIndexWithName(former);
    places.push_back(place.value_or(-1));
    found += place.has_value();
    same = same && place == static_cast<int>(i);
  }
  if (same) places.clear();
  return found == theirs.arguments().size();
}

}  // namespace

const Inference::Entry* Inference::find(const c10::OperatorHandle& handle) {
  if (auto known = entries_.find(handle); known != entries_.end()) return &known->second;
  const ops::Operator* op = ops::find(qualified(handle.operator_name()));
  if (!op || !handle.hasSchema()) return nullptr;
  Entry entry{op, intMeanings(handle.schema()), {}};
  if (!findPlaces(op->parsed, handle.schema(), entry.places)) return nullptr;
  return &entries_.emplace(handle, std::move(entry)).first->second;
}

std::span<const ir::Arg> Inference::arguments(ir::Context& context, const Entry& entry,
                                              std::span<const c10::IValue> values) {
  arena_.reset({});
  Converter converter(context, arena_, hooks_.unwrap);
  return arguments(converter, arena_, entry, values);
}

std::span<const ir::Arg> Inference::arguments(Converter& converter, Arena& arena, const Entry& entry,
                                              std::span<const c10::IValue> values) {
  std::span<const ir::Arg> args = converter.arguments(entry.meanings, values);
  if (entry.places.empty()) return args;
  ir::Arg* placed = arena.makeArray<ir::Arg>(entry.places.size());
  for (size_t i = 0; i < entry.places.size(); ++i) {
    placed[i] = entry.places[i] >= 0 ? args[static_cast<size_t>(entry.places[i])]
                                     : entry.op->parsed.arguments[i].defaultValue.value_or(ir::Arg());
  }
  return {placed, entry.places.size()};
}

void Inference::observe(ir::Context& context) const {
  context.ambient().defaultDType = toDType(c10::get_default_dtype_as_scalartype());
  context.ambient().gradEnabled = c10::GradMode::is_enabled();
}

Inference::Outcome Inference::infer(ir::Context& context, const c10::OperatorHandle& handle,
                                    std::span<const c10::IValue> values) {
  const Entry* entry = find(handle);
  observe(context);
  Outcome outcome{entry ? Source::Table : Source::Fallback, {}};
  try {
    if (entry) {
      outcome.inferred = ops::infer(*entry->op, context, arguments(context, *entry, values));
    } else {
      ++fallbackCounts_[qualified(handle.operator_name())];
      arena_.reset({});
      Converter converter(context, arena_, hooks_.unwrap);
      outcome.inferred = inferByMetaKernel(converter, context, handle, values, hooks_);
    }
  } catch (const ops::RefusalException& refused) {
    outcome.inferred.results.clear();
    outcome.inferred.refusal = refused.refusal;
  }
  return outcome;
}

std::string Inference::text(ir::Context& context, const c10::OperatorHandle& handle,
                            std::span<const c10::IValue> values) {
  arena_.reset({});
  std::vector<IntMeaning> meanings = intMeanings(handle.schema());
  return callText(qualified(handle.operator_name()),
                  Converter(context, arena_, hooks_.unwrap).arguments(meanings, values));
}

}  // namespace saker::aten
