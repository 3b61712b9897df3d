#include "agent/cli/options.hpp"
#include "agent/cli/verbs.hpp"
#include "agent/service/configuration.hpp"
#include "config/parse.hpp"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <optional>

namespace cli {
namespace {

const char* bash_script = R"shell(# bash completion for exposure-agent
_exposure_agent() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            compopt -o filenames 2>/dev/null
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
        else
            COMPREPLY+=("${line%%$'\t'*}")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _exposure_agent exposure-agent
)shell";

// clang-format off: it mistakes zsh for C++
const char* zsh_script = R"shell(#compdef exposure-agent
_exposure_agent() {
    local line
    local -a found
    for line in ${(f)"$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
        if [[ $line == :files ]]; then
            _files
        else
            found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
    done
    (( ${#found} )) && _describe 'exposure-agent' found
}
if [[ "$funcstack[1]" == "_exposure-agent" ]]; then
    _exposure_agent "$@"
else
    compdef _exposure_agent exposure-agent
fi
)shell";
// clang-format on

const char* fish_script = R"shell(# fish completion for exposure-agent
function __exposure_agent_complete
    set -l typed (commandline -opc)
    set -l current (commandline -ct)
    for line in ($typed[1] __complete $typed[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path "$current"
        else
            echo $line
        end
    end
end
complete -c exposure-agent -f -a '(__exposure_agent_complete)'
)shell";

struct candidate {
    std::string text;
    std::string what;
};

std::vector<const CLI::App*> verbs_of(const CLI::App& app)
{
    return app.get_subcommands([](const CLI::App*) { return true; });
}

const CLI::Option* find_option(const CLI::App& verb, const CLI::App& root, const std::string& word)
{
    for (const auto* app : {&verb, &root})
        for (const auto* option : app->get_options())
            if (option->nonpositional() && option->check_name(word)) return option;
    return nullptr;
}

bool takes_value(const CLI::Option& option)
{
    return option.get_items_expected_max() > 0;
}

// What was typed before the word at the cursor.
struct position {
    const CLI::App* verb;
    const CLI::Option* open = nullptr;  // expects its value next
    std::size_t positionals = 0;
    std::string config = globals{}.config;
};

void take_option(position& at, const CLI::App& root, const std::string& word)
{
    const auto equals = word.find('=');
    const auto* option = find_option(*at.verb, root, word.substr(0, equals));
    if (!option || !takes_value(*option)) return;
    if (equals == std::string::npos)
        at.open = option;
    else if (option->check_name("--config"))
        at.config = word.substr(equals + 1);
}

position read(const CLI::App& root, const std::vector<std::string>& words)
{
    position at{.verb = &root};
    for (std::size_t i = 0; i + 1 < words.size(); ++i) {
        const auto& word = words[i];
        if (at.open && word == "=") continue;  // bash splits words at "="
        if (at.open) {
            if (at.open->check_name("--config")) at.config = word;
            at.open = nullptr;
            continue;
        }
        if (word.starts_with("-")) {
            take_option(at, root, word);
            continue;
        }
        const auto verbs = verbs_of(*at.verb);
        const auto found =
            std::ranges::find_if(verbs, [&](const CLI::App* v) { return v->get_name() == word; });
        if (at.positionals == 0 && found != verbs.end())
            at.verb = *found;
        else
            ++at.positionals;
    }
    return at;
}

void add_names(std::vector<candidate>& into, const std::string& file, bool users)
{
    const auto loaded = service::read_configuration(file, service::this_host());
    if (!loaded.state) return;
    for (const auto& exposure : loaded.state->exposures) {
        if (!users) into.push_back({exposure.name, exposure.tenant});
        for (const auto& user : exposure.users)
            if (users) into.push_back({exposure.name + "/" + user.name, user.consumer_group});
    }
}

// Candidates by the type shown in the help: TEXT:text|json, FILE, EXPOSURE/USER ...
void add_values(std::vector<candidate>& into, const CLI::Option& option, const position& at)
{
    const auto type = option.get_type_name();
    if (type.find("EXPOSURE/USER") != std::string::npos) return add_names(into, at.config, true);
    if (type.find("EXPOSURE") != std::string::npos) return add_names(into, at.config, false);
    if (type.find("FILE") != std::string::npos || type.find("DIR") != std::string::npos)
        return into.push_back({":files", ""});
    if (type.find('|') == std::string::npos) return;
    std::string words = type.substr(type.find(':') + 1) + "|";
    for (std::size_t bar = 0; (bar = words.find('|')) != std::string::npos; words = words.substr(bar + 1))
        into.push_back({words.substr(0, bar), ""});
}

void add_options(std::vector<candidate>& into, const CLI::App& verb, const CLI::App& root)
{
    for (const auto* app : {&verb, &root}) {
        for (const auto* option : app->get_options())
            for (const auto& name : option->get_lnames())
                into.push_back({"--" + name, option->get_description()});
        if (&verb == &root) return;
    }
}

void add_positional(std::vector<candidate>& into, const position& at)
{
    const CLI::Option* last = nullptr;
    std::size_t number = 0;
    for (const auto* option : at.verb->get_options()) {
        if (!option->get_positional()) continue;
        last = option;
        if (number++ == at.positionals) return add_values(into, *option, at);
    }
    if (last && last->get_items_expected_max() > 1) add_values(into, *last, at);
}

}  // namespace

std::string completion_script(const std::string& shell)
{
    if (shell == "zsh") return zsh_script;
    return shell == "fish" ? fish_script : bash_script;
}

void print_candidates(const CLI::App& root, const std::vector<std::string>& words)
{
    const auto at = read(root, words);
    std::string current = words.empty() ? "" : words.back();
    std::string lead;
    std::vector<candidate> found;
    const auto equals = current.find('=');
    if (at.open) {
        if (current == "=") current.clear();
        add_values(found, *at.open, at);
    } else if (current.starts_with("-") && equals != std::string::npos) {
        lead = current.substr(0, equals + 1);
        if (const auto* option = find_option(*at.verb, root, current.substr(0, equals)))
            add_values(found, *option, at);
    } else if (current.starts_with("-")) {
        add_options(found, *at.verb, root);
    } else {
        if (at.positionals == 0)
            for (const auto* verb : verbs_of(*at.verb))
                found.push_back({verb->get_name(), verb->get_description()});
        add_positional(found, at);
    }
    for (const auto& [text, what] : found)
        if (text == ":files")
            std::cout << text << "\n";
        else if ((lead + text).starts_with(current))
            std::cout << lead << text << "\t" << what << "\n";
}

}  // namespace cli
