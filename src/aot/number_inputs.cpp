#include "aot/number_inputs.h"

#include <ATen/ScalarOps.h>

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "ir/clone.h"
#include "ops/operator.h"
#include "symbolic/context.h"

namespace saker::aot {

namespace {

bool isNumber(const ir::Arg& arg) { return arg.kind() == ir::Arg::Kind::SymFloat; }

bool holdsNumber(const ir::Arg& arg) {
  if (arg.isValue()) return !arg.toValue()->tensor();
  if (arg.kind() == ir::Arg::Kind::SymInt || arg.kind() == ir::Arg::Kind::SymBool) return namesFloat(arg.toSym());
  if (!arg.isList()) return isNumber(arg);
  std::span<const ir::Arg> items = arg.toList();
  return std::any_of(items.begin(), items.end(), holdsNumber);
}

bool anyNumber(const ir::Region& region) {
  for (const ir::Node* node = region.first(); node; node = node->next()) {
    for (const ir::Arg& arg : node->args()) {
      if (holdsNumber(arg)) return true;
    }
    for (const ir::Region* body : node->regions()) {
      if (anyNumber(*body)) return true;
    }
  }
  return false;
}

// Does the operator take a tensor there?
bool isOperand(const ir::Node& node, size_t argument) {
  const ops::Operator* op = ops::of(&node);
  if (!op || argument >= op->parsed.arguments.size()) return false;
  const ir::SchemaType& type = op->parsed.arguments[argument].type;
  return type.base == ir::SchemaType::Base::Tensor && !type.list;
}

// Operators whose overload for a number makes a tensor of it and calls the one for tensors, and so do their formulas.
const ops::Operator* withTensor(const ir::Node& node) {
  constexpr std::array<std::string_view, 5> kNames = {"aten::add", "aten::sub", "aten::rsub", "aten::mul", "aten::div"};
  for (std::string_view name : kNames) {
    if (node.op()->qualified == std::string(name) + ".Scalar") return ops::find(std::string(name) + ".Tensor");
  }
  return nullptr;
}

// Is this the tape's own way to keep a number? A program that calls scalar_tensor rounds it to a dtype.
bool isOfTape(const ir::Node& node) { return !node.arg(2).isNone() && node.arg(3).isNone(); }

at::Tensor wrapped(double number) {
  at::Tensor tensor = c10::scalar_to_tensor(number);
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

}  // namespace

bool isNumberInput(const at::Tensor& tensor) {
  return tensor.defined() && tensor.unsafeGetTensorImpl()->is_wrapped_number() && tensor.scalar_type() == at::kDouble;
}

bool namesFloat(const sym::Node* node) {
  return node->kind == sym::Kind::FloatSymbol || std::any_of(node->args().begin(), node->args().end(), namesFloat);
}

// Takes the nodes out that read, check and wrap numbers.
class NumberInputs::Split {
 public:
  Split(const runtime::Program& from, std::span<const at::Tensor> examples, NumberInputs& into)
      : from_(from), examples_(examples), into_(into), graph_(ir::clone(*from.graph)) {}

  bool split() {
    for (ir::Node* node = graph_->top()->first(); node;) {
      ir::Node* next = node->next();
      if (!take(*node)) return false;
      node = next;
    }
    for (ir::Node* node : done_) graph_->erase(node);
    if (anyNumber(*graph_->top())) return false;
    findSizes();
    fill();
    return true;
  }

 private:
  bool take(ir::Node& node) {
    static const ops::Operator* read = ops::find("aten::_local_scalar_dense");
    static const ops::Operator* expect = ops::find("saker::expect.number");
    static const ops::Operator* wrap = ops::find("aten::scalar_tensor");
    if (node.op() == read) return takeRead(node);
    if (node.op() == expect) {
      into_.expected_.push_back(node.arg(0).toSym());
      done_.push_back(&node);
    } else if (node.op() == wrap && isNumber(node.arg(0)) && isOfTape(node)) {
      graph_->replaceAllUses(node.result(), inputFor(node.arg(0).toSym()));
      done_.push_back(&node);
    } else if (const ops::Operator* other = withTensor(node); other && isNumber(node.arg(1))) {
      std::vector<ir::Arg> args(node.args().begin(), node.args().end());
      args[1] = ir::Arg::value(inputFor(node.arg(1).toSym()));
      const ir::Type* type = node.result()->type();
      ir::Node* made = graph_->create(other, args, {&type, 1}, 0, node.origin());
      graph_->insertBefore(graph_->top(), &node, made);
      graph_->replaceAllUses(node.result(), made->result());
      done_.push_back(&node);
    } else {
      for (size_t i = 0; i < node.args().size(); ++i) {
        if (isNumber(node.arg(i)) && isOperand(node, i)) {
          graph_->setArg(&node, i, ir::Arg::value(inputFor(node.arg(i).toSym())));
        }
      }
    }
    return true;
  }

  bool takeRead(ir::Node& node) {
    const ir::Value* source = node.arg(0).isValue() ? node.arg(0).toValue() : nullptr;
    const ir::ScalarType* type = ir::asScalar(node.result()->type());
    if (!source || !source->isParameter() || !type || !type->expression || node.result()->hasUses()) return false;
    const runtime::Source& given = from_.sources[source->index()];
    if (given.kind != runtime::Source::Kind::Argument || !isNumberInput(examples_[given.argument])) return false;
    into_.reads_.push_back({given.argument, type->expression});
    type_ = source->type();
    done_.push_back(&node);
    return true;
  }

  ir::Value* inputFor(const sym::Node* number) {
    ir::Value*& input = inputs_[number];
    if (input) return input;
    into_.numbers_.push_back(number);
    return input = graph_->addParameter(graph_->top(), type_);
  }

  // Numbers may be computed with sizes: `rate / x.shape[0]`.
  void findSizes() {
    for (const ir::Value* parameter : from_.graph->top()->parameters()) {
      const runtime::Source& source = from_.sources[parameter->index()];
      const ir::TensorType* type = parameter->tensor();
      if (source.kind != runtime::Source::Kind::Argument || !type || !type->symbolic) continue;
      for (size_t d = 0; d < type->rank; ++d) {
        const sym::Node* size = type->size(d).node();
        if (size && size->isSymbol()) into_.sizes_.push_back({source.argument, d, size});
      }
    }
  }

  void fill() {
    auto made = std::make_shared<runtime::Program>();
    made->context = from_.context;
    made->graph = std::move(graph_);
    made->sources = from_.sources;
    made->objects = from_.objects;
    made->arguments = from_.arguments;
    made->argumentWrites = from_.argumentWrites;
    made->asRecorded = from_.asRecorded;
    made->userWrote = from_.userWrote;
    made->sameAs = from_.sameAs;
    made->closedWrites = from_.closedWrites;
    made->userWrites = from_.userWrites;
    made->results = from_.results;
    made->resultRequiresGrad = from_.resultRequiresGrad;
    made->differentiable = from_.differentiable;
    made->native = from_.native;
    made->gradAround = from_.gradAround;
    made->showsGradients = from_.showsGradients;
    made->gradients = from_.gradients;
    made->memories = from_.memories;
    for (size_t i = 0; i < into_.numbers_.size(); ++i) {
      made->sources.push_back({runtime::Source::Kind::Argument, made->arguments, {}, false});
      made->sameAs.push_back(made->arguments);
      if (!made->memories.empty()) made->memories.push_back(static_cast<uint32_t>(made->arguments));
      made->argumentWrites.push_back(0);
      made->closedWrites.push_back(0);
      ++made->arguments;
    }
    into_.program_ = std::move(made);
  }

  const runtime::Program& from_;
  std::span<const at::Tensor> examples_;
  NumberInputs& into_;
  std::unique_ptr<ir::Graph> graph_;
  const ir::Type* type_ = nullptr;  // of a number that is an input
  std::unordered_map<const sym::Node*, ir::Value*> inputs_;
  std::vector<ir::Node*> done_;
};

std::optional<NumberInputs> NumberInputs::takenOutOf(const runtime::Program& program,
                                                     std::span<const at::Tensor> examples) {
  if (program.userGradients || program.recorded) return std::nullopt;
  NumberInputs out;
  if (!Split(program, examples, out).split()) return std::nullopt;
  return out;
}

std::optional<std::vector<at::Tensor>> NumberInputs::with(const std::vector<at::Tensor>& arguments) const {
  sym::Assignment known;
  for (const Read& read : reads_) {
    size_t index = static_cast<size_t>(read.symbol->value);
    if (known.floats.size() <= index) known.floats.resize(index + 1);
    known.floats[index] = *static_cast<const double*>(arguments[read.argument].const_data_ptr());
  }
  for (const Size& size : sizes_) {
    size_t index = static_cast<size_t>(size.symbol->value);
    if (known.ints.size() <= index) known.ints.resize(index + 1);
    known.ints[index] = arguments[size.argument].sizes()[size.dimension];
  }
  for (const sym::Node* number : expected_) {
    if (!sym::evaluateFloat(number, known)) return std::nullopt;
  }
  std::vector<at::Tensor> out = arguments;
  for (const sym::Node* number : numbers_) {
    std::optional<double> value = sym::evaluateFloat(number, known);
    if (!value) return std::nullopt;
    out.push_back(wrapped(*value));
  }
  return out;
}

}  // namespace saker::aot
