#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "outcome/look.h"

/// What the workers' own Python says of their collectives. NCCL's own service for such questions, RAS
/// (localhost:28028), is not asked: it counts the collectives that a rank has started, not those that have
/// ended (NCCL, src/ras/client_support.cc), and answers after five seconds where a process is stopped.
namespace rankshim::look {

inline constexpr std::size_t longest_answer = std::size_t{128} << 10U;
inline constexpr std::size_t most_groups = 64;

/// Asks our part in each worker's Python (sitecustomize.py, answer_looks) at `folder`/look.PID, and waits for
/// the answers at most `patience`. Who does not answer is left out: it has no process group yet, or a C call
/// holds the GIL. Only a process's own answer counts (unix(7), SCM_CREDENTIALS). `operations`: what each
/// group's last collective is is wanted too. Such a process needs some 50 ms for that, and is asked for the
/// numbers before. Must not be cancelled.
boost::asio::awaitable<std::map<pid_t, std::vector<outcome::GroupProgress>>> ask_progress(
    boost::asio::io_context& io, const std::string& folder, const std::vector<pid_t>& pids, bool operations,
    std::chrono::milliseconds patience);

/// The processes that answer there, sorted, and those that have ended since: all that have made a process
/// group in this attempt.
std::vector<pid_t> find_answering(const std::string& folder);

/// An answer: a JSON list of groups, each [name, description, members, entered, ended, operation],
/// whose members are a list of [first rank, last rank, step]. At most `most_groups` of them, without those
/// that say what cannot be; nullopt if it is anything else.
std::optional<std::vector<outcome::GroupProgress>> parse_progress(std::string_view answer);

}  // namespace rankshim::look
