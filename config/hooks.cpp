#include "config/names.hpp"
#include "config/sections.hpp"

#include <utility>

namespace config {
namespace {

constexpr std::size_t most_hooks = 32;

policy::hook read_hook(const layers& given, findings& found)
{
    policy::hook hook;
    hook.timeout = given.duration("timeout", hook.timeout);
    for (const auto& [key, kind] : {std::pair{"restart", policy::hook::kind::restart},
                                    std::pair{"reload", policy::hook::kind::reload}}) {
        if (const auto unit = given.text(key)) {
            hook.what = kind;
            hook.unit = unit_name(*unit).value_or("");
        }
    }
    if (!given.find("command")) return hook;

    for (const auto* argument : given.list("command"))
        hook.argv.push_back(argument->text);
    if (hook.argv.empty())
        found.wrong(given.where("command"), "`command` is empty; write [/PATH/PROGRAM, ARGUMENT, …]");
    else if (!is_path(hook.argv[0]) || normalised(hook.argv[0]) == "/")
        found.wrong(given.where("command"),
                    "`command` must begin with the absolute path of a program; write "
                    "[/PATH/PROGRAM, ARGUMENT, …]");
    return hook;
}

}  // namespace

std::vector<policy::hook> read_hooks(const layers& of, findings& found)
{
    std::vector<policy::hook> hooks;
    for (const auto* item : of.list("hooks"))
        hooks.push_back(read_hook(layers(item), found));
    if (hooks.size() > most_hooks)
        found.wrong(of.where("hooks"), "`hooks` has more than " + std::to_string(most_hooks) +
                                           " entries; put them into one command");
    return hooks;
}

}  // namespace config
