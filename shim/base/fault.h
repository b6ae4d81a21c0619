#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace rankshim {

/// Something wrong that the user can put right. Faults are values: a stage collects all that it finds and
/// returns them, so that one run shows every mistake.
struct Fault {
  std::string what;                ///< what is wrong, with the values that show it
  std::vector<std::string> names;  ///< the variables, options, keys or files concerned
  std::string fix;                 ///< what to do, ending with the option or variable that settles it
  bool transient = false;          ///< it may end by itself: a caller that can wait tries again
};

using Faults = std::vector<Fault>;

/// A stage's value, or everything that was wrong with its input.
template <class Value>
using Outcome = std::variant<Value, Faults>;

/// The fault as the one line for stderr: what is wrong, then what to do.
inline std::string to_line(const Fault& fault) { return fault.what + "; " + fault.fix; }

}  // namespace rankshim
