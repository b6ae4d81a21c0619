/// The functions of profiles, node lists and rank tables among them: the first line names the function, each
/// further NUL-separated part is an argument.

#include "platform/expression.h"

#include "target.h"

FUZZ_TARGET(functions) {
  using namespace rankshim;
  const auto text = fuzz::text_of(data, size);
  const auto line = text.find('\n');
  if (line == std::string_view::npos) return 0;
  for (const platform::Signature& signature : platform::signatures()) {
    if (signature.name != text.substr(0, line)) continue;
    auto arguments = fuzz::split(text.substr(line + 1), '\0', signature.most);
    if (arguments.size() < signature.least) return 0;
    if (signature.compute != nullptr) signature.compute(arguments);
  }
  return 0;
}
