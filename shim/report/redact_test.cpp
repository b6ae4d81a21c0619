#include "report/redact.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <initializer_list>

namespace rankshim::report {
namespace {

using node::Environment;

std::string redacted(const std::vector<std::string>& environment, std::string_view text) {
  return Redactor(Environment(environment)).message(text);
}

TEST_CASE("a name that speaks of a secret is one", "[redact][attack]") {
  for (const char* name : {"HF_TOKEN",
                           "AWS_SECRET_ACCESS_KEY",
                           "AWS_ACCESS_KEY_ID_SECRET",
                           "DB_PASS",
                           "MYSQL_PWD",
                           "OPENAI_APIKEY",
                           "WANDB_API_KEY",
                           "SIGNING_KEY",
                           "PASSPHRASE",
                           "REGISTRY_AUTH",
                           "MY_JWT",
                           "SESSION_COOKIE",
                           "SENTRY_DSN",
                           "AZURE_STORAGE_CONNECTION_STRING",
                           "db_password",
                           "GIT_PASSWD",
                           "DBPASS",
                           "ACCESSKEY",
                           "GCP_CREDS",
                           "SLACK_WEBHOOK_URL",
                           "PRIVATE_KEY_PEM",
                           "BLOB_SAS_URL"}) {
    INFO(name);
    CHECK(is_secret_name(name));
  }
  for (const char* name : {"PWD", "OLDPWD", "SSH_AUTH_SOCK", "KEYBOARD", "PATH", "AUTHOR", "MONKEY"}) {
    INFO(name);
    CHECK_FALSE(is_secret_name(name));
  }
}

TEST_CASE("values of secret variables are taken out, the longer first", "[redact]") {
  CHECK(redacted({"A_TOKEN=hunter22", "B_TOKEN=hunter22-more"}, "hunter22-more, hunter22") ==
        "[redacted], [redacted]");
  CHECK(redacted({"A_TOKEN=true"}, "true") == "true");
  CHECK(redacted({"A_KEY=line one is long enough\nline two is long enough\n"},
                 "'line one is long enough\\nline two is long enough' and line two is long enough") ==
        "'[redacted]' and [redacted]");
}

TEST_CASE("a secret of several lines is one as repr() and JSON show it, too", "[redact][attack]") {
  const std::vector<std::string> environment = {
      "A_KEY={\"user\": 'me',\r\n\t\"pin\": \"0000-1111-2222\"}\x1b\n"};
  for (const char* shown : {R"({"user": \'me\',\r\n\t"pin": "0000-1111-2222"}\x1b)",
                            R"({\"user\": 'me',\r\n\t\"pin\": \"0000-1111-2222\"}\x1b)",
                            R"({"user": 'me',\r\n\t"pin": "0000-1111-2222"}\x1b)",
                            "{\"user\": 'me',\r\n\t\"pin\": \"0000-1111-2222\"}\x1b"})
    CHECK(redacted(environment, "<" + std::string(shown) + ">") == "<[redacted]>");
  CHECK(redacted({"A_KEY=-----BEGIN KEY-----\r\nMIIEvQIBADANBgkqhkiG\r\n"}, "at MIIEvQIBADANBgkqhkiG.") ==
        "at [redacted].");
}

TEST_CASE("what an option or a key calls a secret is one in a command", "[redact][attack]") {
  Redactor redactor(Environment({"A_TOKEN=hunter22"}));
  const std::vector<std::string> command = redactor.words(
      {"train.py", "--tokenizer=gpt2-large", "--max-tokens", "100000", "--hf-token", "hf_1234567",
       "--api_key=abcdefgh ijk", "--password", "$PASSWORD_OF_DB", "--token", "-v", "x-hunter22",
       "--rdzv_conf=timeout=900,password=swordfish,is_host=1", "--key=layer_0", "--auth=no",
       "TOKEN=abcdefg TOKEN=$HF_TOKEN exec curl 'https://h/?access_token=abcdefg&x=1'"});
  CHECK(command ==
        std::vector<std::string>{
            "train.py", "--tokenizer=gpt2-large", "--max-tokens", "100000", "--hf-token", "[redacted]",
            "--api_key=[redacted]", "--password", "[redacted]", "--token", "-v", "x-[redacted]",
            "--rdzv_conf=timeout=900,password=[redacted],is_host=1", "--key=layer_0", "--auth=no",
            "TOKEN=[redacted] TOKEN=$HF_TOKEN exec curl 'https://h/?access_token=[redacted]&x=1'"});
}

TEST_CASE("what a key of JSON or a dictionary calls a secret is one in a command", "[redact][attack]") {
  struct Case {
    const char *word, *shown;
  };
  for (const Case& one : std::initializer_list<Case>{
           {R"(--cfg={"api_key": "abcdefgh", "lr": 0.0001})",
            R"(--cfg={"api_key": "[redacted]", "lr": 0.0001})"},
           {R"({"db":{"password":"sword fish"}})", R"({"db":{"password":"[redacted]"}})"},
           {R"({'hf_token' : 'hf_1234567'})", R"({'hf_token' : '[redacted]'})"},
           {R"({\"hf_token\":\"hf_1234567\",\"x\":1})", R"({\"hf_token\":\"[redacted]\",\"x\":1})"},
           {R"({"db_pass": "sword\"fish", "x": 1})", R"({"db_pass": "[redacted]", "x": 1})"},
           {R"({"pass": 12345678})", R"({"pass": [redacted]})"},
           {R"({"password": "swordfish)", R"({"password": "[redacted])"},
           // No secrets:
           {R"({"max_tokens": "100000", "key": "layer_0", "auth": true})",
            R"({"max_tokens": "100000", "key": "layer_0", "auth": true})"},
           {R"({"password":)", R"({"password":)"},
           {"password: swordfish", "password: swordfish"},
       }) {
    const std::vector<std::string> words =
        Redactor(Environment(std::vector<std::string>{})).words({one.word});
    CHECK(words.front() == one.shown);
  }
}

TEST_CASE("the password of a URL is taken out", "[redact][attack]") {
  CHECK(redacted({}, "postgres://me:se@cret@db:5432/x, http://host:80/a@b, s3://bucket/key") ==
        "postgres://me:[redacted]@db:5432/x, http://host:80/a@b, s3://bucket/key");
  CHECK(redacted({}, "cannot reach 'amqp://u:p@h'") == "cannot reach 'amqp://u:[redacted]@h'");
  CHECK(redacted({}, "https://ghp_0123456789abcdef@github.com/x, ssh://git@h") ==
        "https://[redacted]@github.com/x, ssh://git@h");
  CHECK(redacted({}, "{'Authorization': 'Bearer eyJhbGciOiJIUzI1NiJ9.e30'}, Bearer of news") ==
        "{'Authorization': 'Bearer [redacted]'}, Bearer of news");
}

TEST_CASE("the credentials of HTTP are taken out, whatever their scheme and case", "[redact][attack]") {
  struct Case {
    const char *text, *redacted;
  };
  for (const Case& one : std::initializer_list<Case>{
           {"authorization: bearer eyJhbGciOiJIUzI1NiJ9.e30", "authorization: bearer [redacted]"},
           {"BEARER eyJhbGciOiJIUzI1NiJ9.e30", "BEARER [redacted]"},
           {"Bearer  eyJhbGciOiJIUzI1NiJ9.e30", "Bearer  [redacted]"},
           {"BEARER\teyJhbGciOiJIUzI1NiJ9.e30", "BEARER\t[redacted]"},
           {"Authorization:\ttoken \tghp_0123456", "Authorization:\ttoken \t[redacted]"},
           {"Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"},
           {"sent Basic dXNlcjpwYXNzd29yZA== to h", "sent Basic [redacted] to h"},
           {"{'authorization': b'basic dXNlcjpwYXNz'}", "{'authorization': b'basic [redacted]'}"},
           {"{\"Authorization\": \"token ghp_0123456\"}", "{\"Authorization\": \"token [redacted]\"}"},
           {"curl -H 'Proxy-Authorization: Negotiate YIIJvwYGKwYBBQUC' h",
            "curl -H 'Proxy-Authorization: Negotiate [redacted]' h"},
           {"Authorization: Digest username=\"me\", response=\"6629fa\"\nHost: h",
            "Authorization: Digest [redacted]\nHost: h"},
           {"Authorization: AWS4-HMAC-SHA256 Credential=AKIA/x, Signature=fe5f80",
            "Authorization: AWS4-HMAC-SHA256 [redacted]"},
           {"Authorization: 0123456789abcdef was refused", "Authorization: [redacted] was refused"},
           {"('X-Api-Key', 'sk-0123456')", "('X-Api-Key', '[redacted]')"},
           {"PRIVATE-TOKEN: glpat-0123456", "PRIVATE-TOKEN: [redacted]"},
           {"Set-Cookie: session=0123456; path=/", "Set-Cookie: [redacted]"},
           // No secrets:
           {"Authorization: the header is missing", "Authorization: the header is missing"},
           {"authorization failed because of Basic Settings",
            "authorization failed because of Basic Settings"},
           {"basic responsibilities, bearer of news", "basic responsibilities, bearer of news"},
           {"Bearer", "Bearer"},
           {"cookie:", "cookie:"},
           {"Authorization='", "Authorization='"},
       })
    CHECK(redacted({}, one.text) == one.redacted);
}

TEST_CASE("a long word takes time in the order of its length", "[redact][attack]") {
  Redactor redactor(Environment(std::vector<std::string>{}), std::chrono::hours(1));
  for (const std::string_view part :
       {"=", "a=", "token=", "://", "://a:b@", "bearer ", "basic a",
        "cookie=", "authorization: ", "Authorization=a ", "authorization", ":",
        "\":", "\"token\":", "'token':\"", "\"token\":a", "bearer", "bearer\t"}) {
    std::string word;
    while (word.size() < 200'000) word += part;
    INFO(part);
    const std::clock_t begin = std::clock();
    (void)redactor.words({word});
    CHECK(std::clock() - begin < 5 * CLOCKS_PER_SEC);  // the square of it: minutes
  }
}

TEST_CASE("a long text is cut where no half of a secret is left", "[redact][attack]") {
  const std::string line = std::string(4000, 'a') + " sk-" + std::string(400, 'b');
  CHECK(redacted({}, line + "\nnext") == std::string(4000, 'a') + " [cut]\nnext");
  CHECK(redacted({"A_TOKEN=" + std::string(400, 'b')}, line) == std::string(4000, 'a') + " sk-[redacted]");
  CHECK(redacted({}, std::string(5000, 'a')) == " [cut]");
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "line " + std::to_string(i) + "\n";
  const std::string cut = redacted({}, many);
  CHECK(many.starts_with(cut));
  CHECK(cut.size() <= Redactor::longest_message);
  CHECK(cut.size() > Redactor::longest_message - 100);
}

TEST_CASE("of a traceback the last lines are kept", "[redact]") {
  std::string text;
  for (int i = 0; i < 310; ++i) text += "line " + std::to_string(i) + "\n";
  const std::string kept = Redactor(Environment(std::vector<std::string>{})).traceback(text);
  CHECK(kept.starts_with("line 10\n"));
  CHECK(kept.ends_with("line 309"));
  CHECK(Redactor(Environment(std::vector<std::string>{})).traceback("one\ntwo\n") == "one\ntwo");
  CHECK(Redactor(Environment(std::vector<std::string>{})).traceback("").empty());
}

TEST_CASE("a redaction that takes too long is given up, with everything", "[redact][attack]") {
  Redactor redactor(Environment({"A_TOKEN=hunter22"}), std::chrono::milliseconds(0));
  CHECK(redactor.message("a hunter22") == "[redacted: too long]");
  CHECK(redactor.traceback("a") == "[redacted: too long]");
}

TEST_CASE("secrets of the environment are taken out", "[redact]") {
  const std::vector<std::string> environment = {"HF_TOKEN=hf_12345", "db_password=swordfish", "MY_TOKEN=true",
                                                "HOME=/root/x"};
  CHECK(redacted(environment, "hf_12345 swordfish true /root/x\nuser=me\n") ==
        "[redacted] [redacted] true /root/x\nuser=me\n");
  CHECK(redacted(environment, "user=me") == "user=me");
}

}  // namespace
}  // namespace rankshim::report
