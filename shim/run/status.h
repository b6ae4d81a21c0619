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

/// The longest answer that a client accepts.
inline constexpr std::size_t longest_answer = std::size_t{64} << 10U;

/// The folders where the socket may be: only `run_dir`; or if that is empty, /run, /dev/shm and $TMPDIR, in
/// this order.
std::vector<std::string> socket_folders(std::string_view run_dir, const node::Environment& environment);

/// What can be asked. Each question has its own socket.
enum class Question : std::uint8_t {
  status,
  stacks,   ///< what the workers are doing
  metrics,  ///< the status as metrics
};

/// The instance's side: a client that is root or has the same user gets the answer when it connects, and is
/// then disconnected.
class Socket {
 public:
  using Reply = std::function<void(const std::string&)>;

  /// `answer` calls its argument, at once or later, with the reply: one JSON object of at most
  /// `longest_answer` bytes, which docs/report.md describes. If it never does, the client gets nothing.
  Socket(boost::asio::io_context& io, Question question, std::function<void(Reply)> answer)
      : question_(question), answer_(std::move(answer)), listener_(io) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Listens at `rankshim-NAMESPACE-PID.sock` (or `.stacks`, `.metrics`) in the first of these folders where
  /// that is possible; logs a warning if it is possible in none. Does nothing if it is already listening.
  void open(const std::vector<std::string>& folders);

 private:
  int open_at(const std::string& path);  ///< returns 0, or an errno
  void listen();
  void answer();

  const Question question_;
  std::function<void(Reply)> answer_;
  boost::asio::posix::stream_descriptor listener_;
  std::string path_;
};

/// The client's side: returns the answer of an instance in these folders, one JSON object in ASCII. It asks
/// the nearest ancestor that is an instance, or else the first instance that answers. In the machine's own
/// PID namespace, where several jobs may run, it asks only instances of this process's Slurm job or session,
/// unless the user has named the folder. Empty if none answers within half a second; an instance opens its
/// socket a moment after its start. An instance that answers may take five seconds and 64 KiB. Instances of
/// another PID namespace do not count, nor those of users other than root, this process's user and the user
/// of PID 1.
std::string ask(const std::vector<std::string>& folders, Question question = Question::status);

/// Whether the answer comes from an instance that has not failed.
bool is_well(std::string_view answer);

/// Whether the answer shows a job in which all nodes have met, and this node's workers run.
bool is_ready(std::string_view answer);

}  // namespace rankshim::run::status
