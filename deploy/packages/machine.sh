#!/usr/bin/env bash
# A machine for the test of the packages: systemd as process 1 in namespaces of its own, on a copy of this machine's files.
#
#	machine.sh start FOLDER      boots it; FOLDER is its only state, and holds its process id
#	machine.sh run FOLDER ARG…   runs a command in it, with FOLDER/files as /srv
#	machine.sh stop FOLDER
#
# The copy is an overlay in memory, so nothing that the machine does reaches this machine's disk. Its network is empty
# except for the loopback and an interface with the address 10.0.0.1. It needs root, overlayfs and systemd.
# A container of an engine was rejected: there may be no engine, and there are no images of Debian without a registry.
set -euo pipefail

command=$1 folder=$(realpath "$2")
shift 2

# The machine has control groups of its own below those of this machine: in version 2, or in each hierarchy of version 1.
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then version=2 hierarchies=(/sys/fs/cgroup); else version=1 hierarchies=(/sys/fs/cgroup/*); fi
group=portolan-machine-$(basename "$folder")

start() {
	mkdir -p "$folder/files" "$folder/machine"
	# The shell that enters the groups becomes the machine, and they the roots of its groups.
	(
		for hierarchy in "${hierarchies[@]}"; do
			if [ -L "$hierarchy" ] || [ ! -e "$hierarchy/cgroup.procs" ]; then continue; fi
			mkdir "$hierarchy/$group"
			# A new group of this kind has no processor and no memory until it is told.
			for kind in cpus mems; do
				if [ -e "$hierarchy/cpuset.$kind" ]; then cat "$hierarchy/cpuset.$kind" >"$hierarchy/$group/cpuset.$kind"; fi
			done
			echo "$BASHPID" >"$hierarchy/$group/cgroup.procs"
		done
		exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child "$0" boot "$folder"
	) </dev/null >"$folder/console" 2>&1 &
	echo $! >"$folder/unshare"
	local i
	for ((i = 0; i < 600; i++)); do
		kill -0 "$(cat "$folder/unshare")" 2>/dev/null || break
		if pgrep -P "$(cat "$folder/unshare")" >"$folder/init" && enter systemctl is-active -q basic.target 2>/dev/null; then return; fi
		sleep 0.1
	done
	cat "$folder/console" >&2
	echo "the machine has not booted" >&2
	return 1
}

# boot runs in the new namespaces, and becomes process 1.
boot() {
	local root=$folder/machine/root
	mount -t tmpfs -o size=3g machine "$folder/machine"
	mkdir "$folder/machine/changes" "$folder/machine/work" "$root"
	mount -t overlay -o "lowerdir=/,upperdir=$folder/machine/changes,workdir=$folder/machine/work" overlay "$root"
	mount -t proc proc "$root/proc"
	mount -t tmpfs run "$root/run"
	mount -t tmpfs tmp "$root/tmp"
	mkdir -p "$root/srv"
	mount --bind "$folder/files" "$root/srv"
	devices "$root/dev"
	# All namespaces share the kernel's settings, except for the settings of the network.
	mount --bind "$root/proc/sys" "$root/proc/sys"
	mount --bind "$root/proc/sys/net" "$root/proc/sys/net"
	mount -o remount,bind,ro "$root/proc/sys"
	mount -t sysfs sys "$root/sys"
	control_groups "$root/sys/fs/cgroup"
	mount -o remount,ro "$root/sys"
	# The machine is a fresh one: no service of this machine is enabled, and nothing of Portolan is there.
	rm -rf "$root"/etc/systemd/system/*.wants "$root"/etc/portolan "$root"/var/{lib,log}/portolan "$root"/var/{lib,log}/private/portolan
	rm -f "$root/usr/sbin/policy-rc.d" # in images of containers it forbids packages to touch services
	echo n1 >"$root/etc/hostname"
	: >"$root/etc/machine-id"
	hostname n1
	ip link set lo up
	ip link add lan type veth peer name other-end
	ip link set other-end up
	ip address add 10.0.0.1/24 dev lan
	ip link set lan up
	ip route add default via 10.0.0.254
	# systemd mounts the credentials of a unit in a namespace of their own, from which they have to come into this one.
	mount --make-rshared "$root"
	exec env -i container=portolan PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot "$root" /lib/systemd/systemd --system --unit=basic.target
}

devices() {
	mount -t tmpfs -o mode=755 dev "$1"
	local node
	for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "$1/${node%:*}" c 1 "${node#*:}"; done
	mknod -m 666 "$1/tty" c 5 0
	mkdir "$1/shm" "$1/pts"
	mount -t tmpfs shm "$1/shm"
	mount -t devpts -o newinstance,ptmxmode=0666 pts "$1/pts"
	ln -s pts/ptmx "$1/ptmx"
	ln -s /proc/self/fd "$1/fd"
}

control_groups() {
	if [ "$version" = 2 ]; then
		mount -t cgroup2 cgroup2 "$1"
	else
		mount -t tmpfs -o mode=755 cgroup "$1"
		mkdir "$1/systemd"
		mount -t cgroup -o none,name=systemd cgroup "$1/systemd"
	fi
}

enter() { nsenter --target "$(cat "$folder/init")" --mount --pid --net --uts --ipc --cgroup --root --wdns=/srv -- "$@"; }

stop() {
	# The kernel ends all processes of the machine with its process 1.
	[ ! -s "$folder/init" ] || kill -KILL "$(cat "$folder/init")" 2>/dev/null || true
	local i
	for ((i = 0; i < 100; i++)); do
		if remove_groups 2>/dev/null; then return; fi
		sleep 0.1
	done
	remove_groups
}

# remove_groups removes the control groups from the inside out. It fails as long as one has processes.
remove_groups() {
	local hierarchy left=0
	for hierarchy in "${hierarchies[@]}"; do
		[ -L "$hierarchy" ] || [ ! -d "$hierarchy/$group" ] || find "$hierarchy/$group" -depth -type d -exec rmdir {} + || left=1
	done
	return "$left"
}

case $command in
start) start ;;
boot) boot ;;
run) enter "$@" ;;
stop) stop ;;
*) echo "usage: machine.sh start|run|stop FOLDER [ARG…]" >&2 && exit 2 ;;
esac
