#include "launchers/torchrun/error_file.h"

#include <sys/stat.h>

#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "launchers/torchrun/cut_json.h"

namespace rankshim {
namespace {

std::string_view trim_sign(std::string_view text) { return text.substr(text.starts_with('-') ? 1 : 0); }

}  // namespace

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

std::optional<FailedWorker> read_failure(const Node& node, const std::string& path) {
  const std::string document = node.file(path).value_or("");
  if (document.empty()) return std::nullopt;
  const auto number = [&](const char* name) {
    const std::string text = json::field(document, name).value_or("");
    return std::pair(text.starts_with('-'), parse_number<unsigned>(trim_sign(text)));
  };
  const auto rank = number("rank").second;
  const auto local_rank = number("local_rank").second;
  const auto pid = number("pid").second;
  const auto [negative, code] = number("exitcode");
  if (!rank || !local_rank || !pid || !code) return std::nullopt;
  const int exitcode = static_cast<int>(*code);
  return FailedWorker{*rank, *local_rank, static_cast<pid_t>(*pid), negative ? -exitcode : exitcode};
}

FileState state_of(const std::string& path) {
  struct stat status{};
  if (path.empty() || stat(path.c_str(), &status) != 0) return {};
  return {status.st_dev, status.st_ino, status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
}

}  // namespace rankshim
