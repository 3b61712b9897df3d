#pragma once

#include "agent/disk/renderings.hpp"
#include "agent/reconcile/run.hpp"
#include "crypto/certificate.hpp"
#include "crypto/digest.hpp"
#include "crypto/key.hpp"
#include "manual_clock.hpp"
#include "run_coroutine.hpp"
#include "test_ca.hpp"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

// Platform, disk, hooks and broker in memory behind the ports of reconcile. Calls are recorded as a list of
// words to compare with, and each call can be made to fail.

namespace support {

// Calls in order: "list_users", "create_user", "publish logs/siem", "hooks logs/siem" ...
class diary {
public:
    void write(std::string line) { lines_.push_back(std::move(line)); }
    std::vector<std::string> take() { return std::exchange(lines_, {}); }

private:
    std::vector<std::string> lines_;
};

class memory_platform final : public platform::exposure_api {
public:
    memory_platform(diary& d, manual_clock& clock) : diary_(d), clock_(clock) {}

    std::vector<policy::remote_instance> instances;
    std::map<std::string, platform::user_detail> users;
    std::set<std::string> unlisted;     // ids missing from the list
    bool cut_off = false;               // the list reports that it is incomplete
    std::vector<std::string> requests;  // the CSR of every POST
    std::string misnamed;               // id returned for the next POST; empty: the right one
    int failing = 0;                    // number of next users created with status FAILED
    // Called before each call: returns a failure to report, and sets whether the call still takes effect.
    std::function<std::optional<policy::failure>(const std::string& call, bool& done_all_the_same)> trouble;

    io::task<std::vector<policy::remote_instance>> list_instances(platform::exposure_address) override
    {
        if (auto f = strike("list_instances")) co_return *f;
        co_return instances;
    }

    io::task<policy::remote_instance> read_instance(platform::exposure_address, std::string id) override
    {
        if (auto f = strike("read_instance")) co_return *f;
        const auto found = std::ranges::find(instances, id, &policy::remote_instance::id);
        if (found == instances.end())
            co_return policy::failure{.code = policy::errc::not_found, .context = "no instance " + id};
        co_return *found;
    }

    io::task<platform::created> create_instance(platform::exposure_address, platform::group_choice) override
    {
        if (auto f = strike("create_instance", [this] { add_instance(); })) co_return *f;
        co_return platform::created{.id = instances.back().id};
    }

    io::task<platform::list_end> list_users(platform::exposure_address, std::string,
                                            user_handler each) override
    {
        if (auto f = strike("list_users")) co_return *f;
        platform::list_end end{.cut_off = cut_off};
        for (const auto& [id, detail] : users)
            if (!unlisted.contains(id)) {
                ++end.users;
                each(detail.user);
            }
        co_return end;
    }

    io::task<platform::created> create_user(platform::exposure_address, std::string, policy::submission sent,
                                            platform::group_choice choice, std::string csr) override
    {
        platform::created made{.fields = choice.fields};
        requests.push_back(csr);
        if (auto f = strike("create_user", [&] { made.id = add_user(sent, csr); })) co_return *f;
        if (!misnamed.empty()) made.id = std::exchange(misnamed, "");
        co_return made;
    }

    io::task<platform::user_detail> read_user(platform::exposure_address, std::string,
                                              std::string id) override
    {
        if (auto f = strike("read_user")) co_return *f;
        const auto found = users.find(id);
        if (found == users.end())
            co_return policy::failure{.code = policy::errc::not_found, .context = "no user " + id};
        co_return found->second;
    }

    io::task<void> delete_user(platform::exposure_address, std::string, std::string id) override
    {
        if (auto f = strike("delete_user", [&] { users.erase(id); })) co_return *f;
        co_return policy::result<void>();
    }

    std::optional<policy::duration> clock_ahead(const platform::exposure_address&) const override
    {
        return std::nullopt;
    }

    // Copies the description of one of our users, marker included.
    void copy_marker(const std::string& from, const std::string& id)
    {
        const auto key = *crypto::private_key::generate(policy::key_type::ecdsa_p256);
        const auto sent = users.at(from).user;
        const auto copy = add_user({.common_name = "copy", .description = sent.description},
                                   crypto::base64(crypto::make_csr(key, "copy")->pem));
        auto node = users.extract(copy);
        node.key() = node.mapped().user.id = id;
        users.insert(std::move(node));
    }

    void add_instance()
    {
        instances.push_back({.id = "instance-1",
                             .name = "i",
                             .status = policy::remote_status::ready,
                             .status_text = "READY"});
    }

private:
    std::optional<policy::failure> strike(const std::string& call, const std::function<void()>& work = {})
    {
        diary_.write(call);
        bool done = false;
        auto failed = trouble ? trouble(call, done) : std::nullopt;
        if (work && (!failed || done)) work();
        return failed;
    }

    std::string add_user(const policy::submission& sent, const std::string& csr)
    {
        const auto id = "user-" + std::to_string(++made_);
        const auto pem = *crypto::base64_decode(csr);
        const auto first = pem.find('\n') + 1;
        const auto der = *crypto::base64_decode(pem.substr(first, pem.find("-----END") - first));
        const auto now = clock_.now().time_since_epoch().count();
        users[id] = {.user = {.id = id,
                              .name = sent.common_name,
                              .status = policy::remote_status::ready,
                              .status_text = "READY",
                              .description = sent.description,
                              .mark = policy::find_marker(sent.description)},
                     .certificate = ca_.sign(der, {.not_before = now - 60,
                                                   .not_after = now + 90 * 86400,
                                                   .serial = "0A" + std::to_string(10 + made_)})};
        if (failing > 0) {
            --failing;
            users[id].certificate.clear();
            users[id].user.status = policy::remote_status::failed;
            users[id].user.status_text = "FAILED";
        }
        return id;
    }

    diary& diary_;
    manual_clock& clock_;
    test_support::test_ca ca_{"platform"};
    int made_ = 0;
};

class memory_store final : public disk::store {
public:
    policy::stored_state saved;  // what a restart would load
    std::map<std::string, std::string> files;
    std::vector<policy::history_event> events;
    bool full = false;

    policy::result<policy::stored_state> load() override { return saved; }
    io::task<void> commit(disk::change what) override
    {
        if (full) co_return no_room();
        for (const auto& user : what.users)
            saved.users[user.name] = user;
        for (const auto& exposure : what.exposures)
            saved.exposures[exposure.name] = exposure;
        for (const auto& key : what.keys) {
            files[place(key.name, key.generation, "key")] = key.key_pem.view();
            files[place(key.name, key.generation, "csr")] = key.csr_pem;
        }
        for (const auto& c : what.certificates)
            files[place(c.name, c.generation, "certificate")] = c.fullchain_pem;
        for (const auto& name : what.forgotten)
            saved.users.erase(name);
        events.insert(events.end(), what.events.begin(), what.events.end());
        // delete keys of generations that no record refers to
        std::erase_if(files, [this](const auto& file) {
            for (const auto& [name, user] : saved.users)
                for (const auto& g : user.generations)
                    if (file.first.starts_with(name.text() + "/" + g.id + "/")) return false;
            return true;
        });
        co_return policy::result<void>();
    }
    io::task<void> make_room() override
    {
        if (full) co_return no_room();
        co_return policy::result<void>();
    }
    policy::result<crypto::secret> read_key(const policy::user_name& name, const std::string& g) override
    {
        return crypto::secret(std::string_view(files.at(place(name, g, "key"))));
    }
    policy::result<std::string> read_csr(const policy::user_name& name, const std::string& g) override
    {
        return files.at(place(name, g, "csr"));
    }
    policy::result<std::string> read_certificate(const policy::user_name& name, const std::string& g) override
    {
        return files.at(place(name, g, "certificate"));
    }

private:
    static std::string place(const policy::user_name& name, const std::string& g, const char* what)
    {
        return name.text() + "/" + g + "/" + what;
    }
    static policy::failure no_room() { return {.code = policy::errc::disk_full, .context = "no room"}; }
};

class memory_publisher final : public disk::publisher {
public:
    explicit memory_publisher(diary& d) : diary_(d) {}

    std::map<std::string, std::string> current;  // directory -> generation
    std::vector<std::string> torn;               // publications with mismatched certificate and key

    policy::result<std::vector<policy::published_file>> publish(const disk::publication& p) override
    {
        diary_.write("publish " + p.name.text());
        const auto pair = disk::pair_of(p);
        if (!pair || !p.fullchain_pem.starts_with(pair->chain.leaf.pem())) torn.push_back(p.generation);
        current[p.output.directory] = p.generation;
        return std::vector<policy::published_file>{{.name = "key.pem"}};
    }
    void inspect(policy::stored_user& user, const std::string& directory) override
    {
        const auto found = current.find(directory);
        const bool sound = found != current.end() && found->second == user.current;
        user.output = sound ? policy::output_condition::sound : policy::output_condition::missing;
    }
    policy::result<void> unpublish(const std::string& directory, const std::vector<std::string>&) override
    {
        diary_.write("unpublish " + directory);
        current.erase(directory);
        return {};
    }

private:
    diary& diary_;
};

class memory_hooks final : public deploy::hooks {
public:
    explicit memory_hooks(diary& d) : diary_(d) {}

    int failures = 0;                                // number of next runs that fail
    std::function<io::awaitable<void>()> meanwhile;  // runs during the next hooks

    io::task<void> run(deploy::hook_run run) override
    {
        diary_.write("hooks " + run.name.text() + " " + run.reason);
        const auto now = std::exchange(meanwhile, {});
        if (now) co_await now();
        if (failures-- > 0)
            co_return policy::failure{.code = policy::errc::hook_failed, .context = "the hook said no"};
        co_return policy::result<void>();
    }

private:
    diary& diary_;
};

class memory_broker final : public deploy::broker_verifier {
public:
    deploy::verify_verdict verdict = deploy::verify_verdict::accepted;
    std::map<std::string, deploy::verify_verdict> of_generation;  // overrides `verdict`
    int refusals = 0;                                             // number of next checks that are refused

    io::task<deploy::verify_answer> ask(deploy::verify_request request) override
    {
        if (refusals-- > 0)
            co_return deploy::verify_answer{deploy::verify_verdict::group_not_granted, "not yet"};
        const auto key = crypto::private_key::from_pem(request.key_pem.view());
        for (const auto& [id, other] : of_generation)
            if (key && policy::generation_id(key->fingerprint()) == id)
                co_return deploy::verify_answer{other, "said the broker"};
        co_return deploy::verify_answer{verdict, "said the broker"};
    }
};

// One exposure "logs" with one user "siem", and everything that reconcile needs.
struct small_world {
    small_world()
    {
        desired.reconcile.settle = std::chrono::seconds(15);
        policy::desired_exposure exposure{.name = "logs",
                                          .base_url = "https://les.example.com",
                                          .tenant = "orion-123",
                                          .topic = "logs-orion-123"};
        policy::desired_user user{.name = "siem",
                                  .consumer_group = "siem",
                                  .contact = "soc@example.com",
                                  .key = policy::key_type::ecdsa_p256};
        user.output.directory = "/out/siem";
        user.rotation.retire_after = policy::duration(0);
        exposure.users.push_back(user);
        desired.exposures.push_back(exposure);
        store.saved.owner = "web-01";
    }

    policy::desired_user& siem() { return desired.exposures.front().users.front(); }
    const policy::stored_user& kept() { return store.saved.users.at({"logs", "siem"}); }

    // Starts over with the same disk and platform: loads the state and reconciles like a manual run.
    reconcile::report reconcile(reconcile::run_options options = {})
    {
        reconcile::ports ports{clock, platform, store, publisher, hooks, broker, context.get_executor()};
        state =
            std::make_unique<reconcile::state>(ports, std::make_shared<const policy::desired_state>(desired));
        return run_coroutine(context, clock, reconcile_in(*state, options));
    }

    boost::asio::io_context context;
    diary said;
    manual_clock clock;
    policy::desired_state desired;
    memory_platform platform{said, clock};
    memory_store store;
    memory_publisher publisher{said};
    memory_hooks hooks{said};
    memory_broker broker;
    std::unique_ptr<reconcile::state> state;

private:
    static io::awaitable<reconcile::report> reconcile_in(reconcile::state& w, reconcile::run_options options)
    {
        if (auto loaded = co_await w.load(); !loaded) throw std::runtime_error(loaded.error().context);
        co_return co_await reconcile::run(w, options);
    }
};

}  // namespace support
