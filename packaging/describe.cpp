// Prints the tables behind the command line as JSON, for packaging/reference.py. The system's compiler builds
// it: the headers need nothing but the standard library, and the released binary carries none of this.
#include <iostream>
#include <string_view>

#include "settings/options.h"

namespace {

using rankshim::settings::Example;
using rankshim::settings::ExitCodeInfo;
using rankshim::settings::OptionInfo;
using rankshim::settings::Usage;

struct Quoted {
  std::string_view text;
};

/// Our tables hold printable ASCII and ends of lines.
std::ostream& operator<<(std::ostream& out, Quoted quoted) {
  out << '"';
  for (const char c : quoted.text) {
    if (c == '"' || c == '\\') out << '\\';
    if (c == '\n')
      out << "\\n";
    else
      out << c;
  }
  return out << '"';
}

std::ostream& operator<<(std::ostream& out, const Usage& usage) {
  return out << R"({"name": )" << Quoted{usage.name} << R"(, "arguments": )" << Quoted{usage.arguments}
             << R"(, "help": )" << Quoted{usage.help} << "}";
}

std::ostream& operator<<(std::ostream& out, const Example& example) {
  return out << R"({"command": )" << Quoted{example.command} << R"(, "help": )" << Quoted{example.help}
             << "}";
}

std::ostream& operator<<(std::ostream& out, const OptionInfo& option) {
  return out << R"({"group": )" << Quoted{option.group} << R"(, "name": )" << Quoted{option.name}
             << R"(, "argument": )" << Quoted{option.argument} << R"(, "default": )"
             << Quoted{option.fallback} << R"(, "help": )" << Quoted{option.help} << R"(, "variable": )"
             << option.has_variable << R"(, "key": )" << option.has_key << "}";
}

std::ostream& operator<<(std::ostream& out, const ExitCodeInfo& info) {
  return out << R"({"code": )" << Quoted{info.code} << R"(, "meaning": )" << Quoted{info.meaning}
             << R"(, "again": )" << Quoted{info.again} << "}";
}

void print_list(std::string_view name, const auto& list) {
  std::cout << Quoted{name} << ": [";
  std::string_view between = "\n";
  for (const auto& entry : list) {
    std::cout << between << entry;
    between = ",\n";
  }
  std::cout << "],\n";
}

}  // namespace

int main() {
  std::cout << std::boolalpha << "{";
  print_list("usages", rankshim::settings::usages);
  print_list("texts", rankshim::settings::text_options);
  print_list("options", rankshim::settings::options);
  print_list("examples", rankshim::settings::examples);
  print_list("exit_codes", rankshim::settings::exit_codes);
  std::cout << R"("names": )" << Quoted{rankshim::settings::names_text} << "}\n";
  return std::cout.flush() ? 0 : 1;
}
