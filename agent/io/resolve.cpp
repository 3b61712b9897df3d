#include "agent/io/resolve.hpp"

#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>

#include <cstring>
#include <memory>
#include <mutex>
#include <netdb.h>
#include <system_error>
#include <thread>
#include <utility>

namespace io {

namespace asio = boost::asio;
using endpoints = std::vector<asio::ip::tcp::endpoint>;

namespace {

// What the thread and the one who waits share. Whoever comes last frees it.
struct lookup {
    std::mutex mutex;
    async_event* done = nullptr;  // none: abandoned, the executor may be gone
    asio::any_io_executor executor;
    int error = 0;  // EAI_*
    int error_number = 0;
    endpoints found;
};

void look_up(const std::shared_ptr<lookup>& shared, const std::string& host, std::uint16_t port)
{
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
    const int error_number = errno;

    endpoints found;
    for (const auto* entry = list; entry; entry = entry->ai_next) {
        asio::ip::tcp::endpoint endpoint;
        if (entry->ai_addrlen > endpoint.capacity()) continue;
        std::memcpy(endpoint.data(), entry->ai_addr, entry->ai_addrlen);
        endpoint.resize(entry->ai_addrlen);
        endpoint.port(port);
        found.push_back(endpoint);
    }
    if (list) ::freeaddrinfo(list);

    const std::lock_guard lock(shared->mutex);
    if (!shared->done) return;
    shared->error = error;
    shared->error_number = error_number;
    shared->found = std::move(found);
    asio::post(shared->executor, [shared] {
        if (shared->done) shared->done->set();
    });
}

policy::failure not_resolved(const std::string& host, const std::string& why)
{
    return {policy::errc::not_resolved,
            "the host name " + host + " cannot be resolved (" + why + "); check the name and this host's DNS",
            policy::retry::later, std::nullopt};
}

}  // namespace

task<endpoints> resolve(std::string host, std::uint16_t port, stop_event& stop)
{
    boost::system::error_code not_a_literal;
    const auto address = asio::ip::make_address(host, not_a_literal);
    if (!not_a_literal) co_return endpoints{{address, port}};

    const auto shared = std::make_shared<lookup>();
    shared->executor = co_await asio::this_coro::executor;
    async_event done(shared->executor);
    shared->done = &done;
    const struct abandon {
        lookup& shared;
        ~abandon()
        {
            const std::lock_guard lock(shared.mutex);
            shared.done = nullptr;
        }
    } abandon{*shared};
    try {
        std::thread(look_up, shared, host, port).detach();
    } catch (const std::system_error& e) {
        co_return not_resolved(host, e.what());
    }

    const auto on_stop = stop.on_request([&done] { done.set(); });
    co_await done.wait();
    if (stop.requested()) co_return stopped();
    if (shared->error == EAI_SYSTEM) co_return not_resolved(host, std::strerror(shared->error_number));
    if (shared->error != 0) co_return not_resolved(host, ::gai_strerror(shared->error));
    if (shared->found.empty()) co_return not_resolved(host, "it has no address");
    co_return std::move(shared->found);
}

}  // namespace io
