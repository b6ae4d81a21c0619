#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "wait/dns_client.h"

namespace rankshim::wait {

namespace ip = boost::asio::ip;

void read_record(const ares_dns_record_t& record, Query& query) {
  // All addresses of the answer, whatever name they belong to: a CNAME's target follows it in the same
  // section.
  for (std::size_t i = 0; i < ares_dns_record_rr_cnt(&record, ARES_SECTION_ANSWER); ++i) {
    const ares_dns_rr_t* rr = ares_dns_record_rr_get_const(&record, ARES_SECTION_ANSWER, i);
    if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_A) {
      if (const in_addr* raw = ares_dns_rr_get_addr(rr, ARES_RR_A_ADDR)) {
        query.addresses.emplace_back(ip::address_v4(ntohl(raw->s_addr)));
      }
    } else if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_AAAA) {
      if (const ares_in6_addr* raw = ares_dns_rr_get_addr6(rr, ARES_RR_AAAA_ADDR)) {
        ip::address_v6::bytes_type bytes{};
        std::memcpy(bytes.data(), raw, bytes.size());
        query.addresses.emplace_back(ip::address_v6(bytes));
      }
    }
  }
  for (std::size_t i = 0; i < ares_dns_record_rr_cnt(&record, ARES_SECTION_AUTHORITY); ++i) {
    const ares_dns_rr_t* rr = ares_dns_record_rr_get_const(&record, ARES_SECTION_AUTHORITY, i);
    if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_SOA) {
      query.negative_ttl = std::min(ares_dns_rr_get_ttl(rr), ares_dns_rr_get_u32(rr, ARES_RR_SOA_MINIMUM));
    }
  }
}

}  // namespace rankshim::wait
