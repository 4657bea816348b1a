// Random numbers and random graphs for tests: the same for the same seed, on every machine.
#pragma once

#include <bit>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ops/operator.h"

namespace saker::ir::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t next() { return engine_(); }
  size_t below(size_t limit) { return limit ? engine_() % limit : 0; }
  bool chance(int percent) { return below(100) < static_cast<size_t>(percent); }
  template <typename T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  std::mt19937_64 engine_;
};

// How many times as much fuzzing as usual: SAKER_FUZZ_ITERATIONS.
inline size_t fuzzFactor() {
  const char* text = std::getenv("SAKER_FUZZ_ITERATIONS");
  long factor = text ? std::atol(text) : 1;
  return factor > 0 ? static_cast<size_t>(factor) : 1;
}

// Graphs with everything in them: symbols and facts, all kinds of types and arguments, operators with and without a
// schema, regions in regions, names and locations. What is made is valid.
class RandomGraph {
 public:
  RandomGraph(uint64_t seed, size_t nodes) : random_(seed), nodes_(nodes) {}
  std::unique_ptr<Graph> make();

  // Parts, for tests that change a graph.
  static std::string text(Random& random);
  Node* node(Region* region, Node* before, const std::vector<Value*>& visible);
  const Type* type(int depth = 0);
  // To a graph made by another one, whose names are not given again.
  void attach(Graph& graph) {
    graph_ = &graph;
    names_ = 1000000;
  }
  Attributes attributes();

 private:
  void symbols();
  const sym::Node* number(int depth);
  const sym::Node* condition(int depth);
  const sym::Node* real(int depth);
  Int size();
  const Type* tensor();
  Arg arg(const std::vector<Value*>& visible, int depth);
  Arg argFor(const SchemaType& type, const std::vector<Value*>& visible, bool element);
  Arg list(std::vector<Arg> elements);
  Arg valueOf(TypeKind kind, const std::vector<Value*>& visible);
  const Location* location();
  std::string name();
  void body(Region* region, std::vector<Value*> visible, size_t nodes, int depth);

  Random random_;
  size_t nodes_;
  Graph* graph_ = nullptr;
  Arena arena_;
  size_t names_ = 0;
};

}  // namespace saker::ir::testing
