#!/usr/bin/env bash
# Installs, upgrades, removes and purges the packages on a machine of its own (see machine.sh), by the blocks of
# docs/packages.md.
#
#	test.sh RELEASE DAEMONS
#
# RELEASE is the program of tools/release, and DAEMONS is the list of the daemons to package. Both versions are made here: the
# next one comes from a copy of the sources in which registry.yaml has another text.
# shellcheck disable=SC2016 # the text in single quotes is for the shell of the machine
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(realpath "$here/../..")
manual=$root/docs/packages.md
release=$1
read -ra packaged <<<"$2"

fail() { echo "test-packages: $*" >&2 && exit 1; }

for need in unshare nsenter systemd-analyze nats-server dig curl shellcheck git; do
	command -v "$need" >/dev/null || fail "$need is missing; tools/test-tools.sh installs what is needed"
done
[ "$(id -u)" = 0 ] || fail "only root can boot a machine: run it as root"
grep -q overlay /proc/filesystems || modprobe -q overlay || fail "this kernel has no overlayfs"

for script in "$here"/*/*; do sh -n "$script"; done
shellcheck "$here"/*.sh "$here"/*/*

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/files/next" "$folder/sources"

# make_packages makes the packages of a version for this machine from a folder of sources.
make_packages() {
	local sources=$1 version=$2 daemons=$3 to=$4
	"$release" packages -root "$sources" -version "$version" -daemons "$daemons" -arch "$(dpkg --print-architecture)" -out "$folder/made"
	mv "$folder"/made/portolan*_"$version"_*.deb "$to"
}
make_packages "$root" 1.0.0 "$2" "$folder/files"
(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents -P -t "$folder/sources")
sed -i '1i # The settings of the next version.' "$folder/sources/deploy/systemd/etc/registry.yaml"
SOURCE_DATE_EPOCH=$(date +%s) make_packages "$folder/sources" 1.0.1 registry "$folder/files/next"
# Debian 12 has a NATS server that is too old. The test installs Debian's package, as the manual says, with the program that
# the other tests use.
(cd "$root/portolan" && GOWORK=off go build -o "$folder/files/nats-server" github.com/nats-io/nats-server/v2)

machine() { "$here/machine.sh" run "$folder" "$@"; }
finish() {
	local code=$?
	[ "$code" = 0 ] || machine journalctl --no-pager -q -n 200 >&2 || cat "$folder/console" >&2
	"$here/machine.sh" stop "$folder" || code=1
	rm -rf "$folder"
	exit "$code"
}
trap finish EXIT

# follow runs the blocks of a section of the manual, as one script per section. Exported variables go to the next one.
follow() {
	echo "== $1"
	awk -v section="## $1" '
		/^## / { inside = $0 == section }
		/^```/ { block = inside && $0 == "```sh"; next }
		block  { print }' "$manual" >"$folder/files/section"
	[ -s "$folder/files/section" ] || fail "docs/packages.md has no section $1 with a block marked sh"
	machine env DEBIAN_FRONTEND=noninteractive HOME=/root timeout 120 bash -euo pipefail -c \
		'[ ! -f .exported ] || . ./.exported; PS4="+ "; set -x; . ./section; set +x; cd /srv; export -p >.exported' \
		</dev/null >"$folder/output" 2>&1 || { cat "$folder/output" >&2 && fail "the section $1 of docs/packages.md fails"; }
	grep '^+' "$folder/output"
	followed+=("$1")
}
followed=()

# expect runs a check in the machine; it fails with the check's own words.
expect() { machine bash -c "$1" >"$folder/output" 2>&1 || { cat "$folder/output" >&2 && fail "not so: $1"; }; }

daemons=(registry allocator endpointctl dnssvc nodeagent)
"$here/machine.sh" start "$folder"
machine install /srv/nats-server /usr/sbin/nats-server

follow Install
machine bash -c 'apt-get install -y /srv/portolan*.deb' >"$folder/output" 2>&1 || { cat "$folder/output" >&2 && fail "not all packages can be installed"; }
for daemon in "${packaged[@]}"; do
	expect "! systemctl is-enabled portolan-$daemon && ! systemctl is-active portolan-$daemon"
	expect "[ -s /usr/share/man/man8/$daemon.8.gz ] && [ -s /etc/portolan/$daemon.yaml ]"
	[ "$daemon" = nodeagent ] || expect "getent passwd portolan-$daemon"
done
expect "systemd-analyze verify $(printf 'portolan-%s.service ' "${packaged[@]}")"
expect '[ "$(stat -c %a:%U /etc/portolan/tls)" = 700:root ]'
expect 'dpkg --verify portolan portolan-common portolan-registry | grep . && exit 1 || true'
expect '. /usr/share/bash-completion/completions/portolan && complete -p portolan'

follow Configure
follow Start
for daemon in "${daemons[@]}"; do
	expect "systemctl is-active portolan-$daemon && systemctl is-enabled portolan-$daemon"
	[ "$daemon" = nodeagent ] || expect "[ \"\$(ps -o user:40= -p \$(systemctl show -P MainPID portolan-$daemon))\" = portolan-$daemon ]"
done
expect 'systemctl show -P MainPID portolan-registry >/srv/before; systemctl show -P MainPID portolan-dnssvc >/srv/other'
expect 'sed -i "s/^# Where it keeps.*/# The line of an administrator./" /etc/portolan/registry.yaml; sha256sum /etc/portolan/registry.yaml >/srv/settings'
expect 'systemctl stop portolan-allocator'

follow Upgrade
expect 'sha256sum -c /srv/settings && [ -e /etc/portolan/registry.yaml.dpkg-dist ]'
expect '[ "$(systemctl show -P MainPID portolan-registry)" != "$(cat /srv/before)" ] && systemctl is-active portolan-registry'
expect '[ "$(systemctl show -P MainPID portolan-dnssvc)" = "$(cat /srv/other)" ]'
expect '! systemctl is-active portolan-allocator && systemctl is-enabled portolan-allocator'
expect 'portolan version --client | grep -F "$(dpkg-query -W -f "\${Version}" portolan-registry)"'

follow Remove
for daemon in "${packaged[@]}"; do
	expect "! systemctl is-active portolan-$daemon && [ ! -e /usr/bin/$daemon ] && [ ! -e /etc/portolan/$daemon.yaml ]"
	expect "[ ! -e /var/lib/portolan/$daemon ] && [ ! -e /var/lib/private/portolan/$daemon ] && [ ! -e /var/log/portolan ]"
done
expect '[ -s /etc/portolan/tls/registry.key ] && [ -s /etc/portolan/store ]'
expect '! ls /etc/systemd/system/multi-user.target.wants | grep portolan'
expect '! dpkg -l "portolan*" 2>/dev/null | grep "^[a-z][a-z] .*portolan" | grep -v "^un"'

written=$(awk '/^## / { section = substr($0, 4) } $0 == "```sh" { print section }' "$manual" | uniq)
[ "$written" = "$(printf '%s\n' "${followed[@]}")" ] || fail "docs/packages.md has sections with blocks marked sh that this test does not follow, or in another order: $written"
echo "packages were installed, started, upgraded, removed and purged"
