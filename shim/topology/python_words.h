#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rankshim {

/// What a command that starts Python runs.
struct PythonWords {
  std::string what;      ///< the module's name, or the script's path
  bool module = false;   ///< by -m
  std::size_t rest = 0;  ///< the index of the first argument for it
  /// The interpreter with its options; empty if the command leaves it to rankshim (-m MODULE, x.py).
  std::vector<std::string> interpreter;
};

/// Reads `python[3[.x]] [OPTIONS] -m MODULE|SCRIPT …`, with or without a path, and `-m MODULE …` and `x.py
/// …`, for which rankshim chooses the interpreter. Returns nothing for any other command, and for one without
/// module and script (-c, stdin). The options are those of CPython 3 (Python documentation, "Command line and
/// environment").
std::optional<PythonWords> read_python(const std::vector<std::string>& command);

}  // namespace rankshim
