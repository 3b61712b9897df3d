#pragma once

#include "agent/deploy/broker_probe.hpp"
#include "agent/deploy/hooks.hpp"
#include "agent/disk/publisher.hpp"
#include "agent/disk/store.hpp"
#include "agent/io/clock.hpp"
#include "agent/platform/exposure_client.hpp"

#include <boost/asio/any_io_executor.hpp>

namespace reconcile {

// Everything outside that a reconciliation touches. The tests script all of it.
struct ports {
    io::clock& clock;
    platform::exposure_api& api;
    disk::store& store;
    disk::publisher& publisher;
    deploy::hooks& hooks;
    deploy::broker_verifier& verifier;
    boost::asio::any_io_executor pool;  // for what blocks: keys, files
};

}  // namespace reconcile
