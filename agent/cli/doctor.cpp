#include "agent/cli/doctor_checks.hpp"
#include "agent/cli/output.hpp"
#include "agent/cli/setup.hpp"
#include "agent/cli/verbs.hpp"
#include "policy/exit_code.hpp"

#include <boost/json.hpp>

#include <algorithm>
#include <iostream>

namespace cli {
namespace {

const char* word_of(verdict v)
{
    return v == verdict::ok ? "ok" : v == verdict::warning ? "warning" : "failed";
}

colour paint_of(verdict v)
{
    return v == verdict::ok ? colour::green : v == verdict::warning ? colour::yellow : colour::red;
}

void show_json(const std::vector<finding>& findings)
{
    boost::json::array checks;
    for (const auto& f : findings)
        checks.push_back(boost::json::object{{"name", f.name},
                                             {"verdict", word_of(f.verdict)},
                                             {"evidence", f.evidence},
                                             {"remedy", f.remedy}});
    std::cout << boost::json::serialize(boost::json::object{{"schema", "exposure-agent.doctor/v1"},
                                                            {"checks", std::move(checks)}})
              << "\n";
}

void print_text(const std::vector<finding>& findings)
{
    table shown({"CHECK", "VERDICT", "EVIDENCE"});
    for (const auto& f : findings)
        shown.add({{f.name}, {word_of(f.verdict), paint_of(f.verdict)}, {f.evidence}});
    std::cout << shown.text();
    for (const auto& f : findings)
        if (!f.remedy.empty()) std::cout << f.name << ": " << f.remedy << "\n";
}

}  // namespace

int doctor(const globals& common)
{
    const auto desired = load_configuration(common);
    if (!desired) return policy::exit_code::configuration;
    std::vector<finding> findings = check_host(*desired);
    const int looked = look(common, [&](service::application& app) -> io::awaitable<int> {
        co_await check_platform(app, findings);
        co_return policy::exit_code::done;
    });
    if (looked == policy::exit_code::busy)
        findings.push_back({"state directory", verdict::failed, "another exposure-agent uses it",
                            "wait until it has ended, or stop it"});
    else if (looked != policy::exit_code::done)
        findings.push_back({"platform", verdict::failed, "not checked: the state directory cannot be used",
                            "see the error above"});
    for (auto& f : findings)  // a sentence that begins with what it is about
        if (f.evidence.starts_with(f.name + ": ")) f.evidence.erase(0, f.name.size() + 2);
    if (common.json)
        show_json(findings);
    else
        print_text(findings);
    const bool found =
        std::ranges::any_of(findings, [](const finding& f) { return f.verdict == verdict::failed; });
    return found ? policy::exit_code::failed : policy::exit_code::done;
}

}  // namespace cli
