#pragma once

#include "config/parse.hpp"

#include <boost/test/unit_test.hpp>

#include <map>
#include <string>

// Valid files to which a test adds the part it is about, and a fake machine.

namespace sample {

inline config::environment machine(std::map<std::string, std::string> variables = {})
{
    return {.hostname = "web-01",
            .variable = [variables](const std::string& name) -> std::optional<std::string> {
                const auto found = variables.find(name);
                return found == variables.end() ? std::nullopt : std::optional(found->second);
            }};
}

inline const std::string login = "identity: {access_token: {file: /run/token}}\n";

// Two lines; `more` starts on line 3, at the top level.
inline std::string top(const std::string& more)
{
    return login +
           "exposures: [{name: e, variant: log, base_url: 'https://les.example.com', tenant: t, users: "
           "[]}]\n" +
           more;
}

// `more` starts on line 3, inside identity.
inline std::string identity(const std::string& more)
{
    return "exposures: []\nidentity:\n" + more;
}

// `more` starts on line 7, inside the exposure, indented by two.
inline std::string exposure(const std::string& more)
{
    return login +
           "exposures:\n"
           "- name: e\n"
           "  variant: log\n"
           "  base_url: https://les.example.com\n"
           "  tenant: t\n" +
           more + "  users: [{name: u, consumer_group: g, contact: a@example.com}]\n";
}

// `more` starts on line 12, inside the user, indented by four.
inline std::string user(const std::string& more)
{
    return login +
           "exposures:\n"
           "- name: e\n"
           "  variant: log\n"
           "  base_url: https://les.example.com\n"
           "  tenant: t\n"
           "  broker: broker.example.com:9093\n"
           "  users:\n"
           "  - name: u\n"
           "    consumer_group: g\n"
           "    contact: a@example.com\n" +
           more;
}

// `more` starts on line 9, inside the credential, indented by two.
inline std::string credential(const std::string& more)
{
    return login +
           "catalog: {base_url: https://catalog.example.com}\n"
           "credentials:\n"
           "- name: c\n"
           "  resource: R\n"
           "  action: A\n"
           "  elements: {key: provider-key}\n"
           "  output: {file: /etc/c.env}\n" +
           more;
}

inline config::outcome parsed(const std::string& text)
{
    return config::parse(text, "agent.yaml", machine({{"TEAM", "blue"}, {"NUMBER", "5"}, {"EMPTY", ""}}));
}

// The desired state of a file that must be valid.
inline policy::desired_state state_of(const std::string& text, const config::environment& from = machine())
{
    const auto result = config::parse(text, "agent.yaml", from);
    for (const auto& m : result.errors)
        BOOST_TEST_MESSAGE(to_string(m));
    BOOST_REQUIRE(result.state);
    return *result.state;
}

}  // namespace sample
