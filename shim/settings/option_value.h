#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "settings/options.h"

/// The values that an option can have, by its kind.
namespace rankshim {

/// The value as it is kept ("1" becomes "true"); nothing where the kind does not allow it.
std::optional<std::string> normalise(const OptionInfo& option, std::string_view text);

/// What the kind allows, for "… is not".
std::string wanted(const OptionInfo& option);

/// What separates the values of an option that takes a list; '\0' where it takes none.
char separator(ValueKind kind);

/// Whether the value is one of the choices, "text|json".
bool is_one_of(std::string_view value, std::string_view choices);

/// "text, json" of "text|json".
std::string with_commas(std::string_view choices);

}  // namespace rankshim
