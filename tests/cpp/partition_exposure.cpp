// Memory that the caller may write to before the backward: it is read as it is only where that is noticed.
#include "autograd/exposure.h"

#include "autograd/imitated.h"
#include "autograd/partition.h"
#include "ir/print.h"
#include "ops/view_inverse.h"
#include "partition_check.h"
#include "random_joint.h"

namespace saker::autograd {
namespace {

using testing::count;
using testing::cutAndCompare;
using testing::RandomJoint;
using testing::read;
using testing::savedNames;

// Nobody notices a write.
Writable primal(size_t number) { return {{number}, {}, {}}; }

JointLayout layoutOf(size_t primals, size_t tangents, size_t results, std::vector<Writable> writable) {
  return {primals, tangents, results, std::move(writable)};
}

constexpr const char* kChain = R"(
graph @main(%a: f32[64], %b: f32[64], %dy: f32[64]) {
  %s: f32[64] = aten::add.Tensor(%a, %b)
  %y: f32[64] = aten::exp(%s)
  %z: f32[64] = aten::cos(%y)
  %n: f32[64] = aten::sin(%y)
  %m: f32[64] = aten::mul.Tensor(%dy, %n)
  %d: f32[64] = aten::mul.Tensor(%m, %y)
  return %z, %d, %d
})";

TEST(Exposure, WhatFollowsFromAPrimalIsSavedInItsPlace) {
  auto joint = read(kChain);
  EXPECT_EQ(savedNames(cutAndCompare(*joint, {2, 1, 1})), "[a] [b]");
  for (double budget : {1.0, 0.5, 0.0}) {
    Cut cut = cutAndCompare(*joint, layoutOf(2, 1, 1, {primal(0), primal(1)}), {.memoryBudget = budget});
    EXPECT_EQ(cut.saved.size(), 1u);
    EXPECT_FALSE(cut.saved[0].primal);
    EXPECT_EQ(count(*cut.forward, "aten::clone"), 0u);
    EXPECT_EQ(cut.savedBytes, 256u);
  }
}

TEST(Exposure, APrimalThatEagerModeReadsIsFree) {
  auto joint = read(kChain);
  Writable::Read everywhere{{true}, {true, true}}, first{{true}, {true, false}};
  Writable a = primal(0), b = primal(1);
  a.reads = b.reads = {everywhere};
  EXPECT_EQ(savedNames(cutAndCompare(*joint, layoutOf(2, 1, 1, {a, b}))), "[a] [b]");
  // It is read in the second gradient too.
  a.reads = {first};
  EXPECT_FALSE(cutAndCompare(*joint, layoutOf(2, 1, 1, {a, b})).saved[0].primal);
}

TEST(Exposure, OnlyWhatTheTangentsNeedCounts) {
  auto joint = read(R"(
graph @main(%x: f32[64], %k: f32[64], %d0: f32[64], %d1: f32[64]) {
  %s: f32[64] = aten::sin(%x)
  %e: f32[64] = aten::exp(%x)
  %p: f32[64] = aten::mul.Tensor(%e, %k)
  %c: f32[64] = aten::cos(%x)
  %g0: f32[64] = aten::mul.Tensor(%d0, %c)
  %g1: f32[64] = aten::mul.Tensor(%d1, %e)
  return %s, %p, %g0, %g1
})");
  Writable x{{0}, {}, {{{true, false}, {true, true}}}};
  Cut cut = cutAndCompare(*joint, layoutOf(2, 2, 2, {x, primal(1)}));
  // For the first tangent from x itself; the second one reads what was saved.
  EXPECT_EQ(savedNames(cut), "[x] e");
  EXPECT_EQ(count(*cut.backward, "aten::cos"), 1u);
  EXPECT_EQ(count(*cut.backward, "aten::exp"), 0u);
}

TEST(Exposure, WhatIsReadItselfIsCopied) {
  auto joint = read(R"(
graph @main(%x: f32[8, 8], %w: f32[8, 8], %dy: f32[8, 8]) {
  %y: f32[8, 8] = aten::mm(%x, %w)
  %t: f32[8, 8]{strides: [1, 8]} = aten::t(%w)
  %dx: f32[8, 8] = aten::mm(%dy, %t)
  return %y, %dx, None
})");
  for (Strategy strategy : {Strategy::MinCut, Strategy::Default}) {
    Cut cut = cutAndCompare(*joint, layoutOf(2, 1, 1, {primal(1)}), {.strategy = strategy});
    EXPECT_EQ(savedNames(cut), "t_copy");
    EXPECT_EQ(count(*cut.forward, "aten::clone"), 1u);
    EXPECT_EQ(cut.savedBytes, 256u);
  }
}

TEST(Exposure, AResultMayBeReadForSomeGradientsOnly) {
  auto joint = read(R"(
graph @main(%x: f32[64], %k: f32[64], %d0: f32[64], %d1: f32[64]) {
  %s: f32[64] = aten::sin(%x)
  %c: f32[64] = aten::cos(%x)
  %p: f32[64] = aten::mul.Tensor(%c, %k)
  %g0: f32[64] = aten::mul.Tensor(%d0, %c)
  %g1: f32[64] = aten::mul.Tensor(%d1, %c)
  return %s, %c, %p, %g0, %g1
})");
  Writable result{{}, {1}, {{{false, true}, {false, true}}}};
  Cut cut = cutAndCompare(*joint, layoutOf(2, 2, 3, {result, primal(0)}), {.strategy = Strategy::Default});
  EXPECT_EQ(savedNames(cut), "c c_copy");
  Writable x{{0}, {}, {{{true, true}, {true, true}}}};
  // The backward's own cosine is nobody else's.
  EXPECT_EQ(savedNames(cutAndCompare(*joint, layoutOf(2, 2, 3, {result, x}))), "[x]");
}

TEST(Exposure, LayoutsMayBeReadAnywhere) {
  auto joint = read(R"(
graph @main(%x: f32[64], %dy: f32[]) {
  %y: f32[] = aten::sum(%x)
  %z: f32[64] = aten::ones_like(%x)
  %d: f32[64] = aten::mul.Tensor(%z, %dy)
  return %y, %d
})");
  EXPECT_EQ(savedNames(cutAndCompare(*joint, layoutOf(1, 1, 1, {primal(0)}))), "[x]");
}

// --- random graphs ---

// Follows the halves of a cut, without asking what made it.
class Judge {
 public:
  Judge(const Cut& cut, const JointLayout& layout) : cut_(cut), layout_(layout) {}

  std::string complaint() {
    const ir::Node* end = cut_.forward->top()->terminator();
    for (size_t i = 0; i < cut_.saved.size(); ++i) {
      const ir::Arg& saved = end->arg(layout_.forwardResults + i);
      if (!saved.isValue() || !saved.toValue()->tensor()) continue;
      for (size_t w = 0; w < layout_.writable.size(); ++w) {
        if (!isOn(layout_.writable[w], memoryOf(saved.toValue()))) continue;
        if (!mayRead(cut_.backward->top()->parameters()[i], layout_.writable[w])) {
          return "saved " + std::to_string(i) + " is read where a write goes unnoticed";
        }
      }
    }
    return "";
  }

 private:
  static const ir::Value* memoryOf(const ir::Value* value) {
    while (value->def() && value->def()->operandCount() && ops::of(value->def()) &&
           ops::sharing(*value->def(), value->index()) != ops::Sharing::None) {
      value = value->def()->operand(0);
    }
    return value;
  }

  // What bodies read: values inside of them follow from nothing but these and the operands.
  template <typename F>
  static void eachFree(const ir::Node& node, F&& f) {
    for (const ir::Region* body : node.regions()) {
      for (const ir::Node* inner = body->first(); inner; inner = inner->next()) {
        for (const ir::Use& use : inner->operands()) f(use.value);
        eachFree(*inner, f);
      }
    }
  }

  bool isOn(const Writable& writable, const ir::Value* memory) const {
    for (size_t each : writable.primals) {
      if (cut_.forward->top()->parameters()[each] == memory) return true;
    }
    for (size_t each : writable.results) {
      const ir::Arg& result = cut_.forward->top()->terminator()->arg(each);
      if (result.isValue() && memoryOf(result.toValue()) == memory) return true;
    }
    return false;
  }

  // Along each way from the parameter: where tangents come in, which ones, and which gradients follow.
  bool mayRead(const ir::Value* parameter, const Writable& writable) const {
    auto allowed = [&](uint64_t tangents, size_t gradient) {
      for (size_t t = 0; t < layout_.tangents; ++t) {
        bool noticed = false;
        for (const Writable::Read& each : writable.reads) noticed |= each.tangents[t] && each.gradients[gradient];
        if ((tangents >> t & 1) && !noticed) return false;
      }
      return true;
    };
    const ir::Region* top = cut_.backward->top();
    uint64_t all = (uint64_t{1} << layout_.tangents) - 1;
    std::vector<uint64_t> from(cut_.backward->valueLimit());
    std::vector<bool> early(from.size());  // follows from the parameter, and from no tangent
    for (size_t t = 0; t < layout_.tangents; ++t) from[top->parameters()[cut_.saved.size() + t]->id()] = 1u << t;
    early[parameter->id()] = true;
    std::vector<uint64_t> met(from.size());  // follows from the parameter: tangents where they meet
    for (const ir::Node* node = top->first(); node; node = node->next()) {
      if (node->isReturn()) {
        for (size_t g = 0; g < node->args().size(); ++g) {
          if (!node->arg(g).isValue()) continue;
          const ir::Value* value = node->arg(g).toValue();
          if (!allowed(early[value->id()] ? all : met[value->id()], g)) return false;
        }
        continue;
      }
      uint64_t tangents = 0, meeting = 0;
      bool follows = false;
      auto note = [&](const ir::Value* value) {
        tangents |= from[value->id()];
        meeting |= met[value->id()];
        follows |= early[value->id()];
      };
      for (const ir::Use& use : node->operands()) {
        if (readsData(*node, use.value)) note(use.value);
      }
      eachFree(*node, note);
      for (size_t i = 0; i < node->resultCount(); ++i) {
        uint32_t id = node->result(i)->id();
        from[id] = tangents;
        early[id] = follows && !tangents;
        met[id] = meeting | (follows ? tangents : 0);
      }
    }
    return true;
  }

  const Cut& cut_;
  const JointLayout& layout_;
};

TEST(Exposure, RandomJointGraphsReadNothingThatWasWritten) {
  size_t copies = 0;
  for (size_t seed = 0; seed < 1000 * ir::testing::fuzzFactor(); ++seed) {
    JointLayout layout;
    auto joint = RandomJoint(seed).make(layout);
    ir::testing::Random random(seed + 77);
    size_t gradients = joint->top()->terminator()->args().size() - layout.forwardResults;
    auto add = [&](Writable writable) {
      for (size_t i = random.below(3); i > 0; --i) {
        Writable::Read one;
        for (size_t t = 0; t < layout.tangents; ++t) one.tangents.push_back(random.chance(60));
        for (size_t g = 0; g < gradients; ++g) one.gradients.push_back(random.chance(60));
        writable.reads.push_back(one);
      }
      layout.writable.push_back(writable);
    };
    for (size_t i = 0; i < layout.primals; ++i) {
      if (random.chance(80)) add({{i}, {}, {}});
    }
    for (size_t i = 0; i < layout.forwardResults; ++i) {
      if (random.chance(80)) add({{}, {i}, {}});
    }
    for (Strategy strategy : {Strategy::Default, Strategy::MinCut}) {
      for (double budget : {1.0, 0.4, 0.0}) {
        Cut cut = cutAndCompare(*joint, layout, {.strategy = strategy, .memoryBudget = budget});
        if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
        if (count(*cut.backward, "aten::copy_")) continue;  // what it writes it means as it is then
        copies += count(*cut.forward, "aten::clone");
        ASSERT_EQ(Judge(cut, layout).complaint(), "")
            << "seed " << seed << " budget " << budget << "\n"
            << ir::print(*joint) << ir::print(*cut.forward) << ir::print(*cut.backward);
      }
    }
  }
  EXPECT_GT(copies, 0u);
}

}  // namespace
}  // namespace saker::autograd
