#include "ir/context.h"

#include "ir/torch_facts.h"

namespace saker::ir {

const TorchFacts kNewestTorch;

const OpDef* Context::op(std::string_view qualified) {
  if (auto found = ops_.find(qualified); found != ops_.end()) return found->second;
  const OpDef* op = lookup_ ? lookup_(qualified) : nullptr;
  if (!op) {
    unknownOps_.push_back(std::make_unique<OpDef>());
    unknownOps_.back()->qualified = qualified;
    op = unknownOps_.back().get();
  }
  // The key must outlive the caller's text.
  ops_.emplace(op->qualified == qualified ? std::string_view(op->qualified) : arena_.copy(qualified), op);
  return op;
}

const Location* Context::location(std::string_view file, int line, std::string_view function,
                                  std::string_view modulePath, const Location* caller) {
  uint64_t hash = hashMix(static_cast<uint64_t>(line), caller ? caller->hash : 0);
  for (std::string_view text : {file, function, modulePath}) {
    hash = hashMix(hash, std::hash<std::string_view>()(text));
  }
  return locations_.findOrMake(
      hash,
      [&](const Location& known) {
        return known.line == line && known.caller == caller && known.file == file && known.function == function &&
               known.modulePath == modulePath;
      },
      [&] {
        return arena_.make<Location>(
            Location{hash, arena_.copy(file), line, arena_.copy(function), arena_.copy(modulePath), caller});
      });
}

const OpaqueRef* Context::opaque(std::string_view className, uint64_t number) {
  return arena_.make<OpaqueRef>(OpaqueRef{arena_.copy(className), number});
}

const OpDef detail::returnOp{"return", nullptr, false};

}  // namespace saker::ir
