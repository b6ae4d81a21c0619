#include "platform/contradiction.h"

#include <algorithm>

#include "base/glob.h"

namespace rankshim::platform {
namespace {

// The depth is that of an expression.  NOLINTNEXTLINE(misc-no-recursion)
bool same(std::uint16_t a, std::uint16_t b, const Tables& tables) {
  if (a == b) return true;
  const Step &one = tables.steps[a], &other = tables.steps[b];
  if (one.op != other.op || one.function != other.function) return false;
  if (one.op == Op::text || one.op == Op::variable) return tables.text(one.index) == tables.text(other.index);
  return std::ranges::equal(tables.children_of(one), tables.children_of(other),
                            // NOLINTNEXTLINE(misc-no-recursion)
                            [&](std::uint16_t child, std::uint16_t its) { return same(child, its, tables); });
}

bool has_no_wildcard(std::string_view glob) { return glob.find_first_of("*?") == std::string_view::npos; }

bool fits_everything(std::string_view glob) { return glob.find_first_not_of('*') == std::string_view::npos; }

}  // namespace

Condition negated(Condition condition) {
  switch (condition.sign) {
    case Sign::set:
      condition.sign = Sign::not_set;
      break;
    case Sign::not_set:
      condition.sign = Sign::set;
      break;
    case Sign::like:
      condition.sign = Sign::unlike;
      break;
    case Sign::unlike:
      condition.sign = Sign::like;
      break;
  }
  return condition;
}

bool contradict(const Condition& a, const Condition& b, const Tables& tables) {
  if ((is_negative(a) && is_negative(b)) || !same(a.root, b.root, tables)) return false;
  const Condition &holds = is_negative(a) ? b : a, &other = is_negative(a) ? a : b;
  if (other.sign == Sign::not_set) return true;
  if (other.sign == Sign::set) return false;
  const std::string_view glob = tables.text(other.glob);
  if (other.sign == Sign::unlike && fits_everything(glob)) return true;
  if (holds.sign == Sign::set) return false;
  const std::string_view its = tables.text(holds.glob);
  if (other.sign == Sign::unlike) return its == glob || (has_no_wildcard(its) && fits(its, glob));
  return (has_no_wildcard(its) && !fits(its, glob)) || (has_no_wildcard(glob) && !fits(glob, its));
}

bool implies(const Condition& first, const Condition& second, const Tables& tables) {
  return contradict(first, negated(second), tables);
}

}  // namespace rankshim::platform
