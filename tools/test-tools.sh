#!/usr/bin/env bash
# Installs what the tests drive besides Go code, where it can (root on Debian or a relative), or says what is missing.
# Quick when all is there. Without a part its tests are skipped and say so; with PORTOLAN_REQUIRE_REAL=1 that is an error.
set -euo pipefail

# A command that must be there, and the Debian package that has it.
needs=(
	"initdb postgresql"
	"nft nftables"
	"dig bind9-dnsutils"
	"curl curl"
)

# Where Debian keeps commands that are not on everybody's path.
PATH=$PATH:/usr/sbin:/sbin
for dir in /usr/lib/postgresql/*/bin; do PATH=$PATH:$dir; done

look() { # sets packages to those that are missing
	packages=()
	local need
	for need in "${needs[@]}"; do
		command -v "${need% *}" >/dev/null || packages+=("${need#* }")
	done
}

look
if [ ${#packages[@]} -gt 0 ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
	echo "installing for the tests: ${packages[*]}"
	export DEBIAN_FRONTEND=noninteractive
	if apt-get update -q; then apt-get install -q -y --no-install-recommends "${packages[@]}" || true; fi
	for dir in /usr/lib/postgresql/*/bin; do PATH=$PATH:$dir; done
	look
fi
[ ${#packages[@]} -gt 0 ] || exit 0

echo "missing for the tests (Debian package names): ${packages[*]}" >&2
echo "install with: sudo apt-get update && sudo apt-get install ${packages[*]}" >&2
echo "tests that need them are skipped until then" >&2
[ "${PORTOLAN_REQUIRE_REAL:-}" != 1 ]
