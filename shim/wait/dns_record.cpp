#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "wait/questions.h"

namespace rankshim::wait {

namespace ip = boost::asio::ip;

void read_record(const ares_dns_record_t& record, Question& question) {
  // All addresses of the answer, whatever name they belong to: a CNAME's target follows it in the same
  // section.
  for (std::size_t i = 0; i < ares_dns_record_rr_cnt(&record, ARES_SECTION_ANSWER); ++i) {
    const ares_dns_rr_t* rr = ares_dns_record_rr_get_const(&record, ARES_SECTION_ANSWER, i);
    if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_A) {
      if (const in_addr* raw = ares_dns_rr_get_addr(rr, ARES_RR_A_ADDR)) {
        question.addresses.emplace_back(ip::address_v4(ntohl(raw->s_addr)));
      }
    } else if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_AAAA) {
      if (const ares_in6_addr* raw = ares_dns_rr_get_addr6(rr, ARES_RR_AAAA_ADDR)) {
        ip::address_v6::bytes_type bytes{};
        std::memcpy(bytes.data(), raw, bytes.size());
        question.addresses.emplace_back(ip::address_v6(bytes));
      }
    }
  }
  for (std::size_t i = 0; i < ares_dns_record_rr_cnt(&record, ARES_SECTION_AUTHORITY); ++i) {
    const ares_dns_rr_t* rr = ares_dns_record_rr_get_const(&record, ARES_SECTION_AUTHORITY, i);
    if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_SOA) {
      question.negative_ttl = std::min(ares_dns_rr_get_ttl(rr), ares_dns_rr_get_u32(rr, ARES_RR_SOA_MINIMUM));
    }
  }
}

}  // namespace rankshim::wait
