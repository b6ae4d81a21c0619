#include "torchrun/error_file.h"

#include <sys/stat.h>

#include "platform/json_field.h"

namespace rankshim {

PythonError read_error_file(const Node& node, const std::string& path) {
  const std::string document = node.file(path).value_or("");
  PythonError error;
  if (document.empty()) return error;
  error.traceback = platform::json_field(document, "message.extraInfo.py_callstack").value_or("");
  error.message = platform::json_field(document, "message.message").value_or("");
  if (error.message.empty()) error.message = platform::json_field(document, "message").value_or("");
  return error;
}

bool is_newer(const std::string& path, std::chrono::steady_clock::time_point start) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return false;
  using std::chrono::system_clock;
  const auto age = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - start);
  // The file system's clock may lag a moment behind.
  return status.st_mtime + 1 >= system_clock::to_time_t(system_clock::now() - age);
}

}  // namespace rankshim
