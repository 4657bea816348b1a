// Lines of the user's own code, as opposed to those of libraries.
#pragma once

#include <string>

#include "frontend/user_names.h"

namespace saker::frontend {

// The folder of PyTorch's Python code, with a slash at its end.
const std::string& folderOfTorch();
// Is it Python code of PyTorch's or of Python's own library?
bool isLibrary(const std::string& file);
// The same, or of any package that is installed, or ours.
bool isInstalled(const std::string& file);
// A file of a package, from the package on.
std::string inPackage(const std::string& file);
// The innermost line of this thread that is none of these; an empty file where there is none.
Definition lineOfUser();

}  // namespace saker::frontend
