// Package systemdtest boots a systemd for tests: the machine's own program as the first process of new
// namespaces, with units, a network, a cgroup and a system bus of its own.
//
// It takes a fraction of a second, needs root and a kernel with cgroup v2, and works on machines that do
// not run systemd. The units of the real machine are not visible, and all files that systemd writes are in
// memory and disappear with the test.
//
// The alternatives were a container, which needs an image of a distribution, and a virtual machine,
// which takes ten seconds to boot.
package systemdtest
