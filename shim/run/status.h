#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "node/environment.h"

/// `rankshim status`: a Unix socket that shows what this container's instance is doing.
namespace rankshim::run::status {

/// The longest answer that a client takes.
inline constexpr std::size_t longest_answer = std::size_t{64} << 10U;

/// The folders where the socket may be: only `run_dir`, or if that is empty, /run, /dev/shm and $TMPDIR, in
/// this order.
std::vector<std::string> socket_folders(std::string_view run_dir, const node::Environment& environment);

/// What can be asked: each question has a socket of its own.
enum class Question : std::uint8_t {
  status,
  stacks,   ///< what the workers do
  metrics,  ///< the status as metrics
};

/// The instance's side: a client that is root or of the same user gets the text when it connects, and is
/// disconnected.
class Socket {
 public:
  using Reply = std::function<void(const std::string&)>;

  /// `answer` gives the reply, at once or later, one JSON object of at most `longest_answer` bytes, which
  /// docs/report.md describes; without one the client gets nothing.
  Socket(boost::asio::io_context& io, Question question, std::function<void(Reply)> answer)
      : question_(question), answer_(std::move(answer)), listener_(io) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Listens at `rankshim-NAMESPACE-PID.sock` (else `.stacks`, `.metrics`) in the first of these folders
  /// where that is possible; logs a warning if it is in none. Does nothing if it listens already.
  void open(const std::vector<std::string>& folders);

 private:
  int open_at(const std::string& path);  ///< 0, or an errno
  void listen();
  void answer();

  const Question question_;
  std::function<void(Reply)> answer_;
  boost::asio::posix::stream_descriptor listener_;
  std::string path_;
};

/// The asking side: the answer of an instance in these folders, one JSON object in ASCII: of the nearest
/// ancestor that is one, else of the first that answers. On a machine without a PID namespace of its own,
/// where several jobs run, and unless the user has named the folder, only one of this process's Slurm job or
/// session is asked. Empty if none answers within half a second, because an instance opens its socket a
/// moment after its start. An instance that answers has five seconds and 64 KiB. An instance of another PID
/// namespace does not count, nor one of a user other than root, this process's user and the user of PID 1.
std::string ask(const std::vector<std::string>& folders, Question question = Question::status);

/// Whether that answer is one of an instance that has not failed.
bool is_well(std::string_view answer);

/// Whether that status is one of a job in which all nodes have met, and the workers of this one run.
bool is_ready(std::string_view answer);

}  // namespace rankshim::run::status
