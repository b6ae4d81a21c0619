#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "node/host.h"
#include "supervise/exit_record.h"

/// The exceptions that Python processes leave in files, and what torch's say. What starts the workers makes
/// no difference.
namespace rankshim::launchers {

/// A Python exception: its last line and its traceback, both redacted.
struct PythonError {
  std::string message;    ///< "ValueError: boom"; empty if there is none
  std::string traceback;  ///< complete, oldest call first
};

/// Reads the error file that torch.distributed.elastic writes for a worker or the agent: {"message":
/// {"message", "extraInfo": {"py_callstack"}}}, or {"message": TEXT}
/// (torch/distributed/elastic/multiprocessing/errors, ErrorHandler). A file that is incomplete or larger than
/// 1 MiB is read as far as possible. Such a file comes from a script's @record, from rankshim's
/// sitecustomize.py or from an exception in the agent.
PythonError read_error_file(const node::Host& host, const std::string& path);

/// Whether an exception's line is the error of a worker whose peer is gone, for which torch's backends report
/// a connection error. An error that can have other causes too (a broken pipe to a data loader) does not
/// count.
bool is_error_of_lost_peer(std::string_view exception);

/// The traceback, cut after the first of several chained exceptions that is such an error, because a handler
/// may have entered another collective, for example to save. All of it if there is no such error.
std::string_view traceback_of_loss(std::string_view traceback);

/// Whether such an error says that the worker timed out waiting for its peers, which may still be alive.
bool is_error_of_timeout(std::string_view exception);

/// Whether the exception only says that another process failed, as those of Python's subprocess and of
/// torchrun do (torch/distributed/elastic/multiprocessing/errors).
bool is_error_of_child(std::string_view exception);

/// Whether the exception is that of an agent that lost the node hosting the store of a c10d rendezvous
/// (torch/distributed/elastic/rendezvous/c10d_rendezvous_backend.py).
bool is_error_of_lost_host(std::string_view exception);

/// Whether the exception is that of an agent that waited for the other nodes in vain
/// (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py, and torch/csrc/distributed/c10d/TCPStore.cpp
/// for the host of the static rendezvous).
bool is_error_of_no_meeting(std::string_view exception);

/// Whether the exception is that of a process that could not listen on a port because another one holds it
/// (EADDRINUSE).
bool is_error_of_busy_port(std::string_view exception);

/// Whether the text is not an exception but the place where a script called sys.exit with a code:
/// "sys.exit(3) at train.py, line 7" (torchrun/python/sitecustomize.py, record).
bool is_exit(std::string_view exception);
/// The code that the script passed to sys.exit; nullopt if there is none, or it does not fit.
std::optional<std::int64_t> code_of_exit(std::string_view exception);

/// Two ranks whose collectives differ, the one that raised the exception first, if torch says so
/// (torch/csrc/distributed/c10d/ProcessGroupWrapper.cpp, with TORCH_DISTRIBUTED_DEBUG=DETAIL); nullopt for
/// any other exception. They are ranks in the process group, which may have other numbers than the job.
std::optional<std::pair<unsigned, unsigned>> ranks_that_differ(std::string_view exception);

/// The peer's address or name in such an error; empty if it names none.
std::string_view peer_in(std::string_view exception);

/// The exception's line without the places in torch's sources that raised it ("[…/pair.cc:547] ", "… in:
/// …/NCCLUtils.cpp:94, ") and without gloo's "GLHF! 🏖️". For an exception that torch caught in another
/// process and raised again (a DataLoader's worker), the original line.
std::string in_plain_words(std::string_view exception);

/// Reads which worker failed first according to torchrun (torchrun/python/sitecustomize.py, tell_failure).
/// nullopt if there is no such file, or what it says cannot be true of a worker that failed.
std::optional<supervise::WorkerEnd> read_failure(const node::Host& host, const std::string& path);

}  // namespace rankshim::launchers
