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

/// A Python command that was started before its time. Our part in Python (launchers/torchrun/python/gate.py)
/// imports what its script will import first, waits at this gate, and returns to CPython, which runs the
/// script as it would have. It is a child of rankshim with its final arguments, environment and descriptors,
/// and no worker before it may go: no signal is passed on to it, and nobody waits for its end.
///
/// The two talk over a socket, one message for one fact. Python says "h" at the gate, "r" when it is ready,
/// and "x" and a reason if it cannot be used. rankshim says "g", with the variables that were not known
/// before. If that crosses an "x", the process is the command already, and Python starts it anew. If rankshim
/// ends, so does Python, without running the script.
class Prepared : boost::noncopyable {
 public:
  enum class State : std::uint8_t {
    starting,  ///< Python is not at the gate yet: nobody knows whether our part is there
    at_gate,   ///< it imports
    ready,
    unusable,  ///< the command must be started in the ordinary way: why()
  };

  /// Starts it. `modules` is what the gate is told: names by comma, "auto" among them for what the script
  /// itself imports first, or "-" for a probe, which answers and ends. `changed` is called from the event
  /// loop when its state has.
  static std::shared_ptr<Prepared> start(boost::asio::io_context& io, const Command& command,
                                         const Spawn::Start& how, std::string_view modules,
                                         std::function<void()> changed);
  /// Kills it, and what it has started, unless it may go.
  ~Prepared();

  [[nodiscard]] State state() const { return state_; }
  /// Whether it has ever said that it is at the gate.
  [[nodiscard]] bool has_answered() const { return has_answered_; }
  /// Why it is unusable, for a line of the log.
  [[nodiscard]] const std::string& why() const { return why_; }
  /// As it was started; a process number of 0 if it was not.
  [[nodiscard]] const node::Process& process() const { return process_; }
  [[nodiscard]] bool may_go() const { return may_go_; }

  /// NAME=VALUE, which it gets besides the variables that it was started with.
  void add(std::string_view entry);

  /// It may go, and is the command from now on: returns its process number. nullopt if it is unusable, was
  /// stopped by somebody (SIGSTOP), or has not come to the gate yet; then it is killed.
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
  std::string late_variables_;  // NAME=VALUE, each ended by a NUL
  bool may_go_ = false;
};

}  // namespace rankshim::supervise
