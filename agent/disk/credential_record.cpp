#include "agent/disk/credential_record.hpp"

#include "agent/disk/atomic_file.hpp"
#include "agent/disk/directory.hpp"
#include "agent/disk/json_fields.hpp"
#include "agent/disk/read_file.hpp"

namespace disk {
namespace json {

template <class Codec, class T>
requires std::same_as<std::remove_const_t<T>, credential_record>
void fields_of(Codec& field, T& v)
{
    field("wanted", v.wanted);
    field("updated_at", v.updated_at);
    field("fetched_at", v.fetched_at);
    field("digest", v.digest);
    field("hooks_pending", v.hooks_pending);
    field("failures", v.failures);
    field("last_error", v.last_error);
    field("next_attempt", v.next_attempt);
}

}  // namespace json

namespace {

constexpr std::size_t record_bytes = 64 << 10;

}  // namespace

credential_record load_credential_record(const paths& where, const std::string& name)
{
    const auto text = read_file(where.credential(name), record_bytes);
    if (!text || !*text) return {};
    auto record = json::read<credential_record>(**text);
    return record ? *record : credential_record{};
}

policy::result<void> save_credential_record(const paths& where, const std::string& name,
                                            const credential_record& record)
{
    const auto file = where.credential(name);
    const auto directory = directory::make_path(file.parent_path(), {.mode = 0700});
    if (!directory) return directory.error();
    return write_file(file, json::write(record), {.mode = 0600});
}

}  // namespace disk
