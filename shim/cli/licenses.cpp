#include "cli/licenses.h"

#include "base/files.h"

namespace rankshim {

std::string licenses() {
  constexpr EmbeddedFile files[] = {
#include "licenses.inc"
  };
  std::string text;
  for (const EmbeddedFile& file : files) text.append(file.text) += '\n';
  return text;
}

}  // namespace rankshim
