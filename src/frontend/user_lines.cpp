#include "frontend/user_lines.h"

#include <string_view>

#include "frontend/kinds.h"
#include "host/objects.h"
#include "watch/once.h"
#include "watch/ref.h"

namespace saker::frontend {

namespace {

std::string folderOf(const char* package) {
  Ref module = Ref::steal(PyImport_ImportModule(package));
  std::string file = module ? textAttribute(module.get(), "__file__") : "";
  PyErr_Clear();
  return file.substr(0, file.rfind('/') + 1);
}

const std::string& folderOfSaker() {
  static constinit watch::Once<std::string> folder;
  return folder.get([] { return folderOf("saker"); });
}

std::string fileOf(PyCodeObject* code) {
  const char* data = PyUnicode_AsUTF8(code->co_filename);
  if (!data) PyErr_Clear();
  return data ? data : "";
}

}  // namespace

const std::string& folderOfTorch() {
  static constinit watch::Once<std::string> folder;
  return folder.get([] { return folderOf("torch"); });
}

bool isLibrary(const std::string& file) {
  bool installed = file.find("/site-packages/") != std::string::npos;
  return file.starts_with(folderOfTorch()) || (!installed && file.find("/lib/python3.") != std::string::npos);
}

bool isInstalled(const std::string& file) {
  bool installed =
      file.find("/site-packages/") != std::string::npos || file.find("/dist-packages/") != std::string::npos;
  return installed || isLibrary(file) || file.starts_with(folderOfSaker());
}

std::string inPackage(const std::string& file) {
  for (std::string_view folder : {"/site-packages/", "/dist-packages/"}) {
    if (size_t at = file.rfind(folder); at != std::string::npos) return file.substr(at + folder.size());
  }
  if (file.starts_with(folderOfTorch())) return "torch/" + file.substr(folderOfTorch().size());
  return file.substr(file.rfind('/') + 1);
}

Definition lineOfUser() {
  Ref frame = Ref::steal(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(PyThreadState_Get())));
  while (frame) {
    auto* at = reinterpret_cast<PyFrameObject*>(frame.get());
    Ref code = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(at)));
    std::string file = fileOf(reinterpret_cast<PyCodeObject*>(code.get()));
    if (!file.empty() && file[0] != '<' && !isInstalled(file)) return {file, PyFrame_GetLineNumber(at)};
    frame = Ref::steal(reinterpret_cast<PyObject*>(PyFrame_GetBack(at)));
  }
  return {};
}

}  // namespace saker::frontend
