#include "platform/expression.h"

#include <catch2/catch.hpp>

using namespace rankshim::platform;

namespace {

/// The tree as text: 'text', $NAME, $NAME|default, (part part), function<argument argument>.
std::string show(const Expression& expression) {
  if (expression.function == Function::text) return "'" + std::string(expression.text) + "'";
  if (expression.function == Function::variable) return "$" + std::string(expression.text);
  std::string children;
  const bool is_either = expression.function == Function::either;
  const std::string separator = is_either ? "|" : " ";
  for (const Expression& child : expression.children) {
    if (!children.empty()) children += separator;
    children += show(child);
  }
  if (is_either) return children;
  if (expression.function == Function::join) return "(" + children + ")";
  return std::string(signature(expression.function).name) + "<" + children + ">";
}

std::string parsed(std::string_view expression) {
  Arena arena;
  std::string error;
  Lets lets;
  lets["table"] = *parse_expression("file(${TABLE:-/etc/a})", lets, arena, error);
  const auto root = parse_expression(expression, lets, arena, error);
  return root ? show(*root) : "error: " + error;
}

}  // namespace

TEST_CASE("an expression is parsed into steps") {
  CHECK(parsed("29500") == "'29500'");
  CHECK(parsed("${RANK}") == "$RANK");
  CHECK(parsed("  ${RANK} ") == "$RANK");
  CHECK(parsed("${A}-${B}-${C:-0}.${A}") == "($A '-' $B '-' $C|'0' '.' $A)");
  CHECK(parsed("${A:-${B:-${C}}}") == "$A|$B|$C");
  CHECK(parsed("${A:-x${B}}") == "$A|('x' $B)");
  CHECK(parsed("${A:-first_host(${B})}") == "$A|first_host<$B>");
  CHECK(parsed("hostname()") == "hostname<>");
  CHECK(parsed("hostname( )") == "hostname<>");
  CHECK(parsed("first_host(${VC_WORKER_HOSTS})") == "first_host<$VC_WORKER_HOSTS>");
  CHECK(parsed("position( hostname() , ${HOSTS} )") == "position<hostname<> $HOSTS>");
  CHECK(parsed("only_if(${A:-not set}, not set, ${B})") == "only_if<$A|'not set' 'not set' $B>");
  CHECK(parsed("join(before(hostname(), -0), -0.svc)") == "(before<hostname<> '-0'> '-0.svc')");
  CHECK(parsed("variable(VC_${ROLE}_HOSTS)") == "variable<('VC_' $ROLE '_HOSTS')>");
  CHECK(parsed("add(1, 2, 3, 4)") == "add<'1' '2' '3' '4'>");
  CHECK(parsed("a text (with brackets)") == "'a text (with brackets)'");
  CHECK(parsed("$table") == "file<$TABLE|'/etc/a'>");
  CHECK(parsed("x-$table.json") == "('x-' file<$TABLE|'/etc/a'> '.json')");
  CHECK(parsed("field($table, servers.*.id)") == "field<file<$TABLE|'/etc/a'> 'servers.*.id'>");
}

TEST_CASE("a mistake in an expression is reported with its position") {
  CHECK(parsed("") == "error: '', character 1: an expression is expected here");
  CHECK(parsed("$RANK") ==
        "error: '$RANK', character 2: there is no 'RANK' in [let] above this (a variable is "
        "written ${NAME})");
  CHECK(parsed("$tabel").ends_with(
      "in [let] above this, the nearest is table (a variable is written ${NAME})"));
  CHECK(parsed("$1") == "error: '$1', character 2: '$' begins a variable: write ${NAME}");
  CHECK(parsed("{RANK}") ==
        "error: '{RANK}', character 1: text cannot contain a brace; write a variable as ${NAME}");
  CHECK(parsed("add({A}, 1)") ==
        "error: 'add({A}, 1)', character 5: text cannot contain a brace; write a variable as ${NAME}");
  CHECK(parsed("before(${A}, '-')") ==
        "error: 'before(${A}, '-')', character 14: an argument cannot contain quotes or ';'; separate "
        "arguments with ','");
  CHECK(parsed("add(${A};1)") ==
        "error: 'add(${A};1)', character 9: an argument cannot contain quotes or ';'; separate arguments "
        "with ','");
  CHECK(parsed("${RANK") == "error: '${RANK', character 7: '}' or ':-' is expected here");
  CHECK(parsed("${}") == "error: '${}', character 3: a variable's name is expected here");
  CHECK(parsed("${1A}") == "error: '${1A}', character 3: a variable's name is expected here");
  CHECK(parsed("${A:-}") == "error: '${A:-}', character 6: an expression is expected here");
  CHECK(parsed("${A:=x}") == "error: '${A:=x}', character 4: '}' or ':-' is expected here");
  CHECK(parsed("frist(${A})") ==
        "error: 'frist(${A})', character 1: there is no function 'frist', the nearest is first_host");
  CHECK(parsed("first_host(${A}") == "error: 'first_host(${A}', character 16: ',' or ')' is expected here");
  CHECK(
      parsed("first_host(${A}) ${B}") ==
      "error: 'first_host(${A}) ${B}', character 18: nothing may follow the function's closing parenthesis");
  CHECK(parsed("first_host()") ==
        "error: 'first_host()', character 13: 'first_host' takes 1 argument, not 0");
  CHECK(parsed("add(1)") == "error: 'add(1)', character 7: 'add' takes 2 or more arguments, not 1");
  CHECK(parsed("add(1,,2)") == "error: 'add(1,,2)', character 7: an expression is expected here");
  CHECK(parsed("add(1,") == "error: 'add(1,', character 7: an expression is expected here");
  CHECK(parsed("add(1, a b(c))") == "error: 'add(1, a b(c))', character 11: ',' or ')' is expected here");
}

TEST_CASE("nesting is bounded, so that parsing and evaluating use bounded stack") {
  std::string calls = "${A}", defaults = "x";
  for (unsigned i = 0; i < deepest_nesting - 1; ++i) calls = "host(" + calls + ")";
  CHECK(parsed(calls).starts_with("host<host<"));
  CHECK(parsed("host(" + calls + ")").find("this is nested more than 16 deep") != std::string::npos);
  for (int i = 0; i < 20'000; ++i) defaults = "${A:-" + defaults;
  CHECK(parsed(defaults).find("this is nested more than 16 deep") != std::string::npos);
}

TEST_CASE("what an expression and its [let]s take together is bounded") {
  Arena arena;
  std::string error;
  Lets lets;
  lets["a"] = *parse_expression("${A}", lets, arena, error);
  bool grew = true;
  for (int i = 0; i < 12 && grew; ++i) {
    const auto doubled = parse_expression("join($a, $a)", lets, arena, error);
    grew = doubled.has_value();
    if (grew) lets["a"] = *doubled;
  }
  CHECK_FALSE(grew);
  CHECK_THAT(error, Catch::Contains("the expression takes more than 1000 steps"));
}

TEST_CASE("a condition asks a variable or a call") {
  struct Case {
    const char* text;
    const char* expression;
  };
  for (const Case& one :
       {Case{"RANK", "$RANK"}, Case{"!LOCAL_RANK", "unless<$LOCAL_RANK 'yes'>"},
        Case{"MASTER_ADDR=*-master-0", "only_if<$MASTER_ADDR '*-master-0'>"},
        Case{"!MLP_ROLE=worker", "unless<only_if<$MLP_ROLE 'worker'> 'yes'>"},
        Case{"hostname()=*-worker-?", "only_if<hostname<> '*-worker-?'>"},
        Case{"file(/etc/a=b)", "file<'/etc/a=b'>"},
        Case{"!larger(${A}, ${B})", "unless<larger<$A $B> 'yes'>"}, Case{"A=b=c", "only_if<$A 'b=c'>"},
        Case{"!$table", "unless<$T 'yes'>"}, Case{"$table=*,*", "only_if<$T '*,*'>"}}) {
    CAPTURE(one.text);
    Arena arena;
    std::string error;
    Lets lets;
    lets["table"] = *parse_expression("${T}", lets, arena, error);
    const auto condition = parse_condition(one.text, lets, arena, error);
    REQUIRE(condition);
    CHECK(condition->is_negative() == (one.text[0] == '!'));
    CHECK(show(*condition) == one.expression);
  }
}

TEST_CASE("a condition that makes no sense is refused") {
  for (const char* text : {"", "!", "1A", "A B", "${A}", "A=", "=x", "hostname(", "nothing_like_it()", "A-B",
                           "A = b", "A= b", "A =b", "A==b", "A!=b", "A='b'", "A=\"b\"", "$table", "$A-b"}) {
    CAPTURE(text);
    Arena arena;
    std::string error;
    CHECK_FALSE(parse_condition(text, {}, arena, error));
    CHECK_FALSE(error.empty());
  }
  Arena arena;
  std::string error;
  CHECK_FALSE(parse_condition("A=" + std::string(257, '*'), {}, arena, error));
}
