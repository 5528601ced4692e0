#!/usr/bin/env bash
# Shows the stack at work: a service, its name, its virtual IP, traffic, and the effect on clients when parts of it die.
# Exit code 0: each stage had new requests, none of them failed, and few attempts were repeated. BRIEF=1: allocators are away
# for a shorter time.
. "$(dirname "$0")/lib.sh"

away=$([ -n "${BRIEF:-}" ] && echo 10 || echo 30) # seconds

# write_for SECONDS PAUSE creates services for that long, with a pause after each. The script ends if one cannot be created.
written=()
write_for() {
	local until=$((SECONDS + $1)) before=${#written[@]} name
	while [ $SECONDS -lt "$until" ]; do
		name=written-${#written[@]}
		quietly portolan apply -f - <<<"{apiVersion: v1, kind: Service, metadata: {name: $name}, spec: {ports: [{port: 80}]}}"
		written+=("$name")
		sleep "$2"
	done
	tell "$((${#written[@]} - before)) services were created"
}

say "A service, registered by a manifest"
portolan apply -f - <<'YAML'
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
YAML
portolan wait service/web --applied --timeout 60s

say "It has a virtual IP and a name"
portolan get services
await "the name" portolan dns query web
portolan dns query web

say "Its three backends, on three nodes, share the traffic"
all_answer
stage
passed 100
portolan explain service web | sed -n '/nodes/,$p'

say "A backend is killed (kill -9)"
stage
quietly compose kill -s KILL web2
passed 400 15 # until its probe fails, a third of the attempts are refused
quietly compose start web2
all_answer
tell "it is back and has its share"

say "A whole node is killed: its agent, its backend, its network"
stage
quietly compose kill -s KILL web2 agent2 edge2 node2
passed 600 30 # until the node's heartbeats are missed for 10 s
quietly compose start node2
quietly compose start agent2 edge2 web2
all_answer
tell "it is back and has its share"

say "A load balancer has an address of the machines' own network, for those that know nothing of Portolan"
address=10.89.77.241
portolan pool create outside --use load-balancer-ip --range 10.89.77.240/29
portolan apply -f - <<YAML
apiVersion: v1
kind: Service
metadata:
  name: web-outside
  annotations: {loadbalancer.portolan.dev/ips: $address}
spec:
  type: LoadBalancer
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
YAML
# announcer prints the node that answers for the address of $balancer, and fails if there is none.
balancer=web-outside
announcer() { portolan get service "$balancer" -o yaml | sed -n "s/.*node \(node[0-9]*\) announces $address.*/\1/p" | grep .; }
await "a node that announces $address" announcer
portolan get services
asker=visitor
answers_visitor() { [ "$(answered "$(report)" web-1)" -gt 0 ]; }
await "an answer to the visitor" answers_visitor
stage
passed 100

owner=$(announcer)
say "$owner, which announces the address, is gone: first its network, then all that runs on it"
other() { [ "$(announcer)" != "$owner" ]; }
stage
quietly docker network disconnect -f "${COMPOSE_PROJECT_NAME}_portolan" "$(compose ps -aq "$owner")"
quietly compose kill -s KILL "${owner/node/web}" "${owner/node/agent}" "${owner/node/edge}" "$owner"
passed 600 40 # until another node announces the address
await "another node that announces $address" other
tell "$(announcer) announces the address"
quietly docker network connect --ip "10.89.77.10${owner#node}" --alias "$owner" "${COMPOSE_PROJECT_NAME}_portolan" "$(compose ps -aq "$owner")"
quietly compose start "$owner"
quietly compose start "${owner/node/agent}" "${owner/node/edge}" "${owner/node/web}"
asker=client
all_answer
tell "it is back and has its share"

say "The address is now served by edges: proxies on node1 and node2 that read HTTP and ask the backends themselves"
quietly portolan delete service web-outside
portolan apply -f - <<YAML
apiVersion: v1
kind: Service
metadata:
  name: web-edge
  annotations: {loadbalancer.portolan.dev/ips: $address, loadbalancer.portolan.dev/backend-protocol: http}
spec:
  type: LoadBalancer
  loadBalancerClass: portolan.dev/edge
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http}]
YAML
balancer=web-edge
await "a node whose edge serves $address" announcer
asker=visitor
all_answer
stage
passed 100
owner=$(announcer)
portolan edge status web-edge --edge "$owner:7407"

say "The edge on $owner, which announces the address, is killed (kill -9)"
stage
quietly compose kill -s KILL "${owner/node/edge}"
passed 300 10 # requests in progress, and those until the other node announces the address
await "another node that announces $address" other
tell "$(announcer) announces the address"
quietly compose start "${owner/node/edge}"
await "health of ${owner/node/edge}" healthy "${owner/node/edge}"
asker=client

say "A registry is restarted, while services are written"
stage
quietly compose restart registry1 &
restart=$!
write_for 5 0
wait $restart
passed 100

say "An allocator is killed and away for $away seconds, while services are written; then the other"
stage
for n in 1 2; do
	quietly compose kill -s KILL "allocator$n"
	write_for "$away" 0.5
	quietly compose start "allocator$n"
	await "health of allocator$n" healthy "allocator$n"
done
passed 100

say "Both allocators are away for $away seconds: each registry has at least 16 addresses at hand"
stage
quietly compose kill -s KILL allocator1 allocator2
write_for "$away" 2.5
quietly compose start allocator1 allocator2
for n in 1 2; do await "health of allocator$n" healthy "allocator$n"; done
passed 100
quietly portolan delete service "${written[@]}"
tell "the ${#written[@]} services were deleted"

say "Nothing was noticed"
summary
