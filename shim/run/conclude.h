#pragma once

#include <boost/asio/io_context.hpp>
#include <string>

#include "init/ending.h"
#include "init/signal_queue.h"
#include "launch/job.h"
#include "node/node.h"
#include "report/details.h"
#include "report/verdict.h"
#include "run/monitor.h"
#include "settings/settings.h"

namespace rankshim {

/// What is done with a verdict, whatever it is: the last line on stderr, the report, the termination log, the
/// post-stop hook, and the hold of a failed container.
class Conclusion {
 public:
  /// `whole` is false for `rankshim wait`, which has no hooks and is not held.
  Conclusion(boost::asio::io_context& io, supervise::SignalQueue& signals, const Settings& settings,
             const Node& node, Monitor& monitor, bool whole)
      : io_(io), signals_(signals), settings_(settings), node_(node), monitor_(monitor), whole_(whole) {}

  void set_job(const Job& job) { job_ = &job; }

  enum Saying : bool {
    say,
    said,  ///< the verdict's sentence stands on stderr already
  };
  /// Of an end before anything was started. Returns the code to exit with.
  int reach(const Verdict& verdict, Saying saying = say);
  int reach(const Verdict& verdict, const supervise::Ending& ending, const Details& details);

 private:
  int conclude(Verdict verdict, const supervise::Ending* ending, const Details& details, Saying saying);
  bool run_post_stop(const std::string& report, const std::string& path);
  void hold(std::chrono::milliseconds time);

  boost::asio::io_context& io_;
  supervise::SignalQueue& signals_;
  const Settings& settings_;
  const Node& node_;
  Monitor& monitor_;
  bool whole_;
  const Job* job_ = nullptr;
};

/// What settings that cannot be used leave in the report and the termination log, by as much of them as was
/// understood. Returns the code to exit with.
int conclude_rejected(const Rejected& rejected, const Node& node);

}  // namespace rankshim
