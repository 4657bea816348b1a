#include "lower/lower.h"

#include <algorithm>
#include <unordered_map>

#include "ir/each_value.h"
#include "lower/assemble.h"
#include "lower/builder.h"
#include "lower/chunk.h"
#include "lower/store_copy.h"
#include "lower/without_writes.h"
#include "ops/operator.h"
#include "symbolic/context.h"

namespace saker::lower {
namespace {

using ir::TensorType;
using ir::Value;

constexpr size_t kMostAttempts = 64;  // times that a group is begun anew because an axis is split or a value is stored

// A value that is written to memory: a result of the group, or a temporary.
struct Root {
  const Value* value;
  Operand place;
  size_t kernel = 0;
  bool apart = false;  // a result that others read as memory, in a kernel behind its own
  // The parameter of the body in whose place it is stored. `late`: it lies in a temporary before, since the old
  // contents are read at other places or by later kernels.
  const Value* over = nullptr;
  bool late = false;
  bool done = false;  // a kernel of this attempt has stored it
  // What puts elements at places that are data has two roots: what is there before, and the steps in a later kernel.
  enum class Part : uint8_t { Whole, Before, Steps } part = Part::Whole;

  bool isMemory() const { return apart || place.kind == Operand::Kind::Temporary || part == Part::Steps; }
};

class GroupLowering {
 public:
  // The last results go in the place of the parameters `written`.
  GroupLowering(const ir::Node& group, std::span<const uint32_t> written)
      : group_(group), body_(*group.regions()[0]), written_(written), position_(body_.graph()->nodeLimit()) {
    size_t next = 0;
    for (const ir::Node* node = body_.first(); node; node = node->next()) position_[node->id()] = next++;
  }

  Lowered run() {
    Lowered lowered;
    try {
      for (const Value* parameter : body_.parameters()) require(parameter);
      for (size_t i = 0; i < group_.resultCount(); ++i) {
        require(group_.result(i));
        const ir::Arg& returned = body_.terminator()->arg(i);
        if (!returned.toValue()->def()) ops::notLowered("a parameter is returned");
        addRoot(returned.toValue(), {Operand::Kind::Result, static_cast<uint32_t>(i)});
        size_t results = group_.resultCount() - written_.size();
        if (i < results) continue;
        roots_.back().place = {Operand::Kind::Parameter, written_[i - results]};
        roots_.back().over = body_.parameters()[written_[i - results]];
      }
      for (size_t attempt = 0; !tryOnce(lowered); ++attempt) {
        if (attempt == kMostAttempts) ops::notLowered("too many ways to split its loops");
        lowered = Lowered();
      }
      return lowered;
    } catch (const ops::NotLowered& why) {
      return {{}, {}, why.reason};
    } catch (const ops::RefusalException& why) {
      return {{}, {}, why.refusal.message};
    } catch (const sym::Undecided& why) {
      return {{}, {}, why.what()};
    } catch (const std::exception& why) {
      return {{}, {}, why.what()};
    }
  }

 private:
  struct Plan {
    Space space;
    std::vector<size_t> roots;
    bool steps = false;  // of one root
  };

  class Loads final : public KernelBuilder::Source {
   public:
    Loads(const GroupLowering& group, size_t kernel) : group_(group), kernel_(kernel) {}
    std::optional<ir::Dims> strides(const Value* value) const override {
      if (!value->def()) return ir::Dims(value->tensor()->strides());
      const Root* root = group_.rootOf(value);
      if (!root || root->kernel == kernel_) return std::nullopt;
      return group_.stridesOf(*root);
    }
    bool isOverwritten(const Value* parameter) const override {
      const Root* root = group_.rootOver(parameter);
      return root && !root->late && root->kernel == kernel_;
    }

   private:
    const GroupLowering& group_;
    size_t kernel_;
  };

  static void require(const Value* value) {
    const TensorType* type = value->tensor();
    if (!type || type->layout != ir::Layout::Strided) ops::notLowered("not a tensor with strides");
    if (type->device.type != ir::DeviceType::CPU) ops::notLowered("not on the CPU");
    if (type->flags.conj || type->flags.neg) ops::notLowered("a conj or neg bit");
  }

  void addRoot(const Value* value, Operand place) {
    const ops::Operator* op = ops::of(value->def());
    bool puts = ops::putRuleOf(op);
    roots_.push_back({value, place});
    if (!puts) return;
    roots_.back().part = Root::Part::Before;
    roots_.push_back({value, place});
    roots_.back().part = Root::Part::Steps;
  }

  const Root* rootOf(const Value* value) const {
    for (const Root& root : roots_) {
      if (root.value == value && root.part != Root::Part::Before) return &root;
    }
    return nullptr;
  }

  const Root* rootOver(const Value* parameter) const {
    for (const Root& root : roots_) {
      if (root.over && root.over == parameter) return &root;
    }
    return nullptr;
  }

  ir::Dims stridesOf(const Root& root) const {
    if (root.over && !root.late) return ir::Dims(root.over->tensor()->strides());
    if (root.place.kind == Operand::Kind::Result) return ir::Dims(root.value->tensor()->strides());
    return ir::contiguousStrides(root.value->tensor()->sizes());
  }

  // ---- which kernels there are ----

  std::optional<Space> reductionOf(const Value* value) const {
    const ops::Operator* op = value->def() ? ops::of(value->def()) : nullptr;
    if (!op || !op->along) return std::nullopt;
    ops::Inferred unused;
    ops::Infer arguments(*op, group_.region()->graph()->context(), value->def()->args(), unused);
    std::optional<ops::Along> along = op->along(arguments, value->index());
    return along ? std::optional(spaceOf(*along)) : std::nullopt;
  }

  bool fits(const Value* root, const Space& space) const {
    sym::Int count = ir::numel(root->tensor()->sizes());
    return surelyEqual(count, space.rows()) || surelyEqual(count, space.all());
  }

  // The reductions that a root is made of, nearest first, as far as they are not in memory already.
  std::vector<std::pair<const Value*, Space>> reductionsBelow(const Value* root) const {
    std::vector<std::pair<const Value*, Space>> found;
    std::vector<const Value*> queue{root};
    std::vector<bool> seen(body_.graph()->valueLimit());
    for (size_t i = 0; i < queue.size(); ++i) {
      const Value* value = queue[i];
      if (std::optional<Space> space = reductionOf(value)) found.emplace_back(value, *space);
      if (!value->def()) continue;
      for (const ir::Use& use : value->def()->operands()) {
        const Root* known = rootOf(use.value);
        bool inMemory = known && known->isMemory();
        if (seen[use.value->id()] || inMemory || !use.value->tensor()) continue;
        seen[use.value->id()] = true;
        queue.push_back(use.value);
      }
    }
    return found;
  }

  // What is computed for every element on the way to a reduction is best stored there.
  std::optional<Space> spaceOfReader(const Root& root) const {
    for (const Root& other : roots_) {
      if (other.value == root.value) continue;
      for (const auto& [value, own] : reductionsBelow(other.value)) {
        if (fits(root.value, own)) return own;
      }
    }
    return std::nullopt;
  }

  Space spaceOfSteps(const Value* value) const {
    const ops::Operator* op = ops::of(value->def());
    ops::Inferred unused;
    ops::Steps steps =
        ops::putRuleOf(op)->steps(ops::Infer(*op, group_.region()->graph()->context(), value->def()->args(), unused));
    Space space;
    space.sizes = steps.sizes;
    space.ordered = steps.ordered;
    return space;
  }

  Space spaceOfRoot(const Root& root) {
    std::vector<std::pair<const Value*, Space>> reductions = reductionsBelow(root.value);
    std::optional<Space> space;
    if (root.part == Root::Part::Steps) space = spaceOfSteps(root.value);
    for (const auto& [value, own] : reductions) {
      if (!space && (value == root.value || fits(root.value, own))) space = own;
    }
    Space plain;
    plain.sizes = ir::Dims(root.value->tensor()->sizes());
    if (!space && root.part == Root::Part::Whole) space = spaceOfReader(root);
    if (!space) space = plain;
    for (const auto& [value, own] : reductions) {
      if (value != root.value && !sameSpace(own, *space) && !rootOf(value)) throw NeedsMemory{value};
    }
    return *space;
  }

  // The kernels of the roots that are read by this one, if it is computed in `kernel`, are before it.
  bool canJoin(const Root& root, size_t kernel) const {
    std::vector<const Value*> queue{root.value};
    std::vector<bool> seen(body_.graph()->valueLimit());
    for (size_t i = 0; i < queue.size(); ++i) {
      if (!queue[i]->def()) continue;
      for (const ir::Use& use : queue[i]->def()->operands()) {
        if (seen[use.value->id()]) continue;
        seen[use.value->id()] = true;
        const Root* known = rootOf(use.value);
        if (known && known->kernel > kernel) return false;
        if (known && known->kernel < kernel) continue;
        if (known && known->isMemory()) return false;
        queue.push_back(use.value);
      }
    }
    return true;
  }

  std::vector<Plan> plan() {
    std::stable_sort(roots_.begin(), roots_.end(), [&](const Root& a, const Root& b) { return order(a) < order(b); });
    std::vector<Plan> plans;
    for (Root& root : roots_) root.kernel = SIZE_MAX;
    for (size_t i = 0; i < roots_.size(); ++i) {
      Space space = spaceOfRoot(roots_[i]);
      size_t kernel = plans.size();
      bool steps = roots_[i].part == Root::Part::Steps;
      for (size_t k = plans.size(); !steps && k-- > 0;) {
        roots_[i].kernel = k;
        if (plans[k].steps) continue;
        if (sameSpace(plans[k].space, space) && canJoin(roots_[i], k)) {
          kernel = k;
          break;
        }
      }
      if (kernel == plans.size()) plans.push_back({space, {}, steps});
      roots_[i].kernel = kernel;
      plans[kernel].roots.push_back(i);
    }
    return plans;
  }

  size_t order(const Root& root) const { return position_[root.value->def()->id()]; }

  // ---- one attempt ----

  // False: something was learnt, begin anew.
  bool tryOnce(Lowered& lowered) {
    for (Root& root : roots_) root.done = false;
    try {
      std::vector<Plan> plans = plan();
      std::vector<Temporary> partial = temporaries_;
      for (size_t k = 0; k < plans.size(); ++k) {
        Launch launch = build(plans[k], k);
        if (readsWhatIsWritten(launch)) return false;
        std::optional<Chunks> chunks;
        if (mayBeSplit(launch)) chunks = splitIntoChunks(launch, partial);
        if (chunks) {
          lowered.launches.push_back(std::move(chunks->first));
          lowered.launches.push_back(std::move(chunks->second));
        } else {
          lowered.launches.push_back(std::move(launch));
        }
      }
      for (const Root& root : roots_) {
        if (root.late) lowered.launches.push_back(copyOf(root));
      }
      lowered.temporaries = std::move(partial);
    } catch (const NeedsMemory& need) {
      for (Root& root : roots_) {
        if (root.value != need.value || root.part == Root::Part::Before) continue;
        if (root.isMemory()) ops::notLowered("a value that its own kernel reads at another place");
        root.apart = true;
        return false;
      }
      require(need.value);
      auto number = static_cast<uint32_t>(temporaries_.size());
      temporaries_.push_back({need.value->tensor()->dtype, ir::numel(need.value->tensor()->sizes())});
      addRoot(need.value, {Operand::Kind::Temporary, number});
      return false;
    }
    return true;
  }

  // Is a parameter read where an earlier kernel has written to it, or this one at another place? Then that write comes
  // last.
  bool readsWhatIsWritten(const Launch& launch) {
    for (uint32_t b = 0; b < launch.buffers.size(); ++b) {
      if (launch.buffers[b].kind != Operand::Kind::Parameter) continue;
      for (Root& root : roots_) {
        if (!root.over || root.late || !(root.place == launch.buffers[b])) continue;
        bool written = launch.kernel.buffers[b].written;
        bool late = written ? readsBehindStore(launch.kernel, b) : root.done;
        root.done |= written;
        if (!late) continue;
        auto number = static_cast<uint32_t>(temporaries_.size());
        temporaries_.push_back({root.value->tensor()->dtype, ir::numel(root.value->tensor()->sizes())});
        root.place = {Operand::Kind::Temporary, number};
        root.late = true;
        return true;
      }
    }
    return false;
  }

  // What is done once before a loop is done for every chunk of it: nothing that is read there may change.
  static bool mayBeSplit(const Launch& launch) {
    for (const kernel::Phase& phase : launch.kernel.phases) {
      if (phase.loop) return true;
      for (uint32_t i = phase.begin; i < phase.end; ++i) {
        const kernel::Node& node = launch.kernel.nodes[i];
        if (node.op == kernel::Op::Store && launch.buffers[node.at].kind == Operand::Kind::Parameter) return false;
      }
    }
    return true;
  }

  Launch copyOf(const Root& root) const {
    const TensorType& to = *root.over->tensor();
    Launch launch = storeCopy(to.dtype, to.sizes(), to.strides());
    launch.buffers = {root.place, {Operand::Kind::Parameter, root.over->index()}};
    return launch;
  }

  Launch build(const Plan& plan, size_t k) {
    Loads loads(*this, k);
    Axes axes(plan.space);
    if (plan.steps) shareSteps(axes);
    for (size_t attempt = 0;; ++attempt) {
      if (attempt == kMostAttempts) ops::notLowered("too many ways to split its loops");
      try {
        KernelBuilder builder(group_.region()->graph()->context(), loads, axes);
        for (size_t i : plan.roots) {
          const Root& root = roots_[i];
          if (plan.steps) {
            builder.put(root.value, stridesOf(root));
            continue;
          }
          builder.store(root.value, stridesOf(root), root.late ? nullptr : root.over);
        }
        return finish(builder);
      } catch (const Split& split) {
        axes.split(split);
      }
    }
  }

  // Where only the last axis has no order, it becomes two, so that threads can share the first of these.
  static void shareSteps(Axes& axes) {
    if (axes.count() < 2 || axes.isOrdered(static_cast<uint32_t>(axes.count() - 1))) return;
    for (uint32_t axis = 0; axis + 1 < axes.count(); ++axis) {
      if (!axes.isOrdered(axis)) return;
    }
    auto last = static_cast<uint32_t>(axes.count() - 1);
    constexpr int64_t kLeast = 64, kMost = 256, kLine = 16;
    sym::Int extent = axes.extent(last);
    for (int64_t inner = kMost; extent.isConst() && inner >= kLeast; inner -= kLine) {
      if (extent.constant() % inner != 0 || extent.constant() < 2 * inner) continue;
      return axes.split({last, sym::Int(inner)});
    }
  }

  Launch finish(KernelBuilder& builder) {
    Launch launch;
    for (const Memory& memory : builder.memory()) {
      if (!memory.value) {
        launch.buffers.push_back({Operand::Kind::Flag, 0});
        continue;
      }
      const Root* root = rootOf(memory.value);
      const TensorType& type = *memory.value->tensor();
      sym::Int bytes = ir::numel(type.sizes()) * sym::Int(ir::byteSize(type.dtype));
      if (memory.written) launch.bytesWritten += bytes;
      if (!memory.written || builder.isOverwritten(memory)) launch.bytesRead += bytes;
      launch.buffers.push_back(root ? root->place : Operand{Operand::Kind::Parameter, memory.value->index()});
    }
    Assembled assembled = assemble(builder);
    launch.kernel = std::move(assembled.kernel);
    launch.arguments = std::move(assembled.arguments);
    launch.numbers = std::move(assembled.numbers);
    measure(launch);
    return launch;
  }

  const ir::Node& group_;
  const ir::Region& body_;
  std::span<const uint32_t> written_;
  std::vector<size_t> position_;  // in the body, by number of the node: a pass may have made it late
  std::vector<Root> roots_;
  std::vector<Temporary> temporaries_;
};

std::string nameOf(const Operand& operand) {
  if (operand.kind == Operand::Kind::Flag) return "flag";
  const char* kinds[] = {"operand ", "result ", "temporary "};
  return kinds[static_cast<size_t>(operand.kind)] + std::to_string(operand.number);
}

std::string nameOfArgument(const Launch& launch, uint32_t argument) {
  for (const Number& number : launch.numbers) {
    if (number.argument != argument) continue;
    return sym::toString(number.value.node()) + (number.single ? " as f32" : " as f64");
  }
  return sym::toString(launch.arguments[argument]);
}

}  // namespace

Lowered lower(const ir::Node& group) {
  if (!writesParameters(group)) return GroupLowering(group, {}).run();
  WithoutWrites computed = withoutWrites(group);
  if (!computed.group) return {{}, {}, computed.reason};
  Lowered lowered = GroupLowering(*computed.group, computed.written).run();
  for (const Launch& launch : lowered.launches) {
    for (const Operand& buffer : launch.buffers) {
      // The operators that are called instead would find what is written already.
      if (buffer.kind == Operand::Kind::Flag) return {{}, {}, "what may raise beside what writes"};
    }
  }
  return lowered;
}

std::string describe(const Lowered& lowered) {
  if (!lowered.ok()) return "# not lowered: " + lowered.reason + "\n";
  std::string text;
  for (size_t i = 0; i < lowered.temporaries.size(); ++i) {
    text += "# temporary " + std::to_string(i) + ": " + std::string(ir::name(lowered.temporaries[i].dtype)) + "[" +
            sym::toString(lowered.temporaries[i].elements) + "]\n";
  }
  for (const Launch& launch : lowered.launches) {
    text += "#";
    for (size_t i = 0; i < launch.buffers.size(); ++i) {
      text += (i ? ", b" : " b") + std::to_string(i) + ": " + nameOf(launch.buffers[i]);
    }
    for (size_t i = 0; i < launch.arguments.size(); ++i) {
      text += ", s" + std::to_string(i) + ": " + nameOfArgument(launch, static_cast<uint32_t>(i));
    }
    text += "\n# " + sym::toString(launch.bytesRead) + " bytes read, " + sym::toString(launch.bytesWritten);
    text += " written\n" + kernel::print(launch.kernel);
  }
  return text;
}

}  // namespace saker::lower
