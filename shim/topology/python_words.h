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
  std::size_t rest = 0;  ///< the first word of what it is given
  /// The interpreter with its own options; empty where the command is for rankshim's (-m MODULE, x.py).
  std::vector<std::string> interpreter;
};

/// Reads `python[3[.x]] [OPTIONS] -m MODULE|SCRIPT …`, with or without a path, and `-m MODULE …` and `x.py
/// …`, which rankshim gives to an interpreter itself. Nothing for any other command, and for one without
/// module and script (-c, stdin). The options are those of CPython 3 (Python documentation, "Command line and
/// environment").
std::optional<PythonWords> read_python(const std::vector<std::string>& command);

}  // namespace rankshim
