#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "node/environment.h"

/// `rankshim status`: a Unix socket that shows what this container's instance is doing.
namespace rankshim::status {

/// The folders where the socket may be: only `run_dir`, or if that is empty, /run, /dev/shm and $TMPDIR, in
/// this order.
std::vector<std::string> socket_folders(std::string_view run_dir, const Environment& environment);

/// The instance's side: a client that is root or of the same user gets the text when it connects, and is
/// disconnected.
class Socket {
 public:
  /// `status` returns one JSON object; docs/report.md describes it.
  Socket(boost::asio::io_context& io, std::function<std::string()> status)
      : status_(std::move(status)), listener_(io) {}
  ~Socket();
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// Listens at `rankshim.sock` (on a machine without a PID namespace of its own `rankshim-process-PID.sock`,
  /// because several jobs may run there) in the first of these folders where that is possible, or if there is
  /// no room in any, at `rankshim-N.sock`, where N is the PID namespace's number. Logs a warning about
  /// obstacles, and if it listens nowhere. Does nothing if it listens already. If another instance of this
  /// container listens, it keeps its socket and this one has none; if one of another container does (in a
  /// shared /dev/shm), it keeps its socket and the next folder is tried. Only a socket that an instance of
  /// this user left when it ended is replaced.
  void open(const std::vector<std::string>& folders);

 private:
  /// 0, or an errno: EADDRINUSE if another instance of this container answers; its process is then `keeper_`.
  int open_at(const std::string& path);
  void warn_of_keeper(const std::string& path) const;
  void listen();
  void answer();

  std::function<std::string()> status_;
  boost::asio::posix::stream_descriptor listener_;
  std::string path_;
  dev_t device_ = 0;  // of the file at path_
  ino_t inode_ = 0;
  pid_t keeper_ = 0;
};

/// The asking side: the answer of the first instance that answers in these folders, one JSON object in ASCII.
/// On a machine without a PID namespace of its own, where several jobs run, and unless the user has named the
/// folder, that is the nearest ancestor's, or else one of this process's session or cgroup. Empty if none
/// does within half a second, because an instance opens its socket a moment after its start. An instance that
/// answers has five seconds and 64 KiB. An instance of another PID namespace does not count, nor one of a
/// user other than root, this process's user and the user of PID 1.
std::string ask(const std::vector<std::string>& folders);

/// Whether that answer is one of an instance that has not failed.
bool is_well(std::string_view answer);

}  // namespace rankshim::status
