#include "launchers/python_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <csignal>
#include <cstdint>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace rankshim::launchers {
namespace {

constexpr std::string_view exit_call = "sys.exit(";

/// The document; or, if it is truncated, the document without its last incomplete element (an escape, a key),
/// closed there. Empty if it does not begin like an error file, or is so long that parsing it again and again
/// would take seconds.
std::string closed(std::string document) {
  constexpr std::size_t longest_cut = 64;  // `", "extraInfo": {"py_callstack": "`, or an escape
  constexpr std::size_t most_bytes = std::size_t{4} << 20U;
  const std::size_t most_cut = std::min(longest_cut, most_bytes / (document.size() + 1));
  for (std::size_t cut = 0; cut <= most_cut && !document.empty(); ++cut, document.pop_back()) {
    for (const char* const end : {"", "\"}", "\"}}", "\"}}}"})
      if (json::error(document + end).empty()) return document + end;
  }
  return {};
}

/// A text of torch's backends that contains both parts; the second may be empty.
struct Sign {
  std::string_view text, and_text;
};

/// Each comes with the file that writes it (pytorch/pytorch@v2.13.0, its third_party/gloo and NVIDIA/nccl).
constexpr auto signs = std::to_array<Sign>({
    // gloo/common/error.h, GLOO_ERROR_MSG, puts the file and line before the message. In these files, the
    // message concerns the connection to a peer: "Connection closed by peer", "Read error", "writev", "Read
    // timeout", or what connect() says; "Timed out waiting 1800000ms for recv operation to complete".
    {"gloo/transport/tcp/pair.cc:", ""},
    {"gloo/transport/tcp/buffer.cc:", "timeout"},
    {"gloo/transport/tcp/unbound_buffer.cc:", "Timed out waiting"},
    {"Application timeout caused pair closure", ""},  // unbound_buffer.cc, without its path
    // gloo/transport/context.cc (formerly rendezvous/context.cc): a worker that never came
    {"Gloo connectFullMesh failed", ""},
    // NVIDIA/nccl src/init.cc, ncclGetErrorString(); torch/csrc/distributed/c10d/NCCLUtils.cpp
    {"remote process exited or there was a network error", ""},
    {"ncclRemoteError", ""},
    // NCCLUtils.cpp, waitUntilInitialized(): a worker that never came; getNcclComm(): the watchdog gave up
    // first
    {"NCCL timeout in communicator initialization", ""},
    {"NCCL communicator was aborted", ""},
    // torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp, checkTimeout(): the watchdog
    {"Watchdog caught collective operation timeout", ""},
    // torch/csrc/distributed/c10d/Utils.hpp: the connection to the store, which is node 0's
    {"Connection was likely closed. Did the remote server shutdown or crash?", ""},
    {"DistNetworkError: Connection reset by peer", ""},
    {"DistNetworkError: Broken pipe", ""},
    // torch/csrc/distributed/c10d/socket.cpp, TCPStore.cpp: a peer that does not answer, or never comes
    {"The client socket has timed out after", "while trying to connect to"},
    {"wait timeout after ", "ms, keys: "},
    {"waiting for clients. ", " clients joined"},
    // torch/distributed/distributed_c10d.py, _store_based_barrier()
    {"Timed out initializing process group in store based barrier", ""},
    // torch/csrc/distributed/c10d/ProcessGroupGloo.cpp, monitoredBarrier(): rank 0, and the others
    {" failed to pass monitoredBarrier in ", ""},
    {" successfully reached monitoredBarrier, but received errors while waiting", ""},
    // torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py
    {"The connection to the C10d store has failed", ""},
});

/// The start of gloo's own checks (gloo/common/logging.h, GLOO_ENFORCE). Their failures are this node's
/// fault, such as an interface that does not exist ("Unable to find address for: ^lo") or collectives that do
/// not match.
constexpr std::string_view own_check = "[enforce fail at ";

/// Whether the word ends in the name and line of a C++ file: "…/pair.cc:547".
bool is_place(std::string_view word) {
  const std::string_view file = split_next(word, ":");
  return all_digits(word) &&
         (file.ends_with(".cc") || file.ends_with(".cpp") || file.ends_with(".hpp") || file.ends_with(".h"));
}

/// The original line of an exception that torch caught in another process or thread and raised again, and
/// where that was: "ValueError: boom (in DataLoader worker process 0)" (torch/_utils.py, ExceptionWrapper;
/// also torch/multiprocessing/spawn.py). Empty for any other exception.
std::string caught_elsewhere(std::string_view exception) {
  constexpr std::string_view spawned = " terminated with the following error:\n";
  if (const auto at = exception.find(spawned); at != std::string_view::npos) {
    const std::string_view text = trimmed(exception.substr(at + spawned.size()));
    return fmt::format("{} (in a process that it spawned)", text.substr(text.rfind('\n') + 1));
  }
  const auto caught = exception.find(": Caught "), original = exception.find(".\nOriginal Traceback ");
  if (caught == std::string_view::npos || original == std::string_view::npos || original < caught) return {};
  std::string_view where = exception.substr(0, original);
  where.remove_prefix(caught + std::string_view(": Caught ").size());
  const std::string_view kind = split_next(where, " ");
  std::string_view last;
  for (std::string_view rest = exception.substr(original + 2); !rest.empty();) {
    const std::string_view line = next_line(rest);
    if (!line.starts_with(' ') && line.substr(0, line.find(':')).ends_with(kind)) last = line;
  }
  return last.empty() ? std::string() : fmt::format("{} ({})", last, where);
}

}  // namespace

PythonError read_error_file(const node::Host& host, const std::string& path) {
  const std::string document = closed(host.file(path).value_or(""));
  std::string message = json::field(document, "message").value_or("");
  if (message.starts_with('{')) message = json::field(document, "message.message").value_or("");
  return {std::move(message), json::field(document, "message.extraInfo.py_callstack").value_or("")};
}

std::optional<std::pair<unsigned, unsigned>> ranks_that_differ(std::string_view exception) {
  split_next(exception, "Detected mismatch between collectives on ranks. Rank ");
  const auto own = first_number<unsigned>(exception);
  split_next(exception, ", but Rank ");
  const auto other = first_number<unsigned>(exception);
  return own && other ? std::optional(std::pair(*own, *other)) : std::nullopt;
}

std::string_view peer_in(std::string_view exception) {
  // gloo/transport/tcp/pair.cc; torch/csrc/distributed/c10d/TCPStore.cpp and socket.cpp
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> places = {{{"by peer [", "]"},
                                                                                    {"Read error [", "]"},
                                                                                    {"writev [", "]"},
                                                                                    {"remote=[", "]"},
                                                                                    {"connect to (", ","},
                                                                                    {"peer: [", "]"}}};
  for (const auto& [before, after] : places) {
    const auto at = exception.find(before);
    if (at == std::string_view::npos) continue;
    const std::string_view rest = exception.substr(at + before.size());
    const auto end = rest.find(after);
    if (end != std::string_view::npos) return rest.substr(0, end);
  }
  return {};
}

std::string in_plain_words(std::string_view exception) {
  const std::string caught = caught_elsewhere(exception);
  std::string_view text =
      caught.empty() ? exception.substr(0, exception.find('\n')) : std::string_view(caught);
  text = trimmed(text.substr(0, text.find("GLHF!")));
  std::string plain;
  while (!text.empty()) {
    const std::string_view word = split_next(text, " ");
    std::string_view inner = word.substr(word.starts_with('[') ? 1 : 0);
    while (inner.ends_with(']') || inner.ends_with(',')) inner.remove_suffix(1);
    if (!is_place(inner))
      plain.append(plain.empty() ? "" : " ").append(word);
    else if (plain.ends_with(" in:"))
      plain.replace(plain.size() - 4, 4, ":");
  }
  return plain;
}

bool is_error_of_lost_peer(std::string_view exception) {
  const auto has = [exception](std::string_view text) { return exception.find(text) != exception.npos; };
  return !has(own_check) &&
         std::ranges::any_of(signs, [&](const Sign& sign) { return has(sign.text) && has(sign.and_text); });
}

std::string_view traceback_of_loss(std::string_view traceback) {
  for (std::string_view rest = traceback; !rest.empty();) {
    const std::string_view line = next_line(rest);
    if (!line.starts_with(' ') && is_error_of_lost_peer(line))
      return traceback.substr(0, traceback.size() - rest.size());
  }
  return traceback;
}

bool is_error_of_timeout(std::string_view exception) {
  // "Timed out waiting", "has timed out after", "Watchdog caught collective operation timeout", …
  constexpr auto texts =
      std::to_array<std::string_view>({"imed out", "timeout", "failed to pass monitoredBarrier"});
  return std::ranges::any_of(
      texts, [exception](std::string_view text) { return exception.find(text) != exception.npos; });
}

bool is_error_of_child(std::string_view exception) {
  return exception.starts_with("CalledProcessError:") || exception.starts_with("ChildFailedError:");
}

bool is_error_of_lost_host(std::string_view exception) {
  return exception.starts_with("RendezvousConnectionError");
}

bool is_error_of_no_meeting(std::string_view exception) {
  return exception.find("RendezvousTimeoutError") != std::string_view::npos ||
         exception.find("waiting for clients") != std::string_view::npos;
}

bool is_error_of_busy_port(std::string_view exception) {
  // torch/csrc/distributed/c10d/socket.cpp; Python's OSError
  return exception.find("EADDRINUSE") != std::string_view::npos ||
         exception.find("Address already in use") != std::string_view::npos;
}

bool is_exit(std::string_view exception) { return exception.starts_with(exit_call); }

std::optional<std::int64_t> code_of_exit(std::string_view exception) {
  if (!is_exit(exception)) return std::nullopt;
  exception.remove_prefix(exit_call.size());
  return parse_number<std::int64_t>(exception.substr(0, exception.find(')')));
}

std::optional<supervise::WorkerEnd> read_failure(const node::Host& host, const std::string& path) {
  const auto document = host.file(path);
  if (!document) return std::nullopt;
  // Any process of the command can write this file, so check it.
  const auto number = [&](const char* name, int least, int most) {
    const auto found = parse_number<int>(json::field(*document, name).value_or(""));
    return found && *found >= least && *found <= most ? found : std::nullopt;
  };
  const auto rank = number("rank", 0, INT_MAX), pid = number("pid", 1, INT_MAX);
  const auto local_rank = number("local_rank", 0, rank.value_or(0));
  const auto exitcode =
      number("exitcode", -SIGRTMAX, UINT8_MAX);  // as in Python: below 0, the signal that killed it
  if (!rank || !local_rank || !pid || exitcode.value_or(0) == 0) return std::nullopt;
  return supervise::WorkerEnd{.pid = *pid,
                              .local_rank = static_cast<unsigned>(*local_rank),
                              .rank = static_cast<unsigned>(*rank),
                              .status = *exitcode < 0 ? -*exitcode : *exitcode << 8};
}

}  // namespace rankshim::launchers
