// Package account divides the CPU time of an operation among kinds of work. The CPU time of a process is
// exact, and a CPU profile gives the share of each kind of work in it.
//
// The invariant is that the parts of a process sum up to its CPU time: each sample of the profile
// belongs to exactly one kind, and samples that no kind matches belong to [Rest].
//
// A sample belongs to the first kind that has a function anywhere in the sample's stack, not only at its
// top. So memory that is allocated while a message is decoded counts as allocation if that kind comes
// first, and a system call counts for the kind of its caller. The alternative, the innermost function
// alone, would put a third of all samples under the runtime and system calls without telling why they
// are there.
package account
