/// An answer of a name server.

#include <ares.h>

#include "target.h"
#include "wait/dns.h"

FUZZ_TARGET(dns) {
  ares_dns_record_t* record = nullptr;
  if (ares_dns_parse(data, size, 0, &record) != ARES_SUCCESS) return 0;
  rankshim::wait::Reply reply;
  rankshim::wait::read_record(*record, reply);
  ares_dns_record_destroy(record);
  return 0;
}
