#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "node/process.h"
#include "supervise/spawn.h"

namespace rankshim::supervise {

/// A Python command that was started early. rankshim's part in it (launchers/torchrun/python/gate.py) imports
/// what its script will import first, waits at this gate, and then returns to CPython, which runs the script
/// as usual. The process is a child of rankshim with its final arguments, environment and descriptors, but
/// not a worker until it may go: no signal is passed on to it, and nobody waits for its end.
///
/// The two talk over a socket, one message per fact. Python sends "h" at the gate, "r" when it is ready, and
/// "x" with a reason if it cannot be used. rankshim sends "g", with the variables and the flags that were not
/// known before. If that crosses an "x", the process is already the command, and Python executes it afresh.
/// If rankshim ends, so does Python, without running the script.
class Prepared : boost::noncopyable {
 public:
  enum class State : std::uint8_t {
    starting,  ///< not at the gate yet; it is unknown whether rankshim's part runs
    at_gate,   ///< it is importing
    ready,
    unusable,  ///< the command must be started in the ordinary way; why() says why
  };

  /// Starts the command. `modules` tells the gate what to import: names separated by commas, among them
  /// "auto" for what the script itself imports first; or "-" for a probe, which answers and exits. `changed`
  /// is called from the event loop whenever the state changes.
  static std::shared_ptr<Prepared> start(boost::asio::io_context& io, const Command& command,
                                         const Spawn::Start& how, std::string_view modules,
                                         std::function<void()> changed);
  /// Kills the process, and what it has started, unless it may go.
  ~Prepared();

  [[nodiscard]] State state() const { return state_; }
  /// Whether the process has ever reached the gate.
  [[nodiscard]] bool has_answered() const { return has_answered_; }
  /// Why it is unusable, for a log line.
  [[nodiscard]] const std::string& why() const { return why_; }
  /// The process as it was started; its pid is 0 if it was not.
  [[nodiscard]] const node::Process& process() const { return process_; }
  [[nodiscard]] bool may_go() const { return may_go_; }

  /// Adds NAME=VALUE to the variables that it was started with, or gives it --NAME=VALUE in the place of the
  /// first word of that name.
  void add(std::string_view entry);

  /// Lets it go: from now on it is the command. Returns its pid; or kills it and returns nullopt if it is
  /// unusable, was stopped (SIGSTOP), or has not reached the gate yet.
  std::optional<pid_t> go();

 private:
  explicit Prepared(boost::asio::io_context& io) : socket_(io) {}

  static void listen(const std::shared_ptr<Prepared>& self, std::function<void()> changed);
  void take_messages();
  void take(std::string_view message);
  void give_up(std::string why);
  void kill();

  boost::asio::posix::stream_descriptor socket_;
  State state_ = State::starting;
  bool has_answered_ = false;
  std::string why_;
  node::Process process_;
  std::string late_;  // NAME=VALUE or --NAME=VALUE, each terminated by a NUL
  bool may_go_ = false;
};

}  // namespace rankshim::supervise
