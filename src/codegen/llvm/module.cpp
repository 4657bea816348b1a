// The library's function: texts of kernels in, an object file or a listing out.
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Pass.h>
#include <llvm/Support/CommandLine.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/TargetParser/Host.h>

#include <mutex>
#include <optional>

#include "codegen/emit_api.h"
#include "codegen/llvm/emitter.h"
#include "kernel/parse.h"
#include "kernel/verify.h"

namespace saker::codegen {
namespace {

// Once: LLVM keeps its options and targets in globals. The two passes cost a third of the time, and the code that comes
// without them is as fast: loops are written as they should be already.
void initialize() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    const char* arguments[] = {"saker", "-disable-lsr", "-disable-post-ra"};
    llvm::cl::ParseCommandLineOptions(3, arguments);
  });
}

std::unique_ptr<llvm::TargetMachine> machine(const TargetInfo& target, std::string& error) {
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  const llvm::Target* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found) return nullptr;
  llvm::TargetOptions options;
  return std::unique_ptr<llvm::TargetMachine>(found->createTargetMachine(triple, target.cpu, "", options,
                                                                         llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                                         llvm::CodeGenOptLevel::Default, true));
}

// All passes but one: in LLVM 22, x86-compress-evex takes away an instruction that makes a mask of signs where a later
// block needs the mask too, or where it is shifted. What the pass gives is a shorter encoding.
class Passes final : public llvm::legacy::PassManager {
 public:
  void add(llvm::Pass* pass) override {
    if (pass->getPassName() == "Compressing EVEX instrs when possible") {
      delete pass;
    } else {
      llvm::legacy::PassManager::add(pass);
    }
  }
};

class Request {
 public:
  explicit Request(const SakerEmit& request) : request_(request) {}

  void run() {
    initialize();
    std::optional<Target> target = targetFromName(request_.target);
    if (!target) return request_.fail(request_.user, "there is no such target");
    std::string error;
    std::unique_ptr<llvm::TargetMachine> machine = codegen::machine(info(*target), error);
    if (!machine) return request_.fail(request_.user, error.c_str());
    llvm::LLVMContext context;
    llvm::Module module("saker", context);
    module.setTargetTriple(machine->getTargetTriple());
    module.setDataLayout(machine->createDataLayout());
    if (!write(module, info(*target), error)) return request_.fail(request_.user, error.c_str());
    llvm::SmallVector<char, 0> out;
    llvm::raw_svector_ostream stream(out);
    if (request_.form == 1) {
      module.print(stream, nullptr);
    } else {
      Passes passes;
      auto kind = request_.form == 2 ? llvm::CodeGenFileType::AssemblyFile : llvm::CodeGenFileType::ObjectFile;
      if (machine->addPassesToEmitFile(passes, stream, nullptr, kind)) {
        return request_.fail(request_.user, "LLVM cannot write this kind of file");
      }
      passes.run(module);
    }
    request_.take(request_.user, out.data(), out.size());
  }

 private:
  bool write(llvm::Module& module, const TargetInfo& target, std::string& error) {
    Functions functions;
    functions.eager = request_.eagerFunctions;
    functions.has = [this](const std::string& name) { return request_.has(request_.user, name.c_str()); };
    std::string tune = *request_.tuneFor ? request_.tuneFor : llvm::sys::getHostCPUName().str();
    for (size_t i = 0; i < request_.count; ++i) {
      kernel::Parsed parsed = kernel::parse(request_.kernels[i]);
      if (!parsed.ok()) return error = "kernel: " + parsed.error->message, false;
      std::vector<kernel::Diagnostic> wrong = kernel::verify(parsed.kernel);
      if (!wrong.empty()) return error = "kernel: " + wrong[0].message, false;
      Emitter(module, parsed.kernel, target, functions, "kernel" + std::to_string(i)).run();
    }
    for (llvm::Function& function : module) {
      if (!function.isDeclaration()) function.addFnAttr("tune-cpu", tune);
    }
    // Listings are for those who look for errors.
    llvm::raw_string_ostream stream(error);
    return request_.form != 1 || !llvm::verifyModule(module, &stream);
  }

  const SakerEmit& request_;
};

}  // namespace
}  // namespace saker::codegen

__attribute__((visibility("default"))) void saker_codegen_emit(const SakerEmit* request) {
  saker::codegen::Request(*request).run();
}
