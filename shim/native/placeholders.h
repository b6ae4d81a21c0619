#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rankshim::native {

/// Names without braces, and what stands in their place.
using Placeholders = std::vector<std::pair<std::string_view, std::string>>;

/// A word of a command with its placeholders filled in: {NAME} becomes the value of that name, {{NAME}} the
/// text {NAME}. All else stays as it is, other names in braces too, so that JSON and templates survive. What
/// has a `$` before it is the shell's, and stays, but for ${local_rank}, which torchrun fills in as well
/// (torch/distributed/elastic/utils/api.py, macros).
std::string filled_in(std::string_view word, const Placeholders& placeholders);

}  // namespace rankshim::native
