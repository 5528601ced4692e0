#!/usr/bin/env bash
# Puts each deliberate bug of faults/sim/testdata/bugs into copies of the files that it concerns, and runs the simulation that
# the patch's first line names on the copies, for a minute. The simulation must fail. Arguments are names of bugs; without any
# all are tried.
set -eu -o pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# overlay PATCH: applies the patch to copies, and writes the file by which the go command reads the copies instead.
overlay() {
	local separator='' file
	printf '{"Replace": {' >"$work/overlay.json"
	for file in $(sed -n 's|^--- a/||p' "$1"); do
		mkdir -p "$work/$(dirname "$file")"
		cp "$file" "$work/$file"
		printf '%s"%s": "%s"' "$separator" "$root/$file" "$work/$file" >>"$work/overlay.json"
		separator=', '
	done
	printf '}}\n' >>"$work/overlay.json"
	(cd "$work" && git apply "$root/$1") || { echo "$1 does not fit the code any more: write it anew"; exit 1; }
}

missed=0
for bug in "${@:-faults/sim/testdata/bugs/*.patch}"; do
	for patch in $([[ $bug == */* ]] && echo $bug || echo "faults/sim/testdata/bugs/$bug.patch"); do
		name=$(basename "$patch" .patch)
		test=$(sed -n '1s/:.*//p' "$patch")
		overlay "$patch"
		go test -c -o "$work/sim.test" -overlay "$work/overlay.json" ./faults/sim
		if (cd faults/sim && "$work/sim.test" -test.run "^$test\$" -for 1m -whole) >"$work/out"; then
			echo "$name: NOT FOUND by $test within a minute"
			missed=$((missed + 1))
		else
			grep -q -- "--- FAIL: $test" "$work/out" || { cat "$work/out"; exit 1; }
			echo "$name: found by $test $(sed -n 's/.*\(after .* seed [0-9]*\) fails:.*/\1/p' "$work/out")"
		fi
	done
done
exit "$missed"
