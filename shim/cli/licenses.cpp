#include "cli/licenses.h"

namespace rankshim {

std::string_view licenses() {
  return
#include "licenses.inc"
      ;
}

}  // namespace rankshim
