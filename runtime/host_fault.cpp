// SPDX-License-Identifier: Apache-2.0
#include "runtime/host_fault.h"

#include <ucontext.h>

#include <mutex>

namespace rowsmith {
namespace {

constexpr std::size_t kStackBytes = 64 * 1024;

FaultHook fault_hook = nullptr;
struct sigaction previous_segv, previous_bus;

FaultAccess access_of([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  const auto* user = static_cast<const ucontext_t*>(context);
  return user->uc_mcontext.gregs[REG_ERR] & 2 ? FaultAccess::kWrite : FaultAccess::kRead;
#else
  return FaultAccess::kUnknown;
#endif
}

void on_fault(int signal, siginfo_t* info, void* context) {
  const bool sent = info->si_code <= 0;  // by raise() or kill(), not by an access
  if (!sent) fault_hook(info->si_addr, access_of(context));
  const struct sigaction& previous = signal == SIGSEGV ? previous_segv : previous_bus;
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler == SIG_DFL || previous.sa_handler == SIG_IGN) {
    // The access is made again, and now ends the process as it would have without us.
    sigaction(signal, &previous, nullptr);
    if (sent) raise(signal);
  } else {
    previous.sa_handler(signal);
  }
}

}  // namespace

void install_fault_handler(FaultHook hook) {
  static std::once_flag once;
  std::call_once(once, [hook] {
    fault_hook = hook;
    struct sigaction action = {};
    action.sa_sigaction = on_fault;
    // Left by a jump, so nothing would unblock the signal again: it must not be blocked.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &previous_segv);
    sigaction(SIGBUS, &action, &previous_bus);
  });
}

AlternateStack::AlternateStack() {
  stack_t now = {};
  if (sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  memory_.reset(new char[kStackBytes]);  // not cleared: this is on every launch's path
  stack_t stack = {};
  stack.ss_sp = memory_.get();
  stack.ss_size = kStackBytes;
  if (sigaltstack(&stack, nullptr) != 0) memory_.reset();
}

AlternateStack::~AlternateStack() {
  if (!memory_) return;
  stack_t off = {};
  off.ss_flags = SS_DISABLE;
  sigaltstack(&off, nullptr);
}

}  // namespace rowsmith
