#include "policy/findings.hpp"

namespace policy {

finding act(const facts& f, action_kind kind, reason why, std::string sentence, const generation* g)
{
    return {.why = why,
            .sentence = sentence,
            .act = action{.kind = kind,
                          .name = name_of(f),
                          .why = why,
                          .sentence = sentence,
                          .generation = g ? g->id : "",
                          .remote_id = {},
                          .replaces = f.current != nullptr},
            .until = std::nullopt};
}

finding wait(reason why, std::string sentence, std::optional<instant> until)
{
    return {.why = why, .sentence = std::move(sentence), .act = std::nullopt, .until = until};
}

finding block(reason why, std::string sentence)
{
    auto found = wait(why, std::move(sentence), std::nullopt);
    found.blocked = true;
    return found;
}

}  // namespace policy
