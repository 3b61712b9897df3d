#pragma once

#include "crypto/secret.hpp"

#include <csignal>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace cli {

// Before anything else in main: no memory of this process, which holds keys and tokens, goes into a core dump
// or to a debugger of the same user; a closed pipe or a full quota is an error value, not the end.
inline void harden_process() noexcept
{
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_CORE, &none);
    crypto::wipe_memory_freed_by_openssl();
#ifndef __SANITIZE_ADDRESS__  // whose leak check traces the process itself
    ::prctl(PR_SET_DUMPABLE, 0);
#endif
}

}  // namespace cli
