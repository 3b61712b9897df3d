#pragma once

#include "agent/deploy/spool.hpp"
#include "agent/io/log.hpp"

#include <optional>
#include <string>
#include <vector>

// The verbs of the command line (contract section 4), one file per family. They return the exit code.

namespace cli {

// Options of every verb.
struct globals {
    std::string config = "/etc/exposure-agent/agent.yaml";
    io::severity log_level = io::severity::info;
    io::log_format log_format = io::log_format::automatic;
    std::string output = "text";
    bool json = false;  // --output json
    bool no_input = false;
};

struct run_options {
    std::string deploy = "direct";  // or "unit": exposure-agent-deploy.service runs the hooks
    std::string spool_directory = deploy::default_spool_directory;
};

struct reconcile_options {
    std::vector<std::string> names;
    std::optional<std::string> timeout;
    bool accept_loss = false;
};

struct rotate_options {
    std::vector<std::string> names;
    std::optional<std::string> timeout;
    bool retire_now = false;
};

struct plan_options {
    std::vector<std::string> names;
    bool detailed_exitcode = false;
};

struct status_options {
    std::vector<std::string> names;
    bool check = false;
    bool watch = false;
    std::optional<std::string> due;  // show only what expires or rotates within that time
};

struct history_options {
    std::vector<std::string> names;
    std::optional<std::string> since;  // a duration or a date
};

struct forecast_options {
    std::vector<std::string> names;
    std::optional<std::string> time;  // how far ahead
};

struct login_options {
    std::string code;
    std::string refresh_token_file;
    bool force = false;
    bool no_pkce = false;
};

struct users_delete_options {
    std::string exposure;
    std::vector<std::string> ids;
    bool yes = false;
    bool force = false;    // also those in use here
    bool orphans = false;  // instead of ids: ours that nothing uses
};

struct users_show_options {
    std::string exposure;
    std::string id;
    bool certificate = false;
};

struct init_options {
    std::string output;  // empty: the file named by --config
    std::string auth_url;
    std::string client_id;
    std::string client_secret_file;
    std::string redirect_url;
    std::string tenant;
    std::string variant;
    std::string base_url;
    std::string exposure;
    std::string user;
    std::string consumer_group;
    std::string contact;
    std::string ca_file;
    std::string broker;
    bool force = false;
};

struct deploy_options {
    std::vector<std::string> names;
    bool force = false;
    bool spool = false;  // as exposure-agent-deploy.service: users from the spool
    std::string spool_directory = deploy::default_spool_directory;
};

struct import_options {
    std::string name;
    std::string key;
    std::string certificate;
    std::string remote_id;
    std::string password_file;
    bool retire = false;
};

struct decommission_options {
    bool at_once = false;
    bool undo = false;
    bool yes = false;
};

struct catalog_options {
    std::string item;
    std::string business_group;
    std::string data;
    std::vector<std::string> set;
    std::string request_id;
    bool wait = false;
    std::string timeout;
};

struct action_options {
    std::string resource;
    std::string action;
    std::vector<std::string> elements;
};

int run_daemon(const globals&, const run_options&);
int reconcile(const globals&, const reconcile_options&);
int plan(const globals&, const plan_options&);
int status(const globals&, const status_options&);
int explain(const globals&, const std::string& name);
int history(const globals&, const history_options&);
int forecast(const globals&, const forecast_options&);
int rotate(const globals&, const rotate_options&);
int rollback(const globals&, const std::vector<std::string>& names);
int import(const globals&, const import_options&);
int decommission(const globals&, const decommission_options&);
int notify(const globals&, bool test);
int takeover(const globals&);
int check(const globals&);
int init(const globals&, const init_options&);
int doctor(const globals&);
int login(const globals&, const login_options&);
int logout(const globals&);
int token(const globals&);
int users(const globals&, const std::string& exposure);
int users_show(const globals&, const users_show_options&);
int users_delete(const globals&, const users_delete_options&);
int instances(const globals&, const std::string& exposure);
int deploy(const globals&, const deploy_options&);
int catalog_template(const globals&, const catalog_options&);
int catalog_request(const globals&, const catalog_options&);
int catalog_show(const globals&, const catalog_options&);
int action_form(const globals&, const action_options&);
int action_values(const globals&, const action_options&);
int schema();

}  // namespace cli
