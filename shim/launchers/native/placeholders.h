#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankshim::native {

/// Names without braces, and their values.
using Placeholders = std::vector<std::pair<std::string_view, std::string>>;

/// A word of a command with its placeholders filled in: {NAME} becomes the value of that name, and {{NAME}}
/// the text {NAME}. Everything else is unchanged, other names in braces too, so that JSON and templates
/// survive. A brace after a `$` belongs to the shell and is unchanged, except ${local_rank}, which torchrun
/// fills in as well (torch/distributed/elastic/utils/api.py, macros).
std::string filled_in(std::string_view word, const Placeholders& placeholders);

}  // namespace rankshim::native
