# What the scripts beside this file share. They drive the stack of docker-compose.yml, of which the container `client`
# asks the service for its name, on a new connection each time, and says every second how it went.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-portolan}

# Compose as the engine's plugin, or the older program of its own.
if docker compose version >/dev/null 2>&1; then
	compose=(docker compose)
else
	compose=(docker-compose)
fi
compose() { "${compose[@]}" "$@"; }

# OFFLINE=1: with stand-ins for the images that are not ours.
if [ "${OFFLINE:-}" = 1 ]; then
	export POSTGRES_IMAGE=${POSTGRES_IMAGE:-portolan/standin-postgres:dev} NATS_IMAGE=${NATS_IMAGE:-portolan/standin-nats:dev}
fi

say() { printf '\n== %s\n' "$*"; }
tell() { printf '   %s\n' "$*"; }
die() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

# quietly runs a command whose output matters only when it fails.
quietly() {
	local out
	out=$("$@" 2>&1) || { printf '%s\n' "$out" >&2; die "$*"; }
}

# portolan is the command line, in the client's container.
portolan() { compose exec -T client portolan "$@"; }

# last is the client's last report, count NAME its field of that name, or 0.
last() { compose logs --no-color --no-log-prefix --tail=1 client 2>/dev/null | grep "^{"; }
count() { last | sed -n 's/.*"'"$1"'":\([0-9]\+\).*/\1/p' | grep . || echo 0; }

# await waits until a command succeeds, at most two minutes.
await() {
	local what=$1 deadline=$((SECONDS + 120))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $deadline ] || { last >&2; die "$what did not come about within two minutes"; }
		sleep 0.5
	done
}

# answers succeeds once a backend answers more requests than it had when `mark` was called.
mark() { marked=$(last); }
of_mark() { printf '%s' "$marked" | sed -n 's/.*"hello from '"$1"'":\([0-9]\+\).*/\1/p' | grep . || echo 0; }
answers() { [ "$(count "hello from $1")" -gt "$(of_mark "$1")" ]; }
more_requests() { [ "$(count asked)" -ge $(($(printf '%s' "$marked" | sed -n 's/.*"asked":\([0-9]\+\).*/\1/p') + $1)) ]; }
all_answer() {
	mark
	local n
	for n in 1 2 3; do await "an answer of web-$n" answers "web-$n"; done
}

# no_failures says how the client fared since `begin`, and ends the script where a request failed.
begin() {
	failed_before=$(count failed)
	retried_before=$(count retried)
	asked_before=$(count asked)
}
no_failures() {
	local failed=$(($(count failed) - failed_before))
	tell "$(($(count asked) - asked_before)) requests so far, $failed failed, $(($(count retried) - retried_before)) attempts repeated"
	[ "$failed" = 0 ] || { last >&2; die "requests failed"; }
}
