// Rules of inference are asked everything that a schema allows. Programs of operators that write and that share memory,
// mostly with the types that inference gives, some with types and arguments that no program records: functionalize
// makes them functional or says why not.
#include <gtest/gtest.h>

#include "ir/print.h"
#include "ir/verifier.h"
#include "ops/infer.h"
#include "passes/infer_check.h"
#include "passes/pass.h"
#include "random_graph.h"

namespace saker::passes {
namespace {

using ir::Arg;
using ir::SchemaType;
using ir::TypeKind;
using ir::Value;

class RandomProgram {
 public:
  // `odd`: how many percent of arguments and types are not what a program would record.
  RandomProgram(uint64_t seed, int odd) : random_(seed), odd_(odd) {}

  // Each operator once. How many are answered.
  size_t askAll() {
    start();
    size_t answered = 0;
    for (const ops::Operator* op : chosen([](const ops::Operator&) { return true; })) {
      SCOPED_TRACE(op->qualified);
      std::vector<Arg> args = arguments(*op);
      ops::Inferred inferred = ops::infer(*op, graph_->context(), args);
      if (!inferred.ok()) continue;
      ++answered;
      ir::Node* made = graph_->append(graph_->top(), op, args, inferred.results);
      // What the verifier says of the arguments is not the rule's affair.
      for (const ir::Diagnostic& found : ir::verify(*graph_, 2)) {
        bool ofResults = found.node == made && found.message.find(": argument ") == std::string::npos;
        EXPECT_FALSE(ofResults) << found.message << '\n' << ir::print(*graph_);
      }
      graph_->erase(made);
    }
    return answered;
  }

  std::unique_ptr<ir::Graph> make() {
    start();
    for (size_t i = 1 + random_.below(12); i > 0; --i) node();
    std::vector<Arg> returned;
    for (size_t i = random_.below(4); i > 0; --i) returned.push_back(Arg::value(random_.pick(values_)));
    graph_->appendReturn(graph_->top(), returned);
    return std::move(graph_);
  }

 private:
  void start() {
    auto context = std::make_shared<ir::Context>(ops::lookup);
    graph_ = std::make_unique<ir::Graph>(context);
    size_ = context->symbols().symbol("s0", sym::Range::size(), 4);
    parameters();
  }

  ir::TypeTable& types() { return graph_->context().types(); }

  const ir::Type* tensor() {
    ir::TensorSpec spec;
    switch (random_.below(8)) {
      case 0:
        spec.sizes = {4, 4};
        break;
      case 1:
        spec.sizes = {2, 2, 4};
        break;
      case 2:
        spec.sizes = {0};
        break;
      case 3:
        spec.sizes = {size_, 4};
        break;
      case 4:
        break;
      case 5:
        spec.sizes = {4, 4};
        spec.strides = {1, 4};
        break;
      default:
        spec.sizes = {4};
    }
    static constexpr ir::DType kDTypes[] = {ir::DType::Complex64, ir::DType::Int64, ir::DType::Bool,
                                            ir::DType::Float64};
    if (random_.chance(25)) spec.dtype = kDTypes[random_.below(4)];
    return types().tensor(spec);
  }

  // Not what inference gave.
  const ir::Type* changed(const ir::Type* type) {
    const ir::TensorType* given = ir::asTensor(type);
    if (!given || random_.chance(15)) return random_.chance(50) ? types().plain(TypeKind::None) : tensor();
    ir::TensorSpec spec(*given);
    auto anyDim = [&](auto& dims) -> ir::Int& { return dims[random_.below(dims.size())]; };
    switch (random_.below(8)) {
      case 0:
        if (!spec.sizes.empty()) anyDim(spec.sizes) = static_cast<int64_t>(random_.below(6));
        break;
      case 1:
        if (!spec.sizes.empty()) anyDim(spec.strides) = static_cast<int64_t>(random_.below(6));
        break;
      case 2:
        spec.offset = random_.chance(50) ? ir::Int(static_cast<int64_t>(random_.below(6))) : size_;
        break;
      case 3:
        spec.dtype = static_cast<ir::DType>(random_.below(ir::kDTypes));
        break;
      case 4:
        spec.layout = static_cast<ir::Layout>(random_.below(8));
        break;
      case 5:
        spec.flags.conj = !spec.flags.conj;
        break;
      case 6:
        spec.flags.neg = !spec.flags.neg;
        break;
      default:
        spec.device = {ir::DeviceType::CUDA, 0};
    }
    return types().tensor(spec);
  }

  void parameters() {
    auto add = [&](const ir::Type* type) { values_.push_back(graph_->addParameter(graph_->top(), type)); };
    for (size_t i = 2 + random_.below(4); i > 0; --i) add(random_.chance(odd_) ? changed(tensor()) : tensor());
    if (!random_.chance(2 * odd_)) return;
    for (TypeKind kind : {TypeKind::Int, TypeKind::Bool, TypeKind::Float, TypeKind::Scalar, TypeKind::DType,
                          TypeKind::Device, TypeKind::Layout, TypeKind::MemoryFormat, TypeKind::String}) {
      add(types().plain(kind));
    }
    add(types().scalar(TypeKind::Int, size_.node()));
    add(types().list(tensor()));
    add(types().optional(tensor()));
    add(types().list(types().plain(TypeKind::Int)));
  }

  const ops::Operator& anyOperator() {
    static const std::vector<const ops::Operator*> kinds[3] = {
        chosen([](const ops::Operator& op) { return op.writes != 0; }),
        chosen([](const ops::Operator& op) {
          return !op.writes && (op.variant == ops::Variant::View || op.has(ops::kMayAlias));
        }),
        chosen([](const ops::Operator& op) { return op.writes == 0; }),
    };
    return *random_.pick(kinds[random_.chance(10) ? 2 : random_.below(2)]);
  }

  template <typename F>
  static std::vector<const ops::Operator*> chosen(F&& f) {
    std::vector<const ops::Operator*> out;
    for (const ops::Operator* op : ops::all()) {
      if (f(*op) && !op->parsed.variadicArguments && !op->parsed.variadicReturns) out.push_back(op);
    }
    return out;
  }

  Arg valueOf(TypeKind kind) {
    std::vector<Value*> fitting;
    for (Value* value : values_) {
      if (value->type()->kind == kind) fitting.push_back(value);
    }
    // What was made last is read most.
    if (fitting.size() > 3 && random_.chance(50)) fitting.erase(fitting.begin(), fitting.end() - 3);
    return fitting.empty() ? Arg::none() : Arg::value(random_.pick(fitting));
  }

  Arg integer() { return Arg::integer(static_cast<int64_t>(random_.below(random_.chance(odd_) ? 9 : 5)) - 1); }

  Arg argFor(const SchemaType& type, bool element = false) {
    using Base = SchemaType::Base;
    bool odd = random_.chance(odd_);
    if (type.list && !element) {
      if (odd && random_.chance(30)) return valueOf(TypeKind::List);
      std::vector<Arg> elements;
      for (size_t i = random_.below(4); i > 0; --i) elements.push_back(argFor(type, true));
      return Arg::list(arena_.copy(std::span<const Arg>(elements)));
    }
    switch (type.base) {
      case Base::Tensor:
        return odd && random_.chance(50) ? Arg::number(2) : valueOf(TypeKind::Tensor);
      case Base::Int:
      case Base::SymInt:
        return !odd ? integer() : random_.chance(50) ? Arg::symInt(size_) : valueOf(TypeKind::Int);
      case Base::Float:
      case Base::SymFloat:
        return odd ? valueOf(TypeKind::Float) : Arg::number(0.5);
      case Base::Bool:
      case Base::SymBool:
        return odd ? valueOf(TypeKind::Bool) : Arg::boolean(random_.chance(50));
      case Base::Complex:
      case Base::Scalar:
        return odd ? valueOf(TypeKind::Scalar) : random_.chance(50) ? Arg::integer(1) : Arg::number(1);
      case Base::String:
        return odd ? valueOf(TypeKind::String) : Arg::string("reflect");
      case Base::DType:
        return odd ? valueOf(TypeKind::DType) : Arg::dtype(ir::DType::Float32);
      case Base::Device:
        return odd ? valueOf(TypeKind::Device) : Arg::device({});
      case Base::Layout:
        return odd ? valueOf(TypeKind::Layout) : Arg::layout(ir::Layout::Strided);
      case Base::MemoryFormat:
        return odd ? valueOf(TypeKind::MemoryFormat) : Arg::memoryFormat(ir::MemoryFormat::Contiguous);
      default:
        return Arg::opaque(graph_->context().opaque("torch.Generator", random_.below(3)));
    }
  }

  std::vector<Arg> arguments(const ops::Operator& op) {
    std::vector<Arg> args;
    for (const ir::SchemaArgument& wanted : op.parsed.arguments) {
      bool byDefault = wanted.defaultValue && !random_.chance(40);
      args.push_back(byDefault ? *wanted.defaultValue : argFor(wanted.type));
      if (wanted.type.optional && random_.chance(50)) args.back() = Arg::none();
    }
    return args;
  }

  static bool resizes(const std::vector<Arg>& args, const std::vector<const ir::Type*>& results) {
    for (size_t i = 1; i <= results.size() && i <= args.size(); ++i) {
      const Arg& out = args[args.size() - i];
      if (!out.isValue() || out.toValue()->type() != results[results.size() - i]) return true;
    }
    return false;
  }

  void node() {
    // Most calls are refused by inference; an operator that takes this one's arguments is found soon.
    for (int attempt = 0; attempt < 40; ++attempt) {
      const ops::Operator& op = anyOperator();
      std::vector<Arg> args = arguments(op);
      ops::Inferred inferred = ops::infer(op, graph_->context(), args);
      std::vector<const ir::Type*> results(inferred.results.begin(), inferred.results.end());
      if (!inferred.ok()) {
        if (!random_.chance(odd_)) continue;
        results.clear();
        for (const ir::SchemaArgument& result : op.parsed.returns) {
          for (size_t i = result.type.list ? random_.below(4) : 1; i > 0; --i) results.push_back(tensor());
        }
      }
      // Few tensors may be resized, so few programs do it.
      if (op.variant == ops::Variant::Out && resizes(args, results) && !random_.chance(10)) continue;
      for (const ir::Type*& type : results) {
        if (random_.chance(odd_)) type = changed(type);
      }
      ir::Node* made = graph_->append(graph_->top(), &op, args, results);
      std::vector<ir::Diagnostic> found = ir::verify(*graph_, 2);
      if (std::any_of(found.begin(), found.end(), [&](const ir::Diagnostic& one) { return one.node == made; })) {
        EXPECT_GT(odd_, 0) << "inference gave what the verifier refuses: " << found.back().message;
        graph_->erase(made);
        continue;
      }
      for (size_t i = 0; i < made->resultCount(); ++i) values_.push_back(made->result(i));
      return;
    }
  }

  ir::testing::Random random_;
  int odd_;
  std::unique_ptr<ir::Graph> graph_;
  ir::Int size_;
  Arena arena_;
  std::vector<Value*> values_;
};

// Counts programs that became functional. Inference may make symbols: texts are taken after it.
void check(uint64_t seed, int odd, size_t& functional) {
  std::unique_ptr<ir::Graph> graph = RandomProgram(seed, odd).make();
  bool exact = checkInference(*graph).empty();
  std::string before = ir::print(*graph);
  ASSERT_TRUE(ir::verify(*graph).empty()) << before;
  // _reshape_alias looks at no address: what it reaches beyond its tensor, as_strided does not.
  exact &= before.find("_reshape_alias") == before.npos;
  RunOptions options;
  options.verify = true;
  RunResult result = run(*graph, "functionalize", options);
  if (!result.ok()) {
    ASSERT_TRUE(result.error->starts_with("functionalize: ")) << *result.error << '\n' << before;
    ASSERT_EQ(ir::print(*graph), before);
    return;
  }
  ++functional;
  if (!exact) return;
  std::vector<ir::Diagnostic> wrong = checkInference(*graph);
  std::string once = ir::print(*graph);
  for (const ir::Diagnostic& found : wrong) FAIL() << found.message << '\n' << before << '\n' << once;
  ASSERT_TRUE(run(*graph, "functionalize", options).ok()) << before;
  ASSERT_EQ(ir::print(*graph), once) << before;
}

TEST(FuzzInfer, RulesAnswerOrRefuse) {
  size_t iterations = 40 * ir::testing::fuzzFactor(), answered = 0;
  for (uint64_t seed = 0; seed < iterations; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    answered += RandomProgram(seed, seed % 3 ? 15 : 0).askAll();
    if (HasFailure()) return;
  }
  EXPECT_GT(answered, iterations * ops::all().size() / 20);
}

TEST(FuzzFunctionalize, ProgramsBecomeFunctionalOrAreRefused) {
  size_t iterations = 1500 * ir::testing::fuzzFactor();
  for (int odd : {0, 3, 15}) {
    size_t functional = 0;
    for (uint64_t seed = 0; seed < iterations; ++seed) {
      SCOPED_TRACE("seed " + std::to_string(seed) + ", odd " + std::to_string(odd));
      check(seed, odd, functional);
      if (HasFatalFailure()) return;
    }
    EXPECT_GT(functional, iterations / (odd ? 20 : 2));
  }
}

}  // namespace
}  // namespace saker::passes
