#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, stops at the first one that fails, and ends with a table of their seconds.
#
#	tools/phases.sh TARGET…
set -uo pipefail

table=()
finish() {
	printf '\n%-20s %8s\n' phase seconds
	printf '%s\n' "${table[@]}"
	printf '%-20s %8d\n' all "$SECONDS"
}

SECONDS=0
for target in "$@"; do
	echo "== $target"
	began=$SECONDS
	if "${MAKE:-make}" --no-print-directory "$target"; then
		table+=("$(printf '%-20s %8d' "$target" $((SECONDS - began)))")
	else
		table+=("$(printf '%-20s %8d  FAILED' "$target" $((SECONDS - began)))")
		finish
		exit 1
	fi
done
finish
