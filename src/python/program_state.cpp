#include "python/program_state.h"

#include "aten/context.h"
#include "ir/parse.h"
#include "ir/print.h"

namespace saker::python {

namespace {

using runtime::Program;
using runtime::Source;

// Moves with each change of what follows; a state of another one is refused.
constexpr int kFormat = 1;

// A saker.Graph of the same text would run other code than was captured.
const char* whyNot(const Program& program) {
  if (!program.objects.empty()) {
    return "the graph holds an object (a random generator, a call of Python) that belongs to this process; capture the "
           "function again where it is loaded";
  }
  if (program.function) {
    return "gradients of this graph run code of the user's (a torch.autograd.Function, a hook); capture the function "
           "again where it is loaded";
  }
  return nullptr;
}

py::list sourcesOf(const Program& program) {
  py::list out;
  for (const Source& source : program.sources) {
    out.append(py::make_tuple(static_cast<int>(source.kind), source.argument, source.tensor, source.literal));
  }
  return out;
}

py::list gradientsOf(const Program& program) {
  py::list out;
  for (const Program::Gradient& each : program.gradients) {
    out.append(py::make_tuple(each.parameter, static_cast<int>(each.before)));
  }
  return out;
}

py::list userWritesOf(const Program& program) {
  py::list out;
  for (const Program::UserWrite& each : program.userWrites) out.append(py::make_tuple(each.counted, each.parameters));
  return out;
}

void fill(Program& program, const py::dict& state) {
  for (py::handle each : state["sources"]) {
    auto row = py::cast<py::tuple>(each);
    auto tensor = row[2].is_none() ? at::Tensor() : py::cast<at::Tensor>(row[2]);
    program.sources.push_back(
        {static_cast<Source::Kind>(py::cast<int>(row[0])), py::cast<size_t>(row[1]), tensor, py::cast<bool>(row[3])});
  }
  for (py::handle each : state["gradients"]) {
    auto row = py::cast<py::tuple>(each);
    program.gradients.push_back(
        {py::cast<size_t>(row[0]), static_cast<Program::Gradient::Before>(py::cast<int>(row[1]))});
  }
  for (py::handle each : state["user_writes"]) {
    auto row = py::cast<py::tuple>(each);
    program.userWrites.push_back({py::cast<uint32_t>(row[0]), py::cast<std::vector<std::vector<size_t>>>(row[1])});
  }
}

// Members that are plain values, in one place for both directions.
template <typename Visit>
void eachPlain(Visit visit) {
  visit("arguments", &Program::arguments);
  visit("argument_writes", &Program::argumentWrites);
  visit("as_recorded", &Program::asRecorded);
  visit("user_wrote", &Program::userWrote);
  visit("same_as", &Program::sameAs);
  visit("closed_writes", &Program::closedWrites);
  visit("results", &Program::results);
  visit("result_requires_grad", &Program::resultRequiresGrad);
  visit("differentiable", &Program::differentiable);
  visit("grad_around", &Program::gradAround);
  visit("shows_gradients", &Program::showsGradients);
  visit("user_gradients", &Program::userGradients);
  visit("memories", &Program::memories);
}

}  // namespace

py::tuple programState(const Program& program) {
  if (const char* why = whyNot(program)) throw py::type_error(why);
  py::dict state;
  state["sources"] = sourcesOf(program);
  state["gradients"] = gradientsOf(program);
  state["user_writes"] = userWritesOf(program);
  eachPlain([&](const char* name, auto member) { state[name] = py::cast(program.*member); });
  py::object recorded = program.recorded ? py::object(programState(*program.recorded)) : py::none();
  return py::make_tuple(kFormat, ir::print(*program.graph, {.locations = true, .guards = true}), state, recorded);
}

std::shared_ptr<Program> programFrom(const py::tuple& state) {
  if (state.size() != 4 || py::cast<int>(state[0]) != kFormat) {
    throw py::value_error("this graph was pickled by another version of Saker");
  }
  auto program = std::make_shared<Program>();
  program->context = aten::newContext();
  ir::Parsed parsed = ir::parse(py::cast<std::string>(state[1]), program->context);
  if (!parsed.ok()) throw py::value_error("a pickled graph cannot be read: " + parsed.error->message);
  program->graph = std::move(parsed.graph);
  auto parts = py::cast<py::dict>(state[2]);
  fill(*program, parts);
  eachPlain([&](const char* name, auto member) {
    using Value = std::remove_cvref_t<decltype((*program).*member)>;
    (*program).*member = py::cast<Value>(parts[name]);
  });
  if (!state[3].is_none()) program->recorded = programFrom(py::cast<py::tuple>(state[3]));
  return program;
}

}  // namespace saker::python
