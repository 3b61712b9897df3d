#pragma once

#include "agent/io/async.hpp"
#include "agent/reconcile/credentials.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/application.hpp"

#include <boost/json/object.hpp>

#include <functional>
#include <map>
#include <memory>
#include <string>

// The verbs that change something, the same whether a one-shot runs them or hands them to the daemon: JSON
// in, JSON out. Every answer has "exit", the contract's exit code, and "messages", sentences for people.

namespace service {

class operations {
public:
    // What a verb takes while it fetches credentials, where others do, too; empty: nothing.
    using credentials_guard = std::function<io::awaitable<std::shared_ptr<void>>()>;

    // Nobody waits for the verb's answer any more; empty: somebody always does.
    using caller_gone = std::function<bool()>;

    // The state directory is held and the world is loaded.
    explicit operations(application& app, reconcile::step_listener listener = {},
                        credentials_guard guard = {})
        : app_(app), listener_(std::move(listener)), guard_(std::move(guard))
    {
    }

    // reconcile {names, timeout, accept_loss} · rotate {names, retire_now} · rollback {names} ·
    // deploy {names, force} · login {code | refresh_token, force} · logout {} · notify {} ·
    // import {names, key, certificate, remote_id, retire} · decommission {at_once, undo} · ping {}
    // What has not begun when its caller is gone never does: each exposure by itself, once its turn has come.
    io::awaitable<boost::json::object> perform(std::string verb, boost::json::object arguments,
                                               caller_gone = {});

private:
    io::awaitable<boost::json::object> reconcile(boost::json::object, caller_gone);
    io::awaitable<boost::json::object> rotate(boost::json::object, caller_gone);
    io::awaitable<boost::json::object> rollback(boost::json::object, caller_gone);
    io::awaitable<boost::json::object> deploy(boost::json::object, caller_gone);
    io::awaitable<boost::json::object> login(boost::json::object, caller_gone);
    io::awaitable<boost::json::object> logout(caller_gone);
    io::awaitable<boost::json::object> test_notification();
    io::awaitable<boost::json::object> import(boost::json::object, caller_gone);
    io::awaitable<boost::json::object> decommission(boost::json::object);
    io::awaitable<boost::json::object> undo_decommission();
    io::awaitable<boost::json::object> converge(std::set<policy::user_name> only, boost::json::object,
                                                caller_gone, reconcile::turn_begins = {});
    io::task<void> ask(const reconcile::world::hold&, std::set<policy::user_name> only, bool retire_now,
                       policy::origin);
    io::task<void> roll_back(const reconcile::world::hold&, policy::user_name, policy::origin);
    io::awaitable<void> deploy_exposure(std::string exposure, std::set<policy::user_name> only, bool force,
                                        policy::origin, caller_gone, std::vector<std::string>& failed,
                                        std::vector<std::string>& passed);

    application& app_;
    reconcile::step_listener listener_;
    credentials_guard guard_;
    std::map<policy::user_name, io::async_lock> rotating_;
};

// Stores the configuration in force: `status` goes by it while the file is wrong.
io::awaitable<void> keep_configuration(application&);

// Fetches what is due of the file's credentials, or all of them.
io::awaitable<reconcile::credentials_outcome> keep_credentials(application&, reconcile::fetch);

// Once nothing of a host that leaves is left: forgets the tokens, and notes that it is done.
io::task<void> finish_decommission(application&);

// The exposures that a verb with these arguments works on.
std::set<std::string> exposures_of(const reconcile::world&, const std::string& verb,
                                   const boost::json::object& arguments);

// The answer to a failure: its exit code and its sentence.
boost::json::object answer_of(const policy::failure&);

}  // namespace service
