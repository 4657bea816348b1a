// Joint graphs with branches and loops: what bodies of the forward computed, those of the backward are given.
#include "ir/verifier.h"
#include "partition_check.h"

namespace saker::autograd {
namespace {

using testing::count;
using testing::read;

constexpr const char* kBranches = R"(
graph @main(%p: bool[], %x: f32[4], %w: f32[4], %dy: f32[4]) {
  %y: f32[4] = saker::if(%p, %x, %w) {
    (%a: f32[4], %b: f32[4]) {
      %m: f32[4] = aten::mul.Tensor(%a, %b)
      %t: f32[4] = aten::tanh(%m)
      return %t
    },
    (%c: f32[4], %d: f32[4]) {
      %n: f32[4] = aten::mul.Tensor(%c, %d)
      %s: f32[4] = aten::sin(%n)
      return %s
    }
  }
  %dx: f32[4] = saker::if(%p, %x, %w, %dy) [no_grad] {
    (%e: f32[4], %f: f32[4], %g: f32[4]) {
      %m2: f32[4] = aten::mul.Tensor(%e, %f)
      %t2: f32[4] = aten::tanh(%m2)
      %dm: f32[4] = aten::tanh_backward(%g, %t2)
      %da: f32[4] = aten::mul.Tensor(%dm, %f)
      return %da
    },
    (%h: f32[4], %i: f32[4], %j: f32[4]) {
      %n2: f32[4] = aten::mul.Tensor(%h, %i)
      %k: f32[4] = aten::cos(%n2)
      %dn: f32[4] = aten::mul.Tensor(%j, %k)
      %dc: f32[4] = aten::mul.Tensor(%dn, %i)
      return %dc
    }
  }
  return %y, %dx
})";

Cut cut(const char* text, const JointLayout& layout, const PartitionOptions& options = {}) {
  auto made = partition(*read(text), layout, options);
  EXPECT_TRUE(std::holds_alternative<Cut>(made)) << std::get<std::string>(made);
  Cut& found = std::get<Cut>(made);
  EXPECT_TRUE(ir::verify(*found.forward).empty());
  EXPECT_TRUE(ir::verify(*found.backward).empty());
  return std::move(found);
}

// In all bodies.
size_t countAll(const ir::Graph& graph, std::string_view op) {
  size_t found = 0;
  auto visit = [&](auto&& self, const ir::Region& region) -> void {
    for (const ir::Node* node = region.first(); node; node = node->next()) {
      found += node->op()->qualified == op;
      for (const ir::Region* body : node->regions()) self(self, *body);
    }
  };
  visit(visit, *graph.top());
  return found;
}

TEST(PartitionBodies, BranchesGiveWhatTheirDerivativesRead) {
  Cut found = cut(kBranches, {3, 1, 1});
  EXPECT_EQ(countAll(*found.backward, "aten::tanh"), 0u);        // it is the result
  EXPECT_EQ(countAll(*found.backward, "aten::mul.Tensor"), 3u);  // of the derivatives alone
  // One branch has a product to give; the other one gives memory in its place.
  EXPECT_EQ(countAll(*found.forward, "aten::empty_strided"), 1u);
}

TEST(PartitionBodies, LessMemoryMeansComputingAgain) {
  Cut found = cut(kBranches, {3, 1, 1}, {.memoryBudget = 0});
  EXPECT_EQ(countAll(*found.backward, "aten::tanh"), 1u);
  EXPECT_EQ(countAll(*found.forward, "aten::empty_strided"), 0u);
}

TEST(PartitionBodies, CheckpointedBranchesComputeAgain) {
  std::string text = kBranches;
  std::string marked = "saker::if(%p, %x, %w) [recompute: 1] {";
  text.replace(text.find("saker::if(%p, %x, %w) {"), 23, marked);
  Cut found = cut(text.c_str(), {3, 1, 1});
  EXPECT_EQ(countAll(*found.backward, "aten::tanh"), 1u);
}

TEST(PartitionBodies, ViewsAreMadeAgain) {
  Cut found = cut(R"(
graph @main(%p: bool[], %x: f32[4, 3], %dy: f32[3, 4]) {
  %y: f32[3, 4] = saker::if(%p, %x) {
    (%a: f32[4, 3]) {
      %v: f32[3, 4]{strides: [1, 3]} = aten::t(%a)
      %e: f32[3, 4]{strides: [1, 3]} = aten::exp(%v)
      %c: f32[3, 4] = aten::clone(%e, memory_format=format.contiguous)
      return %c
    },
    (%b: f32[4, 3]) {
      %w: f32[3, 4]{strides: [1, 3]} = aten::t(%b)
      %d: f32[3, 4] = aten::clone(%w, memory_format=format.contiguous)
      return %d
    }
  }
  %dx: f32[3, 4] = saker::if(%p, %x, %dy) {
    (%f: f32[4, 3], %g: f32[3, 4]) {
      %v2: f32[3, 4]{strides: [1, 3]} = aten::t(%f)
      %h: f32[3, 4] = aten::mul.Tensor(%g, %v2)
      return %h
    },
    (%i: f32[4, 3], %j: f32[3, 4]) {
      %k: f32[3, 4] = aten::neg(%j)
      return %k
    }
  }
  return %y, %dx
})",
                  {2, 1, 1});
  EXPECT_EQ(countAll(*found.backward, "aten::t"), 1u);
  EXPECT_EQ(count(*found.forward, "saker::if"), 1u);
  EXPECT_EQ(countAll(*found.forward, "aten::empty_strided"), 0u);
}

TEST(PartitionBodies, HistoriesKeepWhatTheWayBackReads) {
  Cut found = cut(R"(
graph @main(%x: f32[4], %w: f32[4], %dy: f32[4]) {
  %y: f32[4], %kept: i64[1] = saker::while([%x], [%w]) {
    (%a: f32[4], %b: f32[4]) {
      %n: f32[] = aten::sum(%a)
      %c: bool[] = aten::gt.Scalar(%n, 0)
      return %c
    },
    (%d: f32[4], %e: f32[4]) {
      %m: f32[4] = aten::mul.Tensor(%d, %e)
      %t: f32[4] = aten::tanh(%m)
      return %t
    }
  }
  %dx: f32[4] = saker::while_backward([%x], [%w], [%dy], [%kept]) {
    (%a2: f32[4], %b2: f32[4]) {
      %n2: f32[] = aten::sum(%a2)
      %c2: bool[] = aten::gt.Scalar(%n2, 0)
      return %c2
    },
    (%d2: f32[4], %e2: f32[4]) {
      %m2: f32[4] = aten::mul.Tensor(%d2, %e2)
      %t2: f32[4] = aten::tanh(%m2)
      return %t2
    },
    (%f: f32[4], %g: f32[4], %h: f32[4]) {
      %m3: f32[4] = aten::mul.Tensor(%g, %h)
      %t3: f32[4] = aten::tanh(%m3)
      %dm: f32[4] = aten::tanh_backward(%f, %t3)
      %dd: f32[4] = aten::mul.Tensor(%dm, %h)
      return %dd
    }
  }
  return %y, %dx
})",
                  {2, 1, 1});
  const ir::Node* back = found.backward->top()->first();
  while (back->regions().size() != 3) back = back->next();
  EXPECT_EQ(back->regions()[2]->parameters().size(), 4u);
  EXPECT_EQ(back->regions()[1]->terminator()->args().size(), 2u);
  EXPECT_EQ(countAll(*found.backward, "aten::tanh"), 1u);  // of the step, which runs if the history was copied
}

}  // namespace
}  // namespace saker::autograd
