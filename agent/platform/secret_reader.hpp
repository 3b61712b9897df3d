#pragma once

#include "agent/io/process.hpp"
#include "crypto/secret.hpp"
#include "policy/desired.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

// Reads secrets from the sources named in the configuration.

namespace platform {

// Changes when the file behind a source does: inode, size and modification time.
struct file_mark {
    std::uint64_t inode = 0;
    std::int64_t size = 0;
    std::int64_t mtime_ns = 0;

    bool operator==(const file_mark&) const = default;
};

class secret_reader {
public:
    using variables = std::map<std::string, std::string>;

    // `environment` has the variables that sources name and commands run with; the pool reads files.
    secret_reader(io::process& process, boost::asio::any_io_executor pool, variables environment);

    // The secret without surrounding whitespace. `what` is its configuration key, for messages;
    // `before`, the previous secret, never appears in them. errc::token_source if there is no
    // secret: missing, empty, too large, a file that belongs to somebody else, or a failed command.
    io::task<crypto::secret> read(policy::secret_source, std::string what, crypto::secret before = {});

    // For a file or a credential; none for other sources, and while there is no file.
    io::awaitable<std::optional<file_mark>> mark_of(policy::secret_source);

private:
    std::string path_of(const policy::secret_source&) const;
    io::task<crypto::secret> run(policy::secret_source, std::string what, crypto::secret before);

    io::process& process_;
    boost::asio::any_io_executor pool_;
    variables environment_;
};

// This process's environment, without what a service manager sets for this process alone.
secret_reader::variables own_environment();

}  // namespace platform
