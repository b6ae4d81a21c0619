#include "report/rejected.h"

#include <string>

#include "base/fault.h"
#include "report/exit_report.h"
#include "report/files.h"

namespace rankshim {

int conclude_rejected(const Rejected& rejected, const Node& node) {
  const Settings& settings = rejected.invocation.settings;
  Verdict verdict;
  verdict.code = rejected.exit_code;
  verdict.cause = verdict.code == exit_code::configuration ? Cause::config : Cause::none;
  verdict.sentence = to_line(rejected.faults.front());
  verdict.failed = true;
  const Details details;
  const ExitReport report = common_report(verdict, exit_code_of(verdict, settings), details, node);
  if (const std::string path(settings.text(Option::report)); !path.empty())
    replace_file(path, as_json(report));
  TerminationLog(std::string(settings.text(Option::termination_log))).finish(termination_message(report));
  return report.exit_code;
}

}  // namespace rankshim
