#include "topology/fact.h"

namespace rankshim {

std::string Value::source() const {
  switch (origin) {
    case Origin::option:
      return "option " + detail;
    case Origin::variable:
      return "env " + detail;
    case Origin::file:
      return "file " + detail;
    case Origin::config:
      return "config " + detail;
    case Origin::hostname:
      return "hostname";
    case Origin::devices:
      return "devices " + detail;
    case Origin::derived:
      return "derived from " + detail;
    case Origin::fallback:
      break;
  }
  return "default";
}

bool Value::from_user() const {
  return origin == Origin::option || origin == Origin::config ||
         (origin == Origin::variable && std::string_view(detail).starts_with("RANKSHIM_"));
}

}  // namespace rankshim
