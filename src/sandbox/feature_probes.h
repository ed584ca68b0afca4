// The attempts behind check_features(): each in a child of its own, so that what it does to a process is forgotten.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace hutch::probe {

// Runs `what` in a child with a deadline and brings back the text or the error that it returned. The caller has one
// thread, so the child may allocate.
Result<std::string> in_child(const std::function<Result<std::string>()>& what);

// The text is what was found, empty when there is nothing to say but that it works.
Result<std::string> user_namespaces();  // the engine's own, then a sandbox's within it
Result<std::string> one_namespace(int flag);
Result<std::string> mount_interface();
Result<std::string> private_proc();
Result<std::string> filters();
Result<std::string> notification();
Result<std::string> killable_wait();
Result<std::string> landlock_rules();
Result<std::string> clone_with_arguments();
Result<std::string> clone_into_cgroup();
Result<std::string> process_descriptors();
Result<std::string> closing_ranges();
Result<std::string> beneath_resolution();
Result<std::string> thread_id_address();
Result<std::string> control_groups(const std::string& place);  // makes one, limits it, removes it

}  // namespace hutch::probe
