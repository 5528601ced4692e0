// Package killpoint ends a process with SIGKILL immediately before its n-th step: a message to the kernel over
// netlink, a write to one of its files, or a rename. A test that goes through all n sees every state that kill -9
// can leave behind.
//
// The process calls Arm, and its parent calls Run. A filter of seccomp stops the process at each of its system
// calls of the kinds above, and the parent decides whether it goes on. The alternative, hooks in the code that
// sends, would test the hooks: a message that is sent without one would never be a kill point.
package killpoint
