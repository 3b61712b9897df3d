#include "config/names.hpp"
#include "config/sections.hpp"
#include "policy/limits.hpp"
#include "policy/naming.hpp"

namespace config {
namespace {

using policy::file_format;

constexpr std::size_t generation_digits = 8;  // the common name ends with them (contract section 3)
constexpr const char* marker_begin = "[exposure-agent ";

policy::rotation_rule read_rotation(const layers& rotation)
{
    policy::rotation_rule rule;
    if (const auto lead = rotation.text("renew_before"))
        rule.renew_before = read_lead(*lead).value_or(rule.renew_before);
    rule.retire_after = rotation.duration("retire_after", rule.retire_after);
    rule.strategy = rotation.word("strategy", policy::from_word<policy::strategy>, rule.strategy);
    rule.paused = rotation.boolean("paused", rule.paused);
    return rule;
}

policy::output_rule read_output(const layers& output, std::string fallback, findings& found)
{
    policy::output_rule rule;
    rule.directory = output.path("directory").value_or(std::move(fallback));
    rule.access = read_access(output, found);
    rule.password_file = output.in("password").path("file");
    if (!output.find("formats")) return rule;

    rule.formats.clear();
    for (const auto* item : output.list("formats"))
        if (const auto format = policy::from_word<policy::file_format>(item->text))
            rule.formats.insert(*format);
    if (output.find("formats")->items.empty())
        found.wrong(output.where("formats"), "`formats` is empty; write at least [pem]");
    return rule;
}

// What one key of a user says against another, in the words of a person who mends the file.
class user_rules {
public:
    user_rules(const layers& user, const policy::desired_user& read, const layers& exposure,
               const policy::desired_exposure& of, findings& found)
        : user_(user),
          read_(read),
          exposure_(exposure),
          of_(of),
          found_(found),
          who_("user " + (of.name.empty() ? "" : of.name + "/") +
               (read.name.empty() ? "without a name" : read.name))
    {
    }

    void all() const
    {
        needs_key("consumer_group");
        needs_key("contact");
        common_name();
        description();
        formats();
        verify();
    }

private:
    void wrong(place at, const std::string& text) const { found_.wrong(at, who_ + ": " + text); }

    void needs_key(const char* key) const
    {
        if (!user_.has(key))
            wrong(user_.where(key), "`" + std::string(key) + "` is missing; give it here or in `defaults`");
    }

    // X.509 allows 64 characters (ub-common-name)
    void common_name() const
    {
        if (read_.name.empty() || of_.tenant.empty() || !exposure_.find("variant")) return;
        const auto name =
            policy::common_name(of_.variant, of_.tenant, read_.name, std::string(generation_digits, 'x'));
        const auto limit = policy::limits::common_name_length;
        if (name.size() <= limit) return;
        wrong(user_.where("name"), "the common name " + name + " would have " + std::to_string(name.size()) +
                                       " characters, but " + std::to_string(limit) +
                                       " are allowed; shorten the name by " +
                                       std::to_string(name.size() - limit));
    }

    void description() const
    {
        if (read_.description.find(marker_begin) == std::string::npos) return;
        wrong(user_.where("description"),
              "`description` must not hold a marker of the agent; it adds its own");
    }

    void formats() const
    {
        const auto output = user_.in("output");
        const auto& formats = read_.output.formats;
        const auto at = output.where("formats");
        if (formats.contains(file_format::pkcs12) && !output.has("password"))
            wrong(at, "pkcs12 needs a password; write `password: {file: PATH}` under `output`");
        if (formats.contains(file_format::java) && read_.key == policy::key_type::ed25519)
            wrong(at, "Kafka's PEM store refuses ed25519 keys; use another `key`, or leave out java");
        if (exposure_.has("broker")) return;
        for (const auto kafka : {file_format::java, file_format::librdkafka})
            if (formats.contains(kafka))
                wrong(at, std::string(word_of(kafka)) +
                              " needs to know the broker; name `broker` in the exposure");
    }

    void verify() const
    {
        if (read_.verify && !exposure_.has("broker"))
            wrong(user_.where("verify"),
                  "`verify` needs a broker; name `broker` in the exposure, or write false");
    }

    const layers& user_;
    const policy::desired_user& read_;
    const layers& exposure_;
    const policy::desired_exposure& of_;
    findings& found_;
    std::string who_;
};

}  // namespace

policy::desired_user read_user(const layers& user, const layers& exposure, const policy::desired_exposure& of,
                               const std::string& state_dir, findings& found)
{
    policy::desired_user read;
    read.name = user.text("name", {});
    read.consumer_group = user.text("consumer_group", {});
    read.contact = user.text("contact", {});
    read.description = user.text("description", {});
    read.key = user.word("key", policy::from_word<policy::key_type>, read.key);
    read.rotation = read_rotation(user.in("rotation"));
    read.output = read_output(user.in("output"), state_dir + "/live/" + of.name + "/" + read.name, found);
    read.hooks = read_hooks(user, found);
    read.verify = user.boolean("verify", !of.broker.empty());
    user_rules(user, read, exposure, of, found).all();
    return read;
}

}  // namespace config
