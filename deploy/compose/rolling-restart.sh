#!/usr/bin/env bash
# Restarts every container, one after the other, in the order of an upgrade (docs/operations.md), while the client asks.
# node3 alone keeps its network: the client lives in it. BRIEF=1: one container of each kind.
. "$(dirname "$0")/lib.sh"

# With each restart, $allowed percent (5) of the attempts may be repeated.
restart() {
	local name
	for name; do
		if [ -n "${BRIEF:-}" ] && [[ $name =~ [2-9]$ ]]; then continue; fi
		tell "$name"
		stage
		quietly compose restart -t 20 "$name"
		await "health of $name" healthy "$name"
		passed 40 "${allowed:-5}"
	done
}

all_answer
say "Stores and transport"
restart postgres nats1 nats2 nats3
say "The control plane"
restart allocator1 allocator2 registry1 registry2 endpointctl1 endpointctl2 lbctl1 lbctl2 kubeapi1
say "The names"
# While a name server is down, a lookup that asks it first takes the second after which resolv.conf moves on to the other
# one. An attempt takes no longer than that, so it is repeated.
allowed=25 restart dnssvc1 dnssvc2
say "The nodes"
for n in 1 2 3; do
	if [ -n "${BRIEF:-}" ] && [ $n != 1 ]; then break; fi
	restart "agent$n"
	if [ $n != 3 ]; then restart "edge$n"; fi
	tell "web$n"
	stage
	quietly compose stop -t 20 "web$n"
	if [ $n != 3 ]; then
		tell "node$n"
		quietly compose stop -t 20 "agent$n" "edge$n"
		quietly compose restart -t 1 "node$n"
		quietly compose start "agent$n" "edge$n"
		await "health of agent$n" healthy "agent$n"
		await "health of edge$n" healthy "edge$n"
	fi
	quietly compose start "web$n"
	all_answer
	passed 40
done
say "Everything was restarted"
summary
