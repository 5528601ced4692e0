#!/usr/bin/env bash
# Checks that the simulations find deliberate bugs. Each bug is a patch in faults/sim/testdata/bugs. The script
# applies the patch to copies of the files, and runs the simulation that the patch's first line names on the
# copies: for a minute, in one process per processor, each with different schedules. The simulation must fail.
# Arguments are names of bugs; the default is all bugs. SEED is the number of the first schedule. The table at
# the end has the time that each bug took. The script fails if a bug was not found, or if a patch no longer
# applies.
set -u -o pipefail
cd "$(dirname "$0")/.."
root=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
table=()

# overlay PATCH: applies the patch to copies, and writes the overlay file that makes the go command
# read the copies instead of the originals.
overlay() {
	local separator='' file
	printf '{"Replace": {' >"$work/overlay.json"
	for file in $(sed -n 's|^--- a/||p' "$1"); do
		mkdir -p "$work/$(dirname "$file")"
		cp "$file" "$work/$file" || return
		printf '%s"%s": "%s"' "$separator" "$root/$file" "$work/$file" >>"$work/overlay.json"
		separator=', '
	done
	printf '}}\n' >>"$work/overlay.json"
	(cd "$work" && git apply "$root/$1")
}

# search TEST: runs the simulation in all processes until one of them fails, and writes its output to
# $work/out.
search() {
	local pids=() n ended found=0 first=${SEED:-1}
	for ((n = 0; n < $(nproc); n++)); do
		(cd faults/sim && exec "$work/sim.test" -test.run "^$1\$" -for 1m -whole -seed $((first + n * 1000000))) >"$work/out.$n" &
		pids+=($!)
	done
	while [ ${#pids[@]} -gt 0 ]; do
		wait -n -p ended "${pids[@]}"
		found=$?
		for n in "${!pids[@]}"; do
			[ "${pids[n]}" != "$ended" ] || break
		done
		unset "pids[n]"
		[ $found = 0 ] || break
	done
	kill "${pids[@]}" 2>/dev/null
	wait
	mv "$work/out.$n" "$work/out"
	return $((found == 0))
}

# note BUG TEST SCHEDULES TIME SEED: adds a line to the table, and prints it.
note() {
	table+=("$(printf '| %-34s | %-14s | %9s | %8s | %8s |' "$@")")
	echo "${table[-1]}"
}

failed() {
	note "$@"
	failures=$((failures + 1))
}

for bug in "${@:-*}"; do
	for patch in faults/sim/testdata/bugs/$bug.patch; do
		name=$(basename "$patch" .patch)
		if ! overlay "$patch"; then
			failed "$name" "PATCH NO LONGER FITS, write it anew" - - -
			continue
		fi
		test=$(sed -n '1s/:.*//p' "$patch")
		if ! go test -c -o "$work/sim.test" -overlay "$work/overlay.json" ./faults/sim; then
			failed "$name" "DOES NOT COMPILE" - - -
		elif ! search "$test"; then
			failed "$name" "NOT FOUND by $test" - "> 1m" -
		elif read -r schedules took seed < <(sed -n 's/.*after \([0-9]*\) schedules in \(.*\), seed \([0-9]*\) fails:.*/\1 \2 \3/p' "$work/out"); then
			note "$name" "$test" "$schedules" "$took" "$seed"
		else
			cat "$work/out"
			failed "$name" "$test PANICS" - - -
		fi
	done
done
echo
echo '| bug | found by | schedules | time | seed |'
echo '|---|---|--:|--:|--:|'
printf '%s\n' "${table[@]}"
exit $((failures > 0))
