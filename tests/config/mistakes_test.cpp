#include "sample.hpp"

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <ostream>
#include <string>
#include <vector>

using namespace sample;

namespace {

struct said {
    int line;
    int column;
    std::string part;  // substring of the message
};

// A file and all its mistakes, in order of position.
struct row {
    std::string name;
    std::string file;
    std::vector<said> mistakes;
};

std::ostream& operator<<(std::ostream& out, const row& r)
{
    return out << r.name;
}

const std::string long_user =
    "exposures:\n- name: e\n  variant: lifecycle\n  base_url: https://x.example.com\n  tenant: orion-123\n"
    "  users:\n  - name: abcdefghijklmnopqrstuvwxyz0123456789\n    consumer_group: g\n    contact: "
    "a@example.com\n";

std::string two_users(const std::string& first, const std::string& second)
{
    return user(
        "    output: {directory: " + first +
        "}\n  - name: v\n    consumer_group: g\n    contact: a@example.com\n    output: {directory: " +
        second + "}\n");
}

const std::vector<row> rows = {
    // YAML itself
    {"empty", "", {{1, 1, "the file is empty"}}},
    {"comment only", "# nothing\n", {{1, 1, "the file is empty"}}},
    {"a list", "- a\n", {{1, 1, "must be a mapping"}}},
    {"a word", "agent\n", {{1, 1, "must be a mapping"}}},
    {"open bracket",
     "identity: [a\nexposures: []\n",
     {{1, 11, "the bracket [ that opens here is never closed"}}},
    {"open quote",
     user("    description: \"siem\n  - name: b\n"),
     {{12, 18, "the quote \" that opens here is never closed"}}},
    {"open quote, closed by another one",
     "owner: 'a\nstate_dir: 'b'\n",
     {{1, 8, "the quote ' that opens here is never closed"}}},
    {"open quote in brackets", "owner: [\"a, b]\nstate_dir: /x\n", {{1, 9, "never closed"}}},
    {"open brace",
     "identity: {a: b\nexposures: []\n",
     {{1, 11, "the bracket { that opens here is never closed"}}},
    {"wrong bracket", "identity: {a: [b}\n", {{1, 17, "the bracket [ of line 1 is closed by }"}}},
    {"bracket too many", "owner: a]\nversion: [b]]\n", {{2, 13, "text after the closing bracket"}}},
    {"text after a quote", "owner: \"a\" b\n", {{1, 12, "text after the closing quote"}}},
    {"comment without a blank", "owner: \"a\"#b\n", {{1, 11, "text after the closing quote"}}},
    {"key in a value", "owner: a: b\n", {{1, 9, "a second `: `"}}},
    {"list in a value", "owner: - a\n", {{1, 8, "a list cannot start behind a key"}}},
    {"key below a value", "owner: a\n  b: c\n", {{2, 4, "check the indentation"}}},
    {"no level", "a:\n    b: 1\n  c: 2\n", {{3, 3, "matches no line above"}}},
    {"no key", "owner: a\nstate_dir\n", {{2, 1, "neither `KEY: VALUE` nor `- ITEM`"}}},
    {"reserved", "owner: @a\n", {{1, 8, "a value cannot start with @"}}},
    {"UTF-16", std::string("\xff\xfeo\0w\0", 6), {{1, 1, "the file is UTF-16"}}},
    {"lone carriage return", "owner: a\rversion: 1\n", {{1, 9, "carriage return without a line feed"}}},
    {"tab", "identity:\n\taccess_token: x\n", {{2, 1, "YAML allows spaces only"}}},
    {"variable in a flow mapping",
     "identity: {access_token: {file: ${env:TEAM}}}\n",
     {{1, 34, "needs quotes"}}},
    {"latin-1", "owner: caf\xe9\n", {{1, 11, "not UTF-8"}}},
    {"cut off utf-8", "owner: \xc3", {{1, 8, "not UTF-8"}}},
    {"end of transmission", "owner: a\n\x04 b", {{2, 1, "control character"}}},
    {"second document", top("---\nowner: b\n"), {{3, 1, "second document"}}},
    {"text behind the document", login + "exposures: []\n--- b\n", {{3, 1, "second"}}},
    {"key twice", top("owner: a\nowner: b\n"), {{4, 1, "key \"owner\" is given twice"}}},
    {"nested key twice", top("network: {timeout: 1s, timeout: 2s}\n"), {{3, 24, "given twice"}}},
    {"anchor and alias", top("owner: &o a\nstate_dir: *o\n"), {{3, 8, "anchors"}, {4, 12, "aliases"}}},
    {"merge key", top("reconcile:\n  <<: {prune: true}\n"), {{4, 3, "merge keys"}}},
    {"tag", top("owner: !!str a\n"), {{3, 8, "tags"}}},
    {"key that is a list", top("? [a]\n: b\n"), {{3, 1, "a key must be a word"}}},

    // Keys and types
    {"unknown key, a near one", top("recocile: {}\n"), {{3, 1, "did you mean `reconcile`?"}}},
    {"unknown key, none near", top("zzz: 1\n"), {{3, 1, "unknown key \"zzz\"; known keys: version, owner"}}},
    {"key of another level", user("    strategy: replace\n"), {{12, 5, "belongs under `rotation`"}}},
    {"name in defaults", top("defaults: {name: x}\n"), {{3, 12, "unknown key \"name\""}}},
    {"no value", top("owner:\nversion: 1\n"), {{3, 1, "`owner` has no value"}}},
    {"null", top("owner: ~\n"), {{3, 8, "`owner` has no value"}}},
    {"no identity", "exposures: []\n", {{1, 1, "needs the key `identity`"}}},
    {"list for a value", top("owner: [a]\n"), {{3, 8, "must be a single value"}}},
    {"value for a mapping",
     top("network: fast\n"),
     {{3, 10, "`network` must be a mapping with the keys ca_file"}}},
    {"value for a list", login + "exposures: none\n", {{2, 12, "`exposures` must be a list"}}},
    {"value in a list of mappings",
     login + "exposures: [a]\n",
     {{2, 13, "an item of `exposures` must be a mapping"}}},
    {"null in a list", login + "exposures: [~]\n", {{2, 13, "an item of `exposures` has no value"}}},
    {"nothing to do", login, {{1, 1, "neither `exposures` nor `credentials` nor `identity.publish`"}}},
    {"incomplete exposure",
     login + "exposures:\n- name: e\n",
     {{3, 3, "`base_url`"}, {3, 3, "`tenant`"}, {3, 3, "`users`"}, {3, 3, "`variant`"}}},
    {"incomplete user",
     exposure("") + "- {}\n",
     {{8, 3, "`base_url`"}, {8, 3, "`name`"}, {8, 3, "`tenant`"}, {8, 3, "`users`"}, {8, 3, "`variant`"}}},

    // Numbers, booleans, durations, modes
    {"version", top("version: 2\n"), {{3, 10, "write 1"}}},
    {"octal", top("network: {connections: 010}\n"), {{3, 24, "not a plain decimal number"}}},
    {"quoted number", top("network: {connections: '8'}\n"), {{3, 24, "without quotes"}}},
    {"number out of range", top("network: {connections: 0}\n"), {{3, 24, "out of range; use 1 to 256"}}},
    {"yes", top("reconcile: {prune: yes}\n"), {{3, 20, "\"yes\" is not a boolean; use true or false"}}},
    {"True", top("reconcile: {prune: True}\n"), {{3, 20, "is not a boolean"}}},
    {"quoted boolean", top("reconcile: {prune: 'true'}\n"), {{3, 20, "without quotes"}}},
    {"no unit", top("reconcile: {interval: 15}\n"), {{3, 23, "15 has no unit; use for example 15s"}}},
    {"no duration", top("reconcile: {interval: soon}\n"), {{3, 23, "\"soon\" is not a valid duration"}}},
    {"zero", top("reconcile: {interval: 0s}\n"), {{3, 23, "too short; use at least 1s"}}},
    {"eternity", top("reconcile: {interval: 9999w}\n"), {{3, 23, "too long"}}},
    {"lead without unit", user("    rotation: {renew_before: 33}\n"), {{12, 30, "33 has no unit"}}},
    {"lead of everything", user("    rotation: {renew_before: 100%}\n"), {{12, 30, "use 1% to 99%"}}},
    {"lead of nothing", user("    rotation: {renew_before: 0s}\n"), {{12, 30, "at least 1s"}}},
    {"mode of nine", user("    output: {mode: 0999}\n"), {{12, 20, "\"0999\" is not a valid mode"}}},
    {"mode for everyone", user("    output: {mode: \"0666\"}\n"), {{12, 20, "lets everyone write"}}},
    {"executable mode", user("    output: {mode: 0755}\n"), {{12, 20, "executable"}}},
    {"mode without the owner", user("    output: {mode: 0040}\n"), {{12, 20, "does not let the owner read"}}},

    // Enum words and names
    {"key type", user("    key: rsa2048\n"), {{12, 10, "did you mean rsa-2048?"}}},
    {"strategy", user("    rotation: {strategy: fast}\n"), {{12, 26, "use one of overlap, replace"}}},
    {"format", user("    output: {formats: [pem, jks]}\n"), {{12, 29, "\"jks\" is not known"}}},
    {"no format", user("    output: {formats: []}\n"), {{12, 23, "`formats` is empty"}}},
    {"csr encoding", exposure("  csr_encoding: base64\n"), {{7, 17, "use one of pem, der"}}},
    {"owner", top("owner: a b\n"), {{3, 8, "\"a b\" is not a valid owner"}}},
    {"long owner", top("owner: " + std::string(65, 'a') + "\n"), {{3, 8, "is not a valid owner"}}},
    {"name that leaves",
     exposure("") + "- {name: .., variant: log, base_url: https://x, tenant: t, users: []}\n",
     {{8, 10, "\"..\" is not a valid name"}}},
    {"name with a line break",
     exposure("") + "- {name: \"a\\nb\", variant: log, base_url: https://x, tenant: t, users: []}\n",
     {{8, 10, "\"a\\x0ab\" is not a valid name"}}},
    {"tenant",
     exposure("") + "- {name: f, variant: log, base_url: https://x, tenant: ../t, users: []}\n",
     {{8, 56, "is not a valid tenant"}}},
    {"topic", exposure("  topic: a b\n"), {{7, 10, "is not a valid topic"}}},
    {"contact",
     user("    output: {}\n  - {name: v, consumer_group: g, contact: soc}\n"),
     {{13, 43, "is not a valid e-mail"}}},
    {"line break in a text", user("    description: \"a\\nb\"\n"), {{12, 18, "line break"}}},
    {"marker in a text",
     user("    description: '[exposure-agent owner=x'\n"),
     {{12, 18, "must not contain a marker"}}},
    {"missing keys of a user",
     exposure("  defaults: {key: ed25519}\n") +
         "- {name: f, variant: log, base_url: https://x, tenant: t, users: [{name: w}]}\n",
     {{9, 67, "user f/w: `consumer_group` is missing"}, {9, 67, "user f/w: `contact` is missing"}}},
    {"long common name",
     login + long_user,
     {{8, 11, "would have 65 characters, but 64 are allowed; shorten the name by 1"}}},
    {"account", user("    output: {owner: 'a:b'}\n"), {{12, 21, "is not a valid user or group"}}},

    // Addresses
    {"http",
     exposure("") + "- {name: f, variant: log, base_url: http://les.example.com, tenant: t, users: []}\n",
     {{8, 37, "plain http is for loopback hosts only"}}},
    {"ftp", top("catalog: {base_url: ftp://x}\n"), {{3, 21, "must start with https://"}}},
    {"no scheme", top("catalog: {base_url: catalog.example.com}\n"), {{3, 21, "is not a valid address"}}},
    {"query", top("catalog: {base_url: 'https://x.example.com/?a=b'}\n"), {{3, 21, "contains ? or #"}}},
    {"api/v1",
     exposure("") + "- {name: f, variant: log, base_url: https://x/api/v1/, tenant: t, users: []}\n",
     {{8, 37, "which is appended anyway"}}},
    {"proxy over TLS",
     top("network: {proxy: https://proxy.example.com:3128}\n"),
     {{3, 18, "must start with http://"}}},
    {"broker without port", exposure("  broker: broker.example.com\n"), {{7, 11, "use HOST:PORT"}}},
    {"open metrics", top("metrics: {listen: 0.0.0.0:9464}\n"), {{3, 19, "open to the network"}}},
    {"port alone", top("metrics: {listen: 9464}\n"), {{3, 19, "use 127.0.0.1:PORT"}}},
    {"relative socket", top("metrics: {listen: unix:run/x}\n"), {{3, 19, "absolute path"}}},

    // Paths
    {"relative path", top("state_dir: var/lib\n"), {{3, 12, "is not an absolute path"}}},
    {"path that climbs", top("state_dir: /var/../etc\n"), {{3, 12, "without '..'"}}},
    {"root directory", top("state_dir: //\n"), {{3, 12, "is the root directory"}}},
    {"one directory, two users",
     two_users("/etc/a", "/etc//./a/"),
     {{16, 25, "user e/v: /etc/a is also written by user e/u (line 12)"}}},
    {"one directory in another", two_users("/etc/a/b", "/etc/a"), {{16, 25, "one inside the other"}}},
    {"neighbours by name", two_users("/etc/a", "/etc/a-b"), {}},
    {"another user's default",
     user("  - name: v\n    consumer_group: g\n    contact: a@example.com\n"
          "    output: {directory: /var/lib/exposure-agent/live/e/u}\n"),
     {{15, 25, "is also written by user e/u (line 9)"}}},
    {"directory in defaults",
     user("  - name: v\n    consumer_group: g\n    contact: a@example.com\n"
          "defaults: {output: {directory: /etc/x}}\n"),
     {{15, 32, "is also written by user"}}},
    {"the private store",
     user("    output: {directory: /var/lib/exposure-agent/private/x}\n"),
     {{12, 25, "is where the agent keeps its own state"}}},
    {"around the state", user("    output: {directory: /var/lib}\n"), {{12, 25, "keeps its own state"}}},
    {"credential inside a user's directory",
     user("    output: {directory: /etc/u}\n") +
         "catalog: {base_url: https://c.example.com}\ncredentials:\n- {name: c, resource: R, action: A, "
         "elements: {a: b}, "
         "output: {file: /etc/u/current/x}}\n",
     {{15, 70, "credential c: /etc/u/current/x and /etc/u, one inside the other"}}},
    {"two credentials, one file",
     credential("- {name: d, resource: R, action: A, elements: {a: b}, output: {file: /etc/c.env}}\n"),
     {{9, 70, "is also written by credential c"}}},

    // Duplicate names
    {"exposure twice",
     exposure("") + "- {name: e, variant: log, base_url: https://x, tenant: t, users: []}\n",
     {{8, 10, "exposure \"e\" appears twice (first on line 3)"}}},
    {"user twice",
     user("    output: {directory: /etc/a}\n  - {name: u, consumer_group: g, contact: a@example.com}\n"),
     {{13, 12, "user \"u\" appears twice (first on line 9)"}}},
    {"credential twice",
     credential("- {name: c, resource: R, action: A, elements: {a: b}, output: {file: /etc/d}}\n"),
     {{9, 10, "credential \"c\" appears twice"}}},

    // Identity and secrets
    {"neither client nor token",
     identity("  refresh_every: 1h\n"),
     {{3, 3, "`auth_url`"}, {3, 3, "`client_id`"}, {3, 3, "`client_secret`"}}},
    {"client and token",
     identity("  client_id: x\n  access_token: {env: TOKEN}\n"),
     {{3, 14, "remove one of them"}}},
    {"two sources",
     identity("  access_token: {env: TOKEN, file: /x}\n"),
     {{3, 17, "exactly one of file, env, credential, command"}}},
    {"no source", identity("  access_token: {}\n"), {{3, 17, "exactly one of"}}},
    {"command as text", identity("  access_token: {command: vault kv get}\n"), {{3, 27, "must be a list"}}},
    {"empty command", identity("  access_token: {command: []}\n"), {{3, 27, "has no program"}}},
    {"relative secret", identity("  access_token: {file: token}\n"), {{3, 24, "is not an absolute path"}}},

    {"token and publish",
     identity("  access_token: {env: TOKEN}\n  publish: {command: [x]}\n"),
     {{4, 12, "`publish` belongs to an OAuth client"}}},
    {"publish without a command",
     identity("  access_token: {env: T}\n  publish: {}\n"),
     {{4, 12, "`publish` belongs"}, {4, 12, "needs `command`"}}},
    {"scope with two spaces",
     "exposures: []\nidentity: {auth_url: https://l, client_id: c, client_secret: {env: S}, scope: a  b}\n",
     {{2, 79, "is not a valid scope"}}},
    {"scope with a quotation mark",
     "exposures: []\nidentity: {auth_url: https://l, client_id: c, client_secret: {env: S}, scope: 'a\"'}\n",
     {{2, 79, "is not a valid scope"}}},
    {"proxy_auth with a password in the file",
     top("network: {proxy_auth: {username: a, password: hunter2}}\n"),
     {{3, 47, "is a secret written into this file"}}},
    {"proxy_auth without a password",
     top("network: {proxy_auth: {username: a}}\n"),
     {{3, 23, "needs the key `password`"}}},
    {"colon in a user name of the proxy",
     top("network: {proxy_auth: {username: 'a:b', password: {env: P}}}\n"),
     {{3, 34, "contains a colon"}}},
    {"notify without anybody", top("notify: {repeat: 1h}\n"), {{3, 9, "exactly one of command, url"}}},
    {"notify twice",
     top("notify: {command: [/x], url: https://h.example.com}\n"),
     {{3, 9, "exactly one of command, url"}}},
    {"webhook in clear text", top("notify: {url: http://h.example.com/x}\n"), {{3, 15, "plain http"}}},
    {"webhook with a fragment",
     top("notify: {url: 'https://h.example.com/x?a#b'}\n"),
     {{3, 15, "is not a valid address"}}},
    {"refresh too often",
     "exposures: []\nidentity: {auth_url: https://l, client_id: c, client_secret: {env: S}, refresh_every: "
     "2s}\n",
     {{2, 87, "too short; use at least 30s"}}},
    {"one instance, two exposures",
     exposure("") +
         "- {name: f, variant: log, base_url: 'https://LES.example.com:443/', tenant: t, users: []}\n",
     {{8, 77, "exposure f: its base_url and tenant are those of exposure e (line 6)"}}},
    {"nobody's number", user("    output: {owner: \"4294967295\"}\n"), {{12, 21, "\"4294967295\" is"}}},
    {"group fields", exposure("  group_fields: spaces\n"), {{7, 17, "did you mean space?"}}},

    // Conflicting output formats
    {"pkcs12 without password",
     user("    output: {formats: [pkcs12]}\n"),
     {{12, 23, "pkcs12 needs a password"}}},
    {"java with ed25519",
     user("    key: ed25519\n    output: {formats: [java]}\n"),
     {{13, 23, "does not support ed25519"}}},
    {"java without broker",
     exposure("  defaults: {output: {formats: [java]}}\n"),
     {{7, 32, "java needs the broker"}}},
    {"verify without broker", exposure("  defaults: {verify: true}\n"), {{7, 22, "`verify` needs a broker"}}},

    // Hooks
    {"two hooks in one",
     user("    hooks: [{restart: a, reload: b}]\n"),
     {{12, 13, "exactly one of restart, reload, command"}}},
    {"hook without action", user("    hooks: [{timeout: 5s}]\n"), {{12, 13, "exactly one of restart"}}},
    {"hook for ourselves",
     user("    hooks: [{restart: exposure-agent.service}]\n"),
     {{12, 23, "is the agent itself"}}},
    {"hook for our helper",
     user("    hooks: [{restart: exposure-agent-deploy.path}]\n"),
     {{12, 23, "is the agent itself"}}},
    {"option as unit", user("    hooks: [{restart: --now}]\n"), {{12, 23, "is not a valid unit name"}}},
    {"relative program",
     user("    hooks: [{command: [after-rotate]}]\n"),
     {{12, 23, "absolute path of a program"}}},
    {"shell line", user("    hooks: [{command: /bin/x --quietly}]\n"), {{12, 23, "must be a list"}}},
    {"empty argv", user("    hooks: [{command: []}]\n"), {{12, 23, "`command` is empty"}}},

    // Environment variables
    {"unset variable", top("owner: ${env:NOWHERE}\n"), {{3, 8, "variable NOWHERE is not set"}}},
    {"empty variable",
     user("    consumer_groups: x\n    description: a${env:EMPTY}\n"),
     {{12, 5, "did you mean `consumer_group`?"}}},
    {"shell variable", user("    description: ${HOME}\n"), {{12, 18, "$${ for a literal ${"}}},
    {"open variable", user("    description: ${hostname\n"), {{12, 18, "unclosed ${"}}},
    {"expanded to nonsense",
     top("network: {connections: '${env:TEAM}'}\n"),
     {{3, 24, "not a plain decimal number"}}},

    // Credentials
    {"credentials without a catalog",
     top("credentials:\n- {name: c, resource: R, action: A, elements: {a: b}, output: {file: /etc/c}}\n"),
     {{4, 1, "`credentials` need the catalog service"}}},
    {"no elements",
     top("catalog: {base_url: https://c}\ncredentials:\n- {name: c, resource: R, action: A, elements: {}, "
         "output: {file: /c}}\n"),
     {{5, 47, "`elements` is empty"}}},
    {"element no variable",
     credential("- {name: d, resource: R, action: A, elements: {a-b: c}, output: {file: /etc/d}}\n"),
     {{9, 48, "\"a-b\" is not a valid name"}}},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(mistakes)

BOOST_DATA_TEST_CASE(every_mistake_is_told_with_its_place, boost::unit_test::data::make(rows), r)
{
    const auto result = parsed(r.file);
    std::string all;
    for (const auto& m : result.errors)
        all += to_string(m) + "\n";
    BOOST_TEST_INFO(all);
    BOOST_REQUIRE(result.errors.size() == r.mistakes.size());
    BOOST_TEST(result.state.has_value() == r.mistakes.empty());
    for (std::size_t i = 0; i < r.mistakes.size(); ++i) {
        BOOST_TEST_INFO(all);
        BOOST_TEST(result.errors[i].line == r.mistakes[i].line);
        BOOST_TEST_INFO(all);
        BOOST_TEST(result.errors[i].column == r.mistakes[i].column);
        BOOST_TEST_INFO(all);
        BOOST_TEST((result.errors[i].text.find(r.mistakes[i].part) != std::string::npos));
    }
}

BOOST_AUTO_TEST_CASE(a_mistake_prints_as_compilers_print_it)
{
    BOOST_TEST(config::to_string({.file = "/etc/a.yaml", .line = 3, .column = 7, .text = "x"}) ==
               "/etc/a.yaml:3:7: x");
}

// A misplaced secret never appears in a message, whatever its shape.
BOOST_AUTO_TEST_CASE(a_secret_in_the_file_is_not_repeated)
{
    const std::vector<std::string> files = {
        identity("  client_secret: hunter2\n"),
        identity("  client_secret: {hunter2}\n"),
        identity("  client_secret: {hunter2: x}\n"),
        identity("  client_secret: [hunter2]\n"),
        identity("  client_secret: {env: hunter2-}\n"),
        identity("  client_secret: {file: hunter2}\n"),
        identity("  client_secret: {credential: hunter2/}\n"),
        identity("  access_token: hunter2\n"),
        identity("  access_token: {command: hunter2}\n"),
        identity("  auth_url: https://user:hunter2@login.example.com\n"),
        top("network: {proxy: 'http://user:hunter2@proxy.example.com'}\n"),
        user("    output: {password: hunter2}\n"),
        user("    output: {password: {env: hunter2}}\n"),
        user("    password: hunter2\n"),
    };
    for (const auto& file : files) {
        const auto result = parsed(file);
        BOOST_TEST(!result.state, file);
        BOOST_TEST(!result.errors.empty(), file);
        for (const auto& m : result.errors)
            BOOST_TEST((to_string(m).find("hunter2") == std::string::npos), file);
    }
    const auto told = parsed(identity("  client_secret: hunter2\n")).errors;
    BOOST_TEST((told.back().text.find("is a secret written into this file") != std::string::npos));
}

BOOST_AUTO_TEST_CASE(diagnostics_are_sorted_and_limited)
{
    std::string many = top("");
    for (int i = 0; i < 1500; ++i)
        many += "k" + std::to_string(i) + ": 1\n";
    const auto result = parsed(many);
    BOOST_REQUIRE(result.errors.size() == config::diagnostics::limit + 1);
    BOOST_TEST((result.errors.back().text == "and 500 more after this"));
    BOOST_TEST(result.errors.front().line == 3);
}

BOOST_AUTO_TEST_SUITE_END()
