#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "node/host.h"
#include "supervise/exit_record.h"

namespace rankshim::launchers {

/// A Python exception: its one line and its traceback, both redacted.
struct PythonError {
  std::string message;    ///< "ValueError: boom"; empty if there is none
  std::string traceback;  ///< complete, the oldest call first
};

/// Reads the error file that torch.distributed.elastic writes for a worker or the agent: {"message":
/// {"message", "extraInfo": {"py_callstack"}}}, or {"message": TEXT}
/// (torch/distributed/elastic/multiprocessing/errors, ErrorHandler). A file that is larger than 1 MiB or
/// incomplete is read as far as possible. Such a file comes from a script's @record, from rankshim's
/// sitecustomize.py or from an exception of the agent.
PythonError read_error_file(const node::Host& host, const std::string& path);

/// Whether this text, an exception's one line, is the error of a worker whose peer has gone: torch's backends
/// then report an error of their connection. An error that has other causes too (a broken pipe to a data
/// loader) does not count.
bool is_error_of_lost_peer(std::string_view exception);

/// The traceback up to the first of the exceptions that follow each other which is such an error: who handles
/// it may enter another collective, as to save. All of it if there is none.
std::string_view traceback_of_loss(std::string_view traceback);

/// Whether such an error says that the worker waited for its peers in vain, which may live.
bool is_error_of_timeout(std::string_view exception);

/// Whether it only says that another process has failed: Python's subprocess, and torch's torchrun
/// (torch/distributed/elastic/multiprocessing/errors).
bool is_error_of_child(std::string_view exception);

/// Whether it is the error of an agent that lost the node which hosts the store of a c10d rendezvous
/// (torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py).
bool is_error_of_lost_host(std::string_view exception);

/// Whether it is the error of an agent that waited for the other nodes in vain
/// (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, and torch/csrc/distributed/c10d/TCPStore.cpp
/// for the host of the static rendezvous).
bool is_error_of_no_meeting(std::string_view exception);

/// Whether it is the error of a process that could not listen on a port because another one holds it
/// (EADDRINUSE).
bool is_error_of_busy_port(std::string_view exception);

/// Whether it is no exception but the place where a script has called sys.exit with a code: "sys.exit(3) at
/// train.py, line 7" (python/sitecustomize.py, record).
bool is_exit(std::string_view exception);
/// The code of that sys.exit, as the script gave it; nullopt if it is none or does not fit.
std::optional<std::int64_t> code_of_exit(std::string_view exception);

/// The address or name of the peer that such an error names; empty if it names none.
std::string_view peer_in(std::string_view exception);

/// The exception's one line without the places in torch's sources where it was made ("[…/pair.cc:547] ",
/// "… in: …/NCCLUtils.cpp:94, ") and without gloo's "GLHF! 🏖️". Of one that torch has caught in another
/// process and raises again (a DataLoader's worker), what that said.
std::string in_plain_words(std::string_view exception);

/// Reads the worker that failed first, as torchrun tells it (python/sitecustomize.py, tell_failure). Nullopt
/// if there is no such file, or if it says what cannot be true of a worker that failed.
std::optional<supervise::WorkerEnd> read_failure(const node::Host& host, const std::string& path);

}  // namespace rankshim::launchers
