#!/usr/bin/env bash
# Runs targets of the Makefile one after the other, stops at the first one that fails, and ends with a table of their seconds.
#
#	tools/phases.sh TARGET…
set -uo pipefail

SECONDS=0 failed=
table=$(printf '%-20s %8s' phase seconds)
for target in "$@"; do
	echo "== $target"
	began=$SECONDS
	"${MAKE:-make}" --no-print-directory "$target" || failed=FAILED
	table+=$(printf '\n%-20s %8d  %s' "$target" $((SECONDS - began)) "$failed")
	[ -z "$failed" ] || break
done
printf '\n%s\n%-20s %8d\n' "$table" all "$SECONDS"
[ -z "$failed" ]
