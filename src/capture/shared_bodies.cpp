// Equal bodies are kept once: what is derived from them, and what runs them, is then made once.
#include <mutex>
#include <unordered_map>

#include "capture/closed_bodies.h"
#include "passes/same_graph.h"
#include "support/intern_table.h"

namespace saker::tracing {

namespace {

// All that live, by hash. Their contexts tell recordings apart.
struct Known {
  std::mutex lock;
  std::unordered_multimap<uint64_t, c10::weak_intrusive_ptr<ClosedBodies>> bodies;
};

Known& known() {
  static auto* const table = new Known;  // used until the process ends
  return *table;
}

bool same(const ClosedBodies& a, const ClosedBodies& b) {
  if (a.kind() != b.kind() || a.shape() != b.shape() || a.graphs().size() != b.graphs().size()) return false;
  for (size_t i = 0; i < a.graphs().size(); ++i) {
    if (!passes::sameGraph(*a.graphs()[i], *b.graphs()[i])) return false;
  }
  return true;
}

}  // namespace

c10::intrusive_ptr<ClosedBodies> keptOnce(c10::intrusive_ptr<ClosedBodies> made) {
  uint64_t hash = hashMix(reinterpret_cast<uintptr_t>(made->context().get()), static_cast<uint64_t>(made->kind()));
  for (const std::unique_ptr<ir::Graph>& graph : made->graphs()) hash = hashMix(hash, passes::hashGraph(*graph));
  Known& table = known();
  std::lock_guard held(table.lock);
  auto [first, last] = table.bodies.equal_range(hash);
  while (first != last) {
    c10::intrusive_ptr<ClosedBodies> other = first->second.lock();
    if (!other) {
      first = table.bodies.erase(first);
      continue;
    }
    if (same(*other, *made)) return other;
    ++first;
  }
  table.bodies.emplace(hash, c10::weak_intrusive_ptr<ClosedBodies>(made));
  return made;
}

}  // namespace saker::tracing
