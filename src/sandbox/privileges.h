// Giving up capabilities and ids for good. Called between fork and exec: no allocation; 0 or -1 with errno.
#pragma once

#include <linux/capability.h>
#include <sys/types.h>

#include <cstdint>
#include <initializer_list>

namespace hutch::privileges {

// Empties the bounding set and locks the secure bits. Must come before the ids change: afterwards it silently fails.
int drop_bounding_set();
// A user namespace with one id has setgroups(2) turned off for good: the groups of who we are outside stay.
enum class Groups : std::uint8_t { must_go, may_stay };
// Every id of the process: real, effective, saved, and the supplementary groups.
int become(uid_t uid, gid_t gid, Groups groups);
// Empties permitted, effective, inheritable and ambient sets, makes the process non-dumpable, and reads the sets back:
// a set that is not empty is an error.
int drop_capabilities();
// Keeps only the named capabilities in the permitted and effective sets.
int keep_only(std::initializer_list<unsigned> capabilities);
// The same, and lets them survive an exec, whoever we are.
int keep_only_across_exec(std::initializer_list<unsigned> capabilities);
int set_no_new_privileges();

}  // namespace hutch::privileges
