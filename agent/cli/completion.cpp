#include "agent/cli/completion.hpp"

#include <CLI/CLI.hpp>

#include <vector>

namespace cli {
namespace {

struct word {
    std::string text;
    std::string what;
};

struct verb {
    std::string path;  // "catalog request"; empty: the program itself
    std::vector<word> verbs;
    std::vector<word> flags;
};

std::string without_quotes(std::string text)
{
    std::erase_if(
        text, [](char c) { return c == '\'' || c == '"' || c == '[' || c == ']' || c == ':' || c == '`'; });
    return text;
}

void collect(const CLI::App& app, const std::string& path, const std::vector<word>& inherited,
             std::vector<verb>& into)
{
    verb v{.path = path, .flags = inherited};
    for (const auto* option : app.get_options())
        for (const auto& name : option->get_lnames())
            v.flags.push_back({"--" + name, without_quotes(option->get_description())});
    const auto subcommands = app.get_subcommands([](const CLI::App*) { return true; });
    for (const auto* sub : subcommands)
        v.verbs.push_back({sub->get_name(), without_quotes(sub->get_description())});
    into.push_back(v);
    for (const auto* sub : subcommands)
        collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(),
                path.empty() ? v.flags : inherited, into);
}

std::string joined(const verb& v)
{
    std::string text;
    for (const auto* list : {&v.verbs, &v.flags})
        for (const auto& w : *list)
            text += (text.empty() ? "" : " ") + w.text;
    return text;
}

// The path is what was typed so far, without flags.
std::string bash(const std::vector<verb>& verbs)
{
    std::string cases;
    for (const auto& v : verbs)
        cases += "        \"" + v.path + "\") words=\"" + joined(v) + "\" ;;\n";
    return "# bash completion for exposure-agent\n"
           "_exposure_agent() {\n"
           "    local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\" "
           "path=\"\" words=\"\" word\n"
           "    case \"$previous\" in\n"
           "        -c|--config|--data|--refresh-token-file) COMPREPLY=($(compgen -f -- \"$current\")); "
           "return ;;\n"
           "        -o|--output) COMPREPLY=($(compgen -W \"text json\" -- \"$current\")); return ;;\n"
           "        --log-level) COMPREPLY=($(compgen -W \"error warn info debug\" -- \"$current\")); return "
           ";;\n"
           "        --log-format) COMPREPLY=($(compgen -W \"auto text json journal\" -- \"$current\")); "
           "return ;;\n"
           "        --deploy) COMPREPLY=($(compgen -W \"direct unit\" -- \"$current\")); return ;;\n"
           "        completion) COMPREPLY=($(compgen -W \"bash zsh fish\" -- \"$current\")); return ;;\n"
           "    esac\n"
           "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n"
           "        case \"$word\" in [a-z]*) path=\"${path:+$path }$word\" ;; esac\n"
           "    done\n"
           "    case \"$path\" in\n" +
           cases +
           "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
           "}\n"
           "complete -F _exposure_agent exposure-agent\n";
}

std::string zsh(const std::vector<verb>& verbs)
{
    std::string cases;
    for (const auto& v : verbs) {
        cases += "        '" + v.path + "') words=(";
        for (const auto* list : {&v.verbs, &v.flags})
            for (const auto& w : *list)
                cases += " '" + w.text + ":" + w.what + "'";
        cases += " ) ;;\n";
    }
    return "#compdef exposure-agent\n"
           "_exposure_agent() {\n"
           "    local -a words_typed words\n"
           "    words_typed=(${(M)${words[2,CURRENT-1]}:#[a-z]*})\n"
           "    local typed=\"${(j: :)words_typed}\"\n"
           "    words=()\n"
           "    case \"$typed\" in\n" +
           cases +
           "    esac\n"
           "    _describe 'exposure-agent' words\n"
           "}\n"
           "compdef _exposure_agent exposure-agent\n";
}

std::string fish(const std::vector<verb>& verbs)
{
    std::string text = "# fish completion for exposure-agent\ncomplete -c exposure-agent -f\n";
    for (const auto& v : verbs) {
        std::string condition = "__fish_use_subcommand";
        if (!v.path.empty()) {
            condition.clear();
            std::string rest = v.path;
            for (std::size_t blank = 0; blank != std::string::npos;) {
                blank = rest.find(' ');
                condition += (condition.empty() ? "" : "; and ") +
                             ("__fish_seen_subcommand_from " + rest.substr(0, blank));
                if (blank != std::string::npos) rest = rest.substr(blank + 1);
            }
        }
        for (const auto& w : v.verbs)
            text +=
                "complete -c exposure-agent -n '" + condition + "' -a " + w.text + " -d '" + w.what + "'\n";
        for (const auto& w : v.flags)
            text += "complete -c exposure-agent -n '" + condition + "' -l " + w.text.substr(2) + " -d '" +
                    w.what + "'\n";
    }
    return text;
}

}  // namespace

std::string completion_script(const CLI::App& app, const std::string& shell)
{
    std::vector<verb> verbs;
    collect(app, "", {}, verbs);
    if (shell == "zsh") return zsh(verbs);
    return shell == "fish" ? fish(verbs) : bash(verbs);
}

}  // namespace cli
