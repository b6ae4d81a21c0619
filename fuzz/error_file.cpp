/// The error file of torch's workers, which a worker that is killed leaves unfinished.

#include "launchers/python_error.h"

#include "node/fake_host_for_test.h"
#include "target.h"

FUZZ_TARGET(error_file) {
  using namespace rankshim;
  node::FakeHost host({});
  host.files["/error.json"] = fuzz::text_of(data, size);
  launchers::read_error_file(host, "/error.json");
  return 0;
}
