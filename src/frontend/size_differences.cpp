#include "frontend/size_differences.h"

#include <utility>

#include "frontend/user_names.h"
#include "host/objects.h"
#include "ops/operator.h"
#include "symbolic/context.h"

namespace saker::frontend {

namespace {

class SizeDifferences {
 public:
  SizeDifferences(const Segment& segment, const std::vector<PyObject*>& found) : segment_(segment), found_(found) {
    const ir::Graph& graph = *segment.program->graph;
    size_t count = graph.context().symbols().symbols().size();
    names_.resize(count);
    known_.ints.resize(count);
    known_.floats.resize(count);
  }

  std::string tell() {
    const ir::Graph& graph = *segment_.program->graph;
    for (const ir::Value* parameter : graph.top()->parameters()) {
      const runtime::Source& source = segment_.program->sources[parameter->index()];
      if (source.kind != runtime::Source::Kind::Argument || !parameter->tensor()) continue;
      std::string other = bind(*parameter->tensor(), segment_.inputs[source.argument]);
      if (!other.empty()) return other;
    }
    bindFloats();
    for (const sym::Guard& guard : graph.context().symbols().guards()) {
      if (!sym::evaluateBool(guard.condition, known_).value_or(false)) return tell(*guard.condition);
    }
    return {};
  }

 private:
  // The symbols that an input tells. Not empty: one is another number here than in an earlier input.
  std::string bind(const ir::TensorType& type, uint32_t place) {
    PyObject* object = place < found_.size() ? found_[place] : nullptr;
    if (!object) return {};
    at::Tensor tensor = tensorAt(object);
    bool number = !isTensor(object);
    for (size_t d = 0; type.symbolic && d < type.rank && d < static_cast<size_t>(tensor.dim()); ++d) {
      const sym::Node* symbol = type.size(d).node();
      if (!symbol || !symbol->isSymbol()) continue;
      auto index = static_cast<size_t>(symbol->value);
      std::string name = segment_.guards.shown(place) + (number ? "" : ".size(" + std::to_string(d) + ")");
      int64_t size = tensor.sizes()[d];
      if (known_.ints[index] && known_.ints[index] != size) {
        return name + ": expected " + std::to_string(*known_.ints[index]) + " like " + names_[index] + ", found " +
               std::to_string(size);
      }
      if (!known_.ints[index]) names_[index] = std::move(name);
      known_.ints[index] = size;
    }
    return {};
  }

  // Floats of Python's are read from what they came as.
  void bindFloats() {
    static const ops::Operator* read = ops::find("aten::_local_scalar_dense");
    for (const ir::Node* node = segment_.program->graph->top()->first(); node && !node->isReturn();
         node = node->next()) {
      if (node->op() != read || !node->arg(0).isValue() || !node->arg(0).toValue()->isParameter()) continue;
      const sym::Node* symbol = ir::asScalar(node->result()->type())->expression;
      const runtime::Source& source = segment_.program->sources[node->arg(0).toValue()->index()];
      if (!symbol || symbol->kind != sym::Kind::FloatSymbol || source.kind != runtime::Source::Kind::Argument) continue;
      uint32_t place = segment_.inputs[source.argument];
      PyObject* object = place < found_.size() ? found_[place] : nullptr;
      if (!object || !PyFloat_CheckExact(object)) continue;
      names_[static_cast<size_t>(symbol->value)] = segment_.guards.shown(place);
      known_.floats[static_cast<size_t>(symbol->value)] = PyFloat_AS_DOUBLE(object);
    }
  }

  std::string tell(const sym::Node& condition) {
    std::vector<const sym::Node*> symbols;
    collect(condition, symbols);
    if (symbols.size() == 1 && condition.kind == sym::Kind::Eq && condition.count == 1) {
      if (std::optional<int64_t> only = solution(*condition.operands[0], *symbols[0])) {
        return nameOf(*symbols[0]) + ": expected " + std::to_string(*only) + ", found " + valueOf(*symbols[0]);
      }
    }
    std::string out = "expected " + sym::toString(&condition) + ", found ";
    for (size_t i = 0; i < symbols.size(); ++i) {
      out +=
          (i ? ", " : "") + sym::toString(symbols[i]) + " = " + valueOf(*symbols[i]) + " (" + nameOf(*symbols[i]) + ")";
    }
    return out;
  }

  // Of `d == 0`, where d is a symbol and a number.
  static std::optional<int64_t> solution(const sym::Node& difference, const sym::Node& symbol) {
    sym::Assignment at;
    auto index = static_cast<size_t>(symbol.value);
    at.ints.resize(index + 1);
    auto value = [&](int64_t size) {
      at.ints[index] = size;
      return sym::evaluateInt(&difference, at);
    };
    std::optional<int64_t> zero = value(0), one = value(1), two = value(2);
    if (!zero || !one || !two || *one - *zero != *two - *one || (*one - *zero != 1 && *one - *zero != -1)) return {};
    int64_t candidate = *one - *zero == 1 ? -*zero : *zero;
    return value(candidate) == 0 ? std::optional<int64_t>(candidate) : std::nullopt;
  }

  static void collect(const sym::Node& node, std::vector<const sym::Node*>& out) {
    if (node.isSymbol()) {
      for (const sym::Node* known : out) {
        if (known == &node) return;
      }
      out.push_back(&node);
    }
    for (const sym::Node* operand : node.args()) collect(*operand, out);
  }

  std::string nameOf(const sym::Node& symbol) const {
    const std::string& name = names_[static_cast<size_t>(symbol.value)];
    return name.empty() ? sym::toString(&symbol) : name;
  }
  std::string valueOf(const sym::Node& symbol) const {
    auto index = static_cast<size_t>(symbol.value);
    if (known_.ints[index]) return std::to_string(*known_.ints[index]);
    if (!known_.floats[index]) return "another number";
    Ref text = Ref::steal(PyFloat_FromDouble(*known_.floats[index]));
    return inWords(text.get());
  }

  const Segment& segment_;
  const std::vector<PyObject*>& found_;
  std::vector<std::string> names_;  // by symbol
  sym::Assignment known_;
};

}  // namespace

std::string differingSizes(const Segment& segment, const std::vector<PyObject*>& found) {
  if (!segment.dynamic || !segment.program) return {};
  return SizeDifferences(segment, found).tell();
}

}  // namespace saker::frontend
