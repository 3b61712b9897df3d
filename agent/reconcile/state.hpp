#pragma once

#include "agent/deploy/broker_probe.hpp"
#include "agent/deploy/hooks.hpp"
#include "agent/disk/publisher.hpp"
#include "agent/disk/store.hpp"
#include "agent/io/async.hpp"
#include "agent/io/clock.hpp"
#include "agent/platform/exposure_client.hpp"
#include "policy/desired.hpp"
#include "policy/events.hpp"
#include "policy/observed.hpp"
#include "policy/stored.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace reconcile {

// Everything external that a reconciliation uses. Tests replace all of it.
struct ports {
    io::clock& clock;
    platform::exposure_api& api;
    disk::store& store;
    disk::publisher& publisher;
    deploy::hooks& hooks;
    deploy::broker_verifier& verifier;
    boost::asio::any_io_executor pool;  // for blocking work: keys, files
};

// The state in memory: the configuration, what the platform had when last observed, and what is on disk.
// Records change in memory and on disk together, only through events. Single-threaded, so no mutexes.

class state {
public:
    state(ports& outside, std::shared_ptr<const policy::desired_state> desired)
        : outside_(outside), desired_(std::move(desired))
    {
    }

    // Reads the private store.
    io::task<void> load();

    // Inspects the published directories of one exposure (empty: of all).
    io::awaitable<void> inspect_outputs(std::string exposure);

    // The lock of one exposure: excludes other passes and commands on it, and pins the configuration in force
    // when the lock was taken. Functions that change the exposure's records take it as an argument. Its
    // holder must not take another exposure's lock, and must not sleep.
    class hold {
    public:
        hold(hold&& other) noexcept
            : state_(std::exchange(other.state_, nullptr)),
              exposure_(std::move(other.exposure_)),
              turn_(std::move(other.turn_))
        {
        }
        hold& operator=(hold&&) = delete;
        ~hold() { end(); }

        const std::string& exposure() const { return exposure_; }

        // Releases the lock while `work` runs, then takes it again: anything read before may have changed
        // by then.
        io::awaitable<void> without(io::awaitable<void> work);

    private:
        friend class state;
        hold(state& s, std::string exposure, io::async_lock::holder turn)
            : state_(&s), exposure_(std::move(exposure))
        {
            begin(std::move(turn));
        }
        void begin(io::async_lock::holder turn);
        void end();

        state* state_;
        std::string exposure_;
        std::optional<io::async_lock::holder> turn_;  // none: released for the moment
    };
    [[nodiscard]] io::awaitable<hold> take(std::string exposure);

    // Hooks run without the lock, so that they block no one else; each user's hooks run only once at a time.
    // begin_hooks() needs the lock; nullopt if they are already running.
    class running_hooks {
    public:
        running_hooks(running_hooks&& other) noexcept
            : state_(std::exchange(other.state_, nullptr)), name_(std::move(other.name_))
        {
        }
        running_hooks& operator=(running_hooks&&) = delete;
        ~running_hooks();

    private:
        friend class state;
        running_hooks(state& s, policy::user_name name) : state_(&s), name_(std::move(name)) {}

        state* state_;
        policy::user_name name_;
    };
    [[nodiscard]] std::optional<running_hooks> begin_hooks(const hold&, const policy::user_name&);
    bool runs_hooks(const policy::user_name& name) const { return running_hooks_.contains(name); }
    // Waits until the user's running hooks have ended. Do not hold the lock: recording the outcome needs it.
    io::awaitable<void> hooks_end(policy::user_name);

    void replace_desired(std::shared_ptr<const policy::desired_state> desired)
    {
        desired_ = std::move(desired);
    }

    ports& outside() { return outside_; }
    const policy::desired_state& desired() const { return *desired_; }
    std::shared_ptr<const policy::desired_state> desired_snapshot() const { return desired_; }
    std::shared_ptr<const policy::desired_state> desired_for(const std::string& exposure) const;
    const policy::stored_state& stored() const { return stored_; }
    policy::observed_state& observed() { return observed_; }

    const policy::desired_exposure* exposure(const std::string& name) const;
    const policy::desired_user* wanted(const policy::user_name&) const;

    // The user's record, created if there is none yet.
    policy::stored_user& user(const hold&, const policy::user_name&);
    policy::stored_exposure& exposure_record(const hold&, const policy::desired_exposure&);

    // Applies the events to the user's record and stores it with its history in one transaction: on stable
    // storage when it returns. If the disk fails, events that count only once stored are undone in memory,
    // and so are those that came with a key or a certificate.
    io::task<void> record(const hold&, const policy::user_name&, std::vector<policy::user_event>,
                          const policy::origin& = policy::by_schedule);
    io::task<void> record(const hold&, const policy::user_name&, policy::user_event,
                          const policy::origin& = policy::by_schedule);
    io::task<void> record(const hold&, const policy::user_name&, policy::user_event, const policy::origin&,
                          disk::change with);
    io::task<void> record(const hold&, policy::desired_exposure, policy::exposure_event);

    // Records that this host is being decommissioned (nullopt: no longer). On stable storage when it returns.
    io::task<void> leave(std::optional<policy::decommission>);

    // Drops the user from memory; its record on disk is already erased.
    void forget(const hold&, const policy::user_name&);

private:
    io::task<void> change(const hold&, policy::user_name, std::vector<policy::user_event>, policy::origin,
                          disk::change with);

    ports& outside_;
    std::shared_ptr<const policy::desired_state> desired_;
    std::map<std::string, std::shared_ptr<const policy::desired_state>> pinned_;
    policy::stored_state stored_;
    policy::observed_state observed_;
    std::map<std::string, io::async_lock> turns_;  // by exposure
    std::map<policy::user_name, std::shared_ptr<io::async_event>> running_hooks_;
};

}  // namespace reconcile
