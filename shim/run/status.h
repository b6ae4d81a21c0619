#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <string>
#include <vector>

#include "run/ask_status.h"

/// `rankshim status`: a Unix socket that says what this container's instance is doing.
namespace rankshim::status {

/// What answers a question.
class Source {
 public:
  Source() = default;
  virtual ~Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  /// One JSON object; docs/report.md says what is in it.
  [[nodiscard]] virtual std::string status() const = 0;
};

/// The instance's side: everybody of our own user, and root, who connects gets the text and is hung up.
class Socket {
 public:
  Socket(boost::asio::io_context& io, const Source& source) : source_(source), listener_(io) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Listens at `rankshim.sock` in the first of these folders where that is possible, and where none has room
  /// at `rankshim-N.sock`, N being our PID namespace's number; warns of what was in the way, and where it
  /// listens nowhere. Does nothing where it listens already. Another instance of this container keeps its
  /// place, and this one has no socket; one of another container (a shared /dev/shm) keeps its, and the next
  /// is tried. What an instance of our own user's that is gone left is replaced, and nothing else.
  void open(const std::vector<std::string>& folders);

  /// Nobody is answered any more. The file is removed if it is still ours.
  void close();

 private:
  /// 0, or an errno: EADDRINUSE where another instance of this container answers, which `keeper_` is.
  int open_at(const std::string& path);
  void tell_of_keeper(const std::string& path) const;
  void listen();
  void answer();

  const Source& source_;
  boost::asio::posix::stream_descriptor listener_;
  std::string path_;
  dev_t device_ = 0;  // of the file at path_
  ino_t inode_ = 0;
  pid_t keeper_ = 0;
};

}  // namespace rankshim::status
