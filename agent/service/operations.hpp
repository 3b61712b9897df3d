#pragma once

#include "agent/io/async.hpp"
#include "agent/reconcile/credentials.hpp"
#include "agent/reconcile/run.hpp"
#include "agent/service/application.hpp"
#include "crypto/secret.hpp"

#include <boost/describe.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

// The verbs: commands that change something, the same whether a one-shot runs them or the daemon does.

namespace service {

// The arguments of each verb. To add one: its struct, its place in verb_request, and its run(). Names and
// members are the protocol of the control socket.
namespace verb {

struct asked {
    static constexpr bool changes_users = false;  // true: refused while the host is being decommissioned
    static constexpr const char* schema = "exposure-agent.reconcile/v1";  // of the answer

    std::string by;          // the account that called it
    bool scheduled = false;  // called from a timer's unit

    policy::origin from() const;
};
BOOST_DESCRIBE_STRUCT(asked, (), (by, scheduled))

struct of_users : asked {
    std::set<policy::user_name> names;        // empty: every user
    std::optional<policy::duration> timeout;  // for all of it, hooks included; none: the default
};
BOOST_DESCRIBE_STRUCT(of_users, (asked), (names, timeout))

struct ping : asked {
    static constexpr const char* word = "ping";
};
BOOST_DESCRIBE_STRUCT(ping, (asked), ())

struct reconcile : of_users {
    static constexpr const char* word = "reconcile";
    bool accept_loss = false;
};
BOOST_DESCRIBE_STRUCT(reconcile, (of_users), (accept_loss))

struct rotate : of_users {
    static constexpr const char* word = "rotate";
    static constexpr bool changes_users = true;
    bool retire_now = false;
};
BOOST_DESCRIBE_STRUCT(rotate, (of_users), (retire_now))

struct rollback : of_users {
    static constexpr const char* word = "rollback";
    static constexpr const char* schema = "exposure-agent.rollback/v1";
    static constexpr bool changes_users = true;
};
BOOST_DESCRIBE_STRUCT(rollback, (of_users), ())

struct deploy : of_users {
    static constexpr const char* word = "deploy";
    static constexpr const char* schema = "exposure-agent.deploy/v1";
    static constexpr bool changes_users = true;
    bool force = false;  // also hooks that are not pending
};
BOOST_DESCRIBE_STRUCT(deploy, (of_users), (force))

struct import : of_users {  // one name
    static constexpr const char* word = "import";
    static constexpr bool changes_users = true;
    crypto::secret key;       // PEM, not encrypted
    std::string certificate;  // the leaf, followed by its chain if there is one
    std::string remote_id;    // empty: the user is found by its certificate
    bool retire = false;      // the user is deleted once its successor is in use
};
BOOST_DESCRIBE_STRUCT(import, (of_users), (key, certificate, remote_id, retire))

struct decommission : of_users {  // no names
    static constexpr const char* word = "decommission";
    bool at_once = false;
    bool undo = false;
};
BOOST_DESCRIBE_STRUCT(decommission, (of_users), (at_once, undo))

struct users_deleted : of_users {  // reported by `users delete`: no pass has to find them missing
    static constexpr const char* word = "users-deleted";
    std::set<std::string> ids;
};
BOOST_DESCRIBE_STRUCT(users_deleted, (of_users), (ids))

struct login : asked {
    static constexpr const char* word = "login";
    static constexpr const char* schema = "exposure-agent.login/v1";
    bool begin = false;                      // only stores the verifier, for the code to come
    std::optional<crypto::secret> verifier;  // for PKCE, set when a login begins; empty: login without PKCE
    std::string state;
    crypto::secret code;
    std::optional<crypto::secret> refresh_token;  // instead of a code
    bool force = false;                           // also when the tokens name another person than before
};
BOOST_DESCRIBE_STRUCT(login, (asked), (begin, verifier, state, code, refresh_token, force))

struct logout : asked {
    static constexpr const char* word = "logout";
    static constexpr const char* schema = "exposure-agent.logout/v1";
};
BOOST_DESCRIBE_STRUCT(logout, (asked), ())

struct notify : asked {  // --test
    static constexpr const char* word = "notify";
    static constexpr const char* schema = "exposure-agent.notify-test/v1";
};
BOOST_DESCRIBE_STRUCT(notify, (asked), ())

}  // namespace verb

using verb_request =
    std::variant<verb::ping, verb::reconcile, verb::rotate, verb::rollback, verb::deploy, verb::import,
                 verb::decommission, verb::users_deleted, verb::login, verb::logout, verb::notify>;

// Null: the verb is not about users.
const verb::of_users* users_of(const verb_request&);

const char* schema_of(const verb_request&);

// The outcome of a verb, as `--output json` prints it.
struct user_answer {
    std::string exposure;
    std::string name;
    bool converged = false;
    std::string sentence;
};
BOOST_DESCRIBE_STRUCT(user_answer, (), (exposure, name, converged, sentence))

struct verb_answer {
    std::optional<std::string> schema;
    int exit = 0;                                   // the contract's exit code
    std::optional<std::vector<user_answer>> users;  // of reconcile, and of verbs that end with it
    std::vector<std::string> messages;              // for people
    std::optional<bool> sent;                       // of notify, like `answer`
    std::optional<std::string> answer;
    std::optional<policy::errc> code;  // why there is no access token
};
BOOST_DESCRIBE_STRUCT(verb_answer, (), (schema, exit, users, messages, sent, answer, code))

// The answer for a failure: its exit code and its sentence.
verb_answer answer_of(const policy::failure&);

class operations {
public:
    // Lock for fetching credentials, where other tasks fetch them too; empty: none is needed.
    using credentials_guard = std::function<io::awaitable<std::shared_ptr<void>>()>;

    // True when nobody waits for the verb's answer any longer; empty: somebody always does.
    using caller_gone = std::function<bool()>;

    // Where outcomes are reported: a one-shot prints its answer; a daemon's log must have them, too.
    enum class outcomes { in_answer, in_answer_and_log };

    // The state directory must be held and the state loaded.
    operations(application& app, outcomes reported, reconcile::step_listener listener,
               credentials_guard guard = {})
        : app_(app),
          logs_(reported == outcomes::in_answer_and_log),
          listener_(std::move(listener)),
          guard_(std::move(guard))
    {
    }

    // Work that has not begun when the caller is gone is never started: checked under each exposure's lock.
    io::awaitable<verb_answer> perform(verb_request, caller_gone = {});

private:
    io::awaitable<verb_answer> run(verb::ping, caller_gone);
    io::awaitable<verb_answer> run(verb::reconcile, caller_gone);
    io::awaitable<verb_answer> run(verb::rotate, caller_gone);
    io::awaitable<verb_answer> run(verb::rollback, caller_gone);
    io::awaitable<verb_answer> run(verb::deploy, caller_gone);
    io::awaitable<verb_answer> run(verb::import, caller_gone);
    io::awaitable<verb_answer> run(verb::decommission, caller_gone);
    io::awaitable<verb_answer> run(verb::login, caller_gone);
    io::awaitable<verb_answer> run(verb::logout, caller_gone);
    io::awaitable<verb_answer> run(verb::notify, caller_gone);
    io::awaitable<verb_answer> run(verb::users_deleted, caller_gone);
    io::awaitable<verb_answer> answer_to(verb_request, caller_gone);
    io::awaitable<verb_answer> undo_decommission();
    io::awaitable<verb_answer> converge(verb::reconcile, caller_gone, reconcile::turn_begins = {});
    io::task<void> ask(const reconcile::state::hold&, std::set<policy::user_name> only, bool retire_now,
                       policy::origin);
    io::task<void> roll_back(const reconcile::state::hold&, policy::user_name, policy::origin);
    io::awaitable<void> deploy_exposure(std::string exposure, std::set<policy::user_name> only, bool force,
                                        policy::origin, caller_gone, std::vector<std::string>& failed,
                                        std::vector<std::string>& passed);

    application& app_;
    bool logs_;
    reconcile::step_listener listener_;
    credentials_guard guard_;
    std::map<policy::user_name, io::async_lock> rotating_;
};

// Stores the configuration in force: `status` uses it while the file is invalid.
io::awaitable<void> keep_configuration(application&);

// Fetches the configured credentials that are due, or all of them.
io::awaitable<reconcile::credentials_outcome> keep_credentials(application&, reconcile::fetch);

// Once a host being decommissioned has no users left: deletes the tokens and records the end.
io::task<void> finish_decommission(application&);

// The exposures that a verb works on; empty if it is not about users.
std::set<std::string> exposures_of(const reconcile::state&, const verb_request&);

}  // namespace service
