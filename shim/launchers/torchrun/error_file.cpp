#include "launchers/torchrun/error_file.h"

#include <sys/stat.h>

#include "base/json_field.h"
#include "launchers/torchrun/cut_json.h"

namespace rankshim {

PythonError read_error_file(const Node& node, const std::string& path) {
  std::string document = node.file(path).value_or("");
  PythonError error;
  if (document.empty()) return error;
  if (!json::error(document).empty()) document = closed_json(document);
  error.traceback = json::field(document, "message.extraInfo.py_callstack").value_or("");
  error.message = json::field(document, "message.message").value_or("");
  if (error.message.empty()) error.message = json::field(document, "message").value_or("");
  return error;
}

FileState state_of(const std::string& path) {
  struct stat status{};
  if (path.empty() || stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace rankshim
