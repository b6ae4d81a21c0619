#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "supervise/supervise.h"

/// For tests: supervise() in a separate process, with real commands.
namespace rankshim::supervise {

enum class Mode : unsigned char {
  pid_1,      ///< as PID 1 of a PID namespace with its own /proc
  subreaper,  ///< as an ordinary process
};

/// The modes that this machine permits. Reports a missing one, which is an error if CI is set.
std::vector<Mode> modes();
const char* name(Mode mode);

/// A command under supervise(). A test reads the output of the command and its children line by line: lines
/// are the events that tests wait for. The destructor kills everything.
class Supervised {
 public:
  /// `before` runs in the new process before anything else, with no signal blocked; `prepare` runs just
  /// before the command is started.
  using Preparation = std::function<void(boost::asio::io_context&, Command&, Policy&)>;
  Supervised(Mode mode, const std::vector<std::string>& argv, const Policy& policy,
             const std::function<void()>& before = {}, const Preparation& prepare = {});
  /// The same for a shell script.
  Supervised(Mode mode, const std::string& script, const Policy& policy,
             const std::function<void()>& before = {});
  ~Supervised();
  Supervised(const Supervised&) = delete;
  Supervised& operator=(const Supervised&) = delete;

  /// The supervisor's pid.
  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;
  void queue(int number, int value) const;

  /// The next line of the command's output; "" at the end, when no process is left that could write.
  std::string line();

  /// Waits for the end, and returns the record.
  ExitRecord record();
  /// Waits for a supervisor that exits without a report, and returns its exit code.
  int exit_code();

 private:
  pid_t pid_ = -1;
  int output_ = -1;
  int result_ = -1;
  std::string unread_;
};

}  // namespace rankshim::supervise
