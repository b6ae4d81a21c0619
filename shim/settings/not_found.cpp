#include "settings/not_found.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "base/text.h"
#include "node/environment.h"
#include "settings/options.h"

namespace rankshim::settings {
namespace {

bool has_folder(std::string_view program) { return program.find('/') != std::string_view::npos; }

bool is_subcommand(std::string_view word) {
  return !word.empty() && std::ranges::find(usages, word, &Usage::name) != usages.end();
}

/// The final target of a symbolic link, if it does not exist; empty for any other path. A virtual environment
/// that was copied without its Python has such links.
std::string missing_target(const std::string& path) {
  constexpr int most_links = 40;  // path_resolution(7)
  std::error_code unknown;
  std::filesystem::path at = path;
  for (int links = 0; links < most_links; ++links) {
    const std::filesystem::path target = std::filesystem::read_symlink(at, unknown);
    if (unknown) break;
    at = at.parent_path() / target;
  }
  const bool is_missing = at != path && !std::filesystem::exists(at, unknown);
  return is_missing ? at.string() : std::string();
}

/// Advice on a file of that name in the working directory, which is not in PATH; empty if there is none.
std::string advice_on_file_here(const std::string& name) {
  std::error_code unknown;
  if (has_folder(name) || !std::filesystem::is_regular_file(name, unknown)) return {};
  const bool runs = access(name.c_str(), X_OK) == 0;
  return fmt::format("; it is in the working directory: write {}{}", runs ? "./" : "sh ", shell_quote(name));
}

}  // namespace

std::string where_not_found(std::string_view program) {
  const char* const path = std::getenv("PATH");
  for (const std::string& candidate :
       node::executable_candidates(program, path == nullptr ? node::default_path : path)) {
    const std::string target = missing_target(candidate);
    if (!target.empty())
      return fmt::format(": {} is a symbolic link to {}, which is not there",
                         candidate == program ? "it" : in_quotes(candidate), in_quotes(target));
  }
  return has_folder(program) ? "" : " in PATH";
}

std::string_view advice_on_blanks(std::string_view word) {
  return word.find(' ') == std::string_view::npos
             ? ""
             : "; it is one word: give each word of the command separately";
}

std::string not_found(std::string_view program) {
  const std::string where = where_not_found(program);
  std::string advice;
  if (where.starts_with(':'))
    advice = base_name(program).starts_with("python")
                 ? "; create its virtual environment again with this image's Python"
                 : "; correct the link";
  else if (is_subcommand(program))
    advice = fmt::format("; a subcommand is the first word: rankshim {} [OPTIONS]", program);
  else if (program == "torchrun")
    advice = "; it is beside torch's Python: install torch in this image, or add that folder to PATH";
  else
    advice = advice_on_blanks(program);
  if (advice.empty()) advice = advice_on_file_here(std::string(program));
  return fmt::format("{} was not found{}{}", in_quotes(program), where, advice);
}

}  // namespace rankshim::settings
