#include "config/sections.hpp"

namespace config {

policy::desired_credential read_credential(const layers& credential, findings& found)
{
    const auto output = credential.in("output");

    policy::desired_credential read;
    read.name = credential.text("name", {});
    read.resource = credential.text("resource", {});
    read.action = credential.text("action", {});
    read.interval = credential.duration("interval", read.interval);
    read.file = output.path("file").value_or("");
    read.format = output.word("format", policy::from_word<policy::values_format>, read.format);
    read.access = read_access(output, found);
    read.hooks = read_hooks(credential, found);
    if (const auto* elements = credential.find("elements"))
        for (std::size_t i = 0; i < elements->keys.size(); ++i)
            read.elements.emplace(elements->keys[i].text, elements->items[i].text);
    return read;
}

}  // namespace config
