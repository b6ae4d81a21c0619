#include "launchers/torchrun/python_site.h"

#include <unistd.h>

#include <string>

#include "base/files.h"

namespace rankshim {
namespace {

constexpr EmbeddedFile module[] = {
#include "python_site.inc"
};

/// A literal for Python 2 and 3. Bytes that are not plain ASCII are escaped, as torchrun reads them.
std::string python_literal(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string literal = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\') {
      literal += "\\x";
      literal += hex[byte >> 4U];
      literal += hex[byte & 15U];
    } else {
      literal += c;
    }
  }
  return literal + "\"";
}

std::string_view truth(bool value) { return value ? "True" : "False"; }

}  // namespace

std::string_view python_site_module() { return module[0].text; }

std::string python_site_call(const PythonSite& site) {
  std::string job = "None";
  if (site.job) {
    job = "{";
    for (const auto& [name, value] : *site.job)
      job += python_literal(name) + ": " + python_literal(value) + ", ";
    job += "}";
  }
  std::string text = "\n\nserve(";
  text += truth(site.had_path);
  text += ", " + job + ", " + python_literal(site.master) + ", ";
  text += truth(site.records);
  text += ", " + std::to_string(getpid());
  return text + ")\n";
}

}  // namespace rankshim
