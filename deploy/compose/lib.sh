# Functions of the scripts beside this file. The scripts drive the stack of docker-compose.yml. Its container `client` asks the
# service for its name, on a new connection each time, and prints a report every second. The container `visitor`
# does the same at the address of a load balancer.
set -euo pipefail
shopt -s inherit_errexit # a failure inside $(…) is one too
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

export COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME:-portolan}

# Compose as the engine's plugin, or the older program of its own. COMPOSE is the path of another program.
if [ -n "${COMPOSE:-}" ]; then
	compose=("$COMPOSE")
elif docker compose version >/dev/null 2>&1; then
	compose=(docker compose)
else
	compose=(docker-compose)
fi
compose() { "${compose[@]}" "$@"; }

# OFFLINE=1: with stand-ins for the images that are not ours.
if [ "${OFFLINE:-}" = 1 ]; then
	export POSTGRES_IMAGE=${POSTGRES_IMAGE:-portolan/standin-postgres:dev} NATS_IMAGE=${NATS_IMAGE:-portolan/standin-nats:dev}
	export GO_IMAGE=${GO_IMAGE:-portolan/standin-go:dev} PROMETHEUS_IMAGE=${PROMETHEUS_IMAGE:-portolan/standin-prometheus:dev}
fi

say() { printf '\n== %s\n' "$*"; }
tell() { printf '   %s\n' "$*"; }
die() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

# quietly runs a command, and prints its output only if it fails.
quietly() {
	local out
	out=$("$@" 2>&1) || { printf '%s\n' "$out" >&2; die "$*"; }
}

# portolan is the command line, in the operator's container.
portolan() { compose exec -T operator portolan "$@"; }

# patience is how many seconds anything may take before it counts as broken.
patience=${PATIENCE:-120}

# await waits until a command succeeds.
await() {
	local what=$1 deadline=$((SECONDS + patience))
	shift
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $deadline ] || { report >&2 || true; die "$what did not come about within $patience seconds"; }
		sleep 0.5
	done
}

# healthy succeeds when a container's health check does.
healthy() { [ "$(docker inspect -f '{{.State.Health.Status}}' "$(compose ps -aq "$1")")" = healthy ]; }

# report prints the last report of the client that $asker names. It fails if there is none, because without a report it is
# unknown whether requests failed.
asker=client
report() { compose logs --no-color --no-log-prefix --tail=1 "$asker" 2>/dev/null | grep "^{"; }

# field REPORT NAME prints a number of a report, and ends the script if the report lacks it.
field() {
	sed -n 's/.*"'"$2"'":\([0-9]\+\).*/\1/p' <<<"$1" | grep . || die "the client's report has no $2: ${1:-it reports nothing}"
}

# since NAME prints how much a number has grown since the stage began.
since() {
	local old new
	old=$(field "$began" "$1") || return 1
	new=$(field "$now" "$1") || return 1
	echo $((new - old))
}

# A stage counts from the report at its beginning, in which no request is being repeated: a request that began before the stage
# must not fail in it. First the script changes the stack, for example kills a container; then
# passed REQUESTS [PERCENT] waits for that many new requests, and ends the script if one failed, or if more than PERCENT (5)
# attempts were repeated for a hundred requests.
stage() {
	await "a report of the $asker" report
	await "the end of earlier requests" settled
	: "${first:=$began}"
}
settled() { began=$(report) && [ "$(field "$began" retrying)" = 0 ]; }
more_requests() {
	now=$(report) && [ "$(since asked)" -ge "$1" ]
}
passed() {
	local asked failed repeated
	await "$1 new requests" more_requests "$1"
	now=$(report) || die "the client reports nothing"
	asked=$(since asked)
	failed=$(since failed)
	repeated=$(since retried)
	[ "$asked" -ge "$1" ] || die "the client began to count anew: $now"
	tell "$asked requests, $failed failed, $(percent "$repeated" "$asked") of the attempts repeated ($repeated)"
	[ "$failed" = 0 ] || die "requests failed: $now"
	[ $((repeated * 100)) -le $((asked * ${2:-5})) ] || die "more than ${2:-5} % of the attempts were repeated: $now"
	sum_asked=$((sum_asked + asked)) sum_repeated=$((sum_repeated + repeated))
}
percent() { printf '%d.%d %%' $(($1 * 100 / $2)) $(($1 * 1000 / $2 % 10)); }

# summary prints the counts of all stages, and the failures in the client's own report. That report begins with the client,
# which asks before there is a service.
first="" sum_asked=0 sum_repeated=0
summary() {
	local failed early
	tell "$sum_asked requests in all stages, 0 failed, $(percent $sum_repeated $sum_asked) of the attempts repeated ($sum_repeated)"
	now=$(report) || die "the client reports nothing"
	failed=$(field "$now" failed)
	early=$(field "$first" failed)
	tell "the client's own report counts from its start: $failed of $(field "$now" asked) requests failed, $early of them before the" \
		"first stage, until the service had its backends, and $((failed - early)) between stages"
}

# all_answer waits until each backend has answered more requests than at the call. A backend that never answered is not in
# the report.
answered() { sed -n 's/.*"hello from '"$2"'":\([0-9]\+\).*/\1/p' <<<"$1" | grep . || echo 0; }
answers() {
	now=$(report) && [ "$(answered "$now" "$1")" -gt "$(answered "$before" "$1")" ]
}
all_answer() {
	local before n
	await "a report of the client" report
	before=$(report)
	for n in 1 2 3; do await "an answer of web-$n" answers "web-$n"; done
}
