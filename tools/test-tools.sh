#!/usr/bin/env bash
# Installs the programs and the kernel that the tests need, if it can (as root on Debian or a
# derivative), or lists the missing ones. It is quick if nothing is missing. Tests that need a missing
# program are skipped with a message; with PORTOLAN_REQUIRE_REAL=1 a missing program is an error.
set -euo pipefail

# Each line is a required command and the Debian package that contains it.
needs=(
	"initdb postgresql"
	"nft nftables"
	"ipvsadm ipvsadm"
	"dig bind9-dnsutils"
	"curl curl"
	"jq jq"
	"openssl openssl"
	"nsd nsd"
	"bird bird2"
	"promtool prometheus"
	"systemd-analyze systemd"
	"dbus-daemon dbus-daemon"
	"nats-server nats-server"
	"shellcheck shellcheck"
	"kubectl kubernetes-client"
	"haproxy haproxy"
	"nginx nginx"
	"qemu-system-x86_64 qemu-system-x86"
	"busybox busybox-static"
)

# Directories of Debian's commands that are not on the path of normal users.
PATH=$PATH:/usr/sbin:/sbin
for dir in /usr/lib/postgresql/*/bin; do PATH=$PATH:$dir; done

look() { # sets packages to the missing packages
	packages=()
	local need
	for need in "${needs[@]}"; do
		command -v "${need% *}" >/dev/null || packages+=("${need#* }")
	done
}

# The kernel that the kernel tests boot: a stock kernel of Debian, which is unpacked into the user's
# cache and never installed.
kernel=${PORTOLAN_TEST_KERNEL:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/portolan/kernel}

have_kernel() { compgen -G "$kernel/boot/vmlinuz-*" >/dev/null; }

fetch_kernel() {
	local package dir
	dir=$(mktemp -d)
	package=$(apt-cache depends linux-image-cloud-amd64 2>/dev/null | awk '/Depends: linux-image-[0-9]/ {print $2; exit}')
	if [ -n "$package" ] && (cd "$dir" && apt-get download -q "$package" && dpkg -x ./*.deb tree) >&2; then
		mkdir -p "$(dirname "$kernel")"
		rm -rf "$kernel.new"
		mkdir "$kernel.new"
		mv "$dir/tree/boot" "$dir/tree/lib" "$kernel.new"
		mv -T "$kernel.new" "$kernel" # atomic: an incomplete kernel is never found
	fi
	rm -rf "$dir"
}

look
if [ ${#packages[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "installing for the tests: ${packages[*]}"
	missing=" ${packages[*]} "
	export DEBIAN_FRONTEND=noninteractive
	if apt-get update -q; then apt-get install -q -y --no-install-recommends "${packages[@]}" || true; fi
	for dir in /usr/lib/postgresql/*/bin; do PATH=$PATH:$dir; done
	# The tests start these themselves. As services nginx would take port 80 of all addresses, and NATS its own.
	for service in haproxy nginx nats-server; do
		if [ -d /run/systemd/system ] && [[ $missing == *" $service "* ]]; then systemctl disable -q --now "$service" || true; fi
	done
	look
fi
if [ "$(uname -m)" = x86_64 ] && ! have_kernel && command -v apt-get >/dev/null && command -v dpkg >/dev/null; then
	echo "fetching a kernel for the kernel tests"
	if ! apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then apt-get update -q || true; fi
	fetch_kernel || true
	# An outdated package list may name a kernel that the server no longer has.
	if ! have_kernel && [ "$(id -u)" = 0 ]; then apt-get update -q && fetch_kernel || true; fi
fi

have_kernel || echo "missing for the tests: a kernel in $kernel (the unpacked package that linux-image-cloud-amd64 of Debian depends on)" >&2
[ ${#packages[@]} -eq 0 ] || {
	echo "missing for the tests (Debian package names): ${packages[*]}" >&2
	echo "install with: sudo apt-get update && sudo apt-get install ${packages[*]}" >&2
}
if [ ${#packages[@]} -eq 0 ] && have_kernel; then exit 0; fi
echo "tests that need them are skipped until then" >&2
[ "${PORTOLAN_REQUIRE_REAL:-}" != 1 ]
