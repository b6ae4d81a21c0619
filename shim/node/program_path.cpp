#include "node/program_path.h"

#include <algorithm>

#include "base/text.h"

namespace rankshim {

std::vector<std::string> executable_candidates(std::string_view program, std::string_view path) {
  if (program.empty() || program.find('/') != std::string_view::npos) return {std::string(program)};
  std::vector<std::string> candidates;
  for (bool is_last = false; !is_last;) {
    is_last = path.find(':') == std::string_view::npos;
    std::string candidate(take_part(path, ":"));
    if (!candidate.empty()) candidate += '/';
    candidates.push_back(candidate.append(program));
  }
  return candidates;
}

std::size_t place_in_path(const std::string& file, std::string_view path) {
  const auto candidates = executable_candidates(base_name(file), path);
  return static_cast<std::size_t>(std::ranges::find(candidates, file) - candidates.begin());
}

}  // namespace rankshim
