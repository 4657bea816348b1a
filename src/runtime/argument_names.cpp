#include "runtime/argument_names.h"

#include "ir/parameter_names.h"

namespace saker::runtime {

void nameArguments(Program& program, std::span<const std::string> names) {
  std::vector<std::string> ofParameters;
  for (const Source& source : program.sources) {
    bool named = source.kind == Source::Kind::Argument && source.argument < names.size();
    ofParameters.push_back(named ? names[source.argument] : "");
  }
  ir::nameParameters(*program.graph, ofParameters);
}

std::vector<std::string> argumentNames(const Program& program) {
  std::vector<std::string> out(program.arguments);
  std::span<ir::Value* const> parameters = program.graph->top()->parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Source& source = program.sources[i];
    if (source.kind == Source::Kind::Argument && source.argument < out.size()) {
      out[source.argument] = parameters[i]->name();
    }
  }
  return out;
}

}  // namespace saker::runtime
