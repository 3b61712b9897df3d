#pragma once

#include "agent/reconcile/run.hpp"
#include "agent/service/application.hpp"
#include "agent/service/operations.hpp"
#include "tests/simulation/history.hpp"
#include "tests/simulation/machine.hpp"
#include "tests/simulation/observer.hpp"
#include "tests/simulation/platform.hpp"

#include <boost/json.hpp>

#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// One history as it is played: the host and its program (history.cpp), what people and faults do to them
// (events.cpp), power cuts (power_cuts.cpp), and what must be true meanwhile (invariants.cpp).

namespace simulation {

namespace fs = std::filesystem;
namespace json = boost::json;

// 15 minutes, unless --timeout says otherwise, and the end; with the configuration that it began with
inline constexpr nanoseconds longest_one_shot = std::chrono::minutes(20);
inline constexpr nanoseconds longest_unread = std::chrono::minutes(5);  // until an edit is in force

// The first 16 KiB of a file; empty: it cannot be read.
std::string text_of(const fs::path&);

struct wanted_user {
    std::string name;
    std::string consumer_group;
    std::string contact = "team@example.com";
    std::string description;
    std::string retire_after = "24h";
    bool hook = false;
    std::string key = "ecdsa-p256";
    bool replace = false;
    bool paused = false;

    std::string slot() const { return "logs/" + name; }
};

class history {
public:
    explicit history(const options& o)
        : options_(o),
          machine_(o.seed, o.root),
          disk_(std::make_unique<power>(o.root, o.root.native() + ".aside")),
          platform_(machine_, [this](const std::string& law, const std::string& what) { broken(law, what); })
    {
    }

    outcome play();

private:
    // ---- the host
    void write_secret();
    void write_machine_id(bool elsewhere);
    void write_configuration(bool valid = true);
    std::string configuration() const;
    void one_life();
    void program();
    void serve(std::shared_ptr<const policy::desired_state>);
    void run_once(std::shared_ptr<const policy::desired_state>);
    reconcile::preview preview(std::shared_ptr<const policy::desired_state>);
    service::surroundings surroundings();
    void ended_with(const policy::failure&);
    void become_calm();
    void lose_state();
    void after_step();
    void say(const std::string& what) const;
    void most(const std::string& what, std::uint64_t many);

    // ---- power cuts
    void cut_power();
    void cut_power(const power::loss&);
    void try_states();
    [[noreturn]] void judge_state(std::uint64_t number, const power::loss&, const fs::path& original, int to);
    [[noreturn]] void state_is_judged();
    std::string under_way() const;

    // ---- people and faults
    dice dice_of(std::uint64_t event) const;
    bool happens(std::uint64_t event);
    bool is_fair() const;
    bool is_quiet() const;
    void plan_next_event();
    void something_happens();
    void trouble_disk();
    void change_faults();
    void set_faults(const faults&);
    void edit();
    void try_text(const std::string& name, nanoseconds later);
    void remove_user();
    void name_again();
    void remove_link();
    void use_portal();
    void ask(const std::string& verb, const json::object& arguments);
    void ask_one_shot(const std::string& verb, const json::object& arguments);
    void hear();
    void stop_program();
    void watch_login();
    void help();
    wanted_user& any_user();
    std::string any_slot() { return any_user().slot(); }

    // ---- invariants
    void broken(const std::string& law, const std::string& what);
    void judge_pace();
    void judge_records(const policy::stored_state&);
    void judge_plan(const policy::desired_state&, policy::instant now, const policy::plan_result&);
    bool has_settled();
    void judge_users(const policy::stored_state&);
    void judge_preview(const reconcile::preview&, const std::vector<policy::action>& begun);
    void expect_request();
    bool may_retire(const platform_user&);
    bool waits_for_person(const platform_user&) const;
    void note_retire_after(const wanted_user&);
    void look_at_outputs();
    void look_at_output(const std::string& slot);
    fs::path directory_of(const std::string& slot) const { return state_dir() / "live" / slot; }
    fs::path state_dir() const { return options_.root / "state"; }
    std::string in_use(const std::string& slot) const;
    std::optional<policy::generation> stored(const std::string& key) const;
    bool hooks_have_passed(const std::string& slot) const;
    std::string not_converged();

    struct conversation {
        int fd = -1;
        std::string verb;
        std::string slot;  // the user that it names; empty: all
        std::string heard;
        nanoseconds since{0};
    };

    options options_;
    machine machine_;
    dice event_dice_{0};  // of the event that happens
    std::unique_ptr<power> disk_;
    platform platform_;
    observer observer_;
    std::vector<wanted_user> users_;
    std::vector<wanted_user> removed_users_;  // from the file
    std::map<std::string, std::string> hooks_passed_;  // slot -> generation
    std::set<std::string> hooks_edited_;
    std::set<std::string> wanted_gone_;  // slots removed from the file, rolled back or replaced
    std::vector<conversation> conversations_;
    std::map<std::string, std::string> certificate_in_use_;  // by slot
    std::map<std::string, nanoseconds> replaced_at_;         // by certificate
    std::map<std::string, std::vector<std::pair<nanoseconds, nanoseconds>>>
        retire_after_;                                  // by slot: since, value
    std::map<std::string, nanoseconds> removed_at_;     // by slot
    std::map<std::string, nanoseconds> rotated_at_;     // by slot: asked for by a person
    std::map<std::string, nanoseconds> paused_since_;   // by slot: or not
    std::map<std::string, nanoseconds> retire_now_at_;  // by slot
    std::set<std::string> known_missing_;               // ids
    nanoseconds clock_changed_at_{0};
    nanoseconds loss_accepted_at_{-std::chrono::hours(24)};
    nanoseconds stop_since_{0};
    int max_deletes_ = 10;
    std::uint64_t changes_ = 0;  // by requests, at the last look
    nanoseconds converged_at_{0};
    bool elsewhere_ = false;  // the state directory is on another machine
    outcome outcome_;
    std::deque<std::pair<std::string, service::verb_request>> one_shots_;  // verbs that wait for their turn
    std::set<std::string> rotations_asked_;  // by one-shots: their slots have no budget any more
    double share_of_one_shots_ = 0;          // of the lives; the others are daemons
    bool person_asks_ = false;               // this life is a person's command
    bool once_ = false;                      // this life is a one-shot
    bool disk_failed_ = false;               // in this life
    std::set<std::uint64_t> states_;         // digests of those that were judged
    int judged_to_ = -1;                     // this process judges a state: where it tells the outcome
    nanoseconds state_since_{0};
    std::string last_step_ = "start";  // action that was begun last
    nanoseconds rolled_back_at_{-std::chrono::hours(1)};  // or asked for
    bool valid_ = true;
    bool logged_in_ = false;
    bool calm_ = false;
    bool stop_asked_ = false;
    bool over_ = false;
    bool edit_unread_ = false;
    bool outputs_changed_ = false;
    std::string configuration_;  // as last written
    nanoseconds calm_since_{0};
    nanoseconds life_since_{0};
    nanoseconds disk_worked_since_{0};
    nanoseconds may_call_since_{0};
    int names_given_ = 0;
};

}  // namespace simulation
