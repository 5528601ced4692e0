#!/usr/bin/env bash
# Shows the stack at work: a service, its name, its virtual IP, traffic, and what is noticed when parts of it die.
# Exit code 0: no request failed from beginning to end.
. "$(dirname "$0")/lib.sh"

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
begin
last
portolan explain service web | sed -n '/nodes/,$p'

say "A backend is killed (kill -9)"
quietly compose kill -s KILL web2
mark
await "100 more requests" more_requests 100
no_failures
quietly compose start web2
all_answer
tell "it is back and has its share"

say "A whole node is killed: its agent, its backend, its network"
quietly compose kill -s KILL web2 agent2 node2
mark
await "300 more requests" more_requests 300
no_failures
quietly compose start node2
quietly compose start agent2 web2
all_answer
tell "it is back and has its share"

say "A registry is restarted, while services are written"
quietly compose restart registry1 &
restart=$!
for n in 1 2 3 4 5; do portolan apply -f - <<<"{apiVersion: v1, kind: Service, metadata: {name: written-$n}, spec: {ports: [{port: 80}]}}"; done
wait $restart
for n in 1 2 3 4 5; do portolan delete service "written-$n"; done
no_failures

say "Nothing was noticed"
last
