#include "agent/io/libsystemd.hpp"

#include <dlfcn.h>
#include <optional>

namespace io {

namespace {

template <class Function>
bool find(void* library, const char* name, Function& function)
{
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

std::optional<libsystemd> load()
{
    void* library = ::dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    libsystemd functions{};
    if (!library || !find(library, "sd_notify", functions.notify) ||
        !find(library, "sd_watchdog_enabled", functions.watchdog_enabled) ||
        !find(library, "sd_journal_sendv", functions.journal_sendv))
        return std::nullopt;
    return functions;
}

}  // namespace

const libsystemd* load_libsystemd()
{
    static const auto functions = load();
    return functions ? &*functions : nullptr;
}

}  // namespace io
