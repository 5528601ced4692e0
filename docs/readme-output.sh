#!/usr/bin/env bash
# Runs the example of `make run` in a network namespace of its own, and writes its output and the output of portolan into
# README.md: into the block after each line <!-- output: NAME -->. Needs Go, iproute2 and
# unshare (util-linux).
#
#	docs/readme-output.sh
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# In the namespace: the ports of an installation that runs on this machine are free.
if [ "${1:-}" = inside ]; then
	ip link set lo up
	cd "$2"
	bin/portolan dev --example examples/hello >run.txt 2>&1 &
	dev=$!
	trap 'kill "$dev" 2>/dev/null; wait "$dev" 2>/dev/null || true' EXIT
	# The explanation is whole once the name server and the node have the service.
	for _ in $(seq 120); do
		if bin/portolan explain service hello 2>/dev/null | grep -q "no link is broken"; then break; fi
		sleep 0.5
	done
	grep -q "portolan ready" run.txt || { cat run.txt >&2; exit 1; }
	bin/portolan explain service hello >explain.txt
	# The folder of a user's clone stands in place of this one, and two long lines are left out.
	sed -i -e "s#$2/##g" -e '/^  TOKEN=/d' -e '/^names for/d' run.txt
	exit
fi

go build -o bin/ ./portolan/cmd/portolan
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
ln -s "$root/bin" "$root/examples" "$work"
isolate=(unshare --net)
if [ "$(id -u)" != 0 ]; then isolate=(unshare --user --map-root-user --net); fi
"${isolate[@]}" "$root/docs/readme-output.sh" inside "$work"

# write NAME COMMAND replaces the block after the line <!-- output: NAME -->.
write() {
	awk -v name="$1" -v command="$2" -v file="$work/$1.txt" '
		skipping && /^```$/ { skipping = 0 }
		skipping { next }
		{ print }
		$0 == "<!-- output: " name " -->" { armed = 1 }
		armed && /^```console$/ {
			print "$ " command
			while ((getline line < file) > 0) print line
			armed = 0; skipping = 1
		}' README.md >"$work/README.md"
	cat "$work/README.md" >README.md
}
write run "make run"
write explain "bin/portolan explain service hello"
