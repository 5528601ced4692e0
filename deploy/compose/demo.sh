#!/usr/bin/env bash
# Shows the stack at work: a service, its name, its virtual IP, traffic, and what is noticed when parts of it die.
# Exit code 0: each stage had new requests, none of them failed, and few attempts were repeated.
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
quietly compose kill -s KILL web2 agent2 node2
passed 600 30 # until the node's heartbeats are missed for 10 s
quietly compose start node2
quietly compose start agent2 web2
all_answer
tell "it is back and has its share"

say "A registry is restarted, while services are written"
stage
quietly compose restart registry1 &
restart=$!
for n in 1 2 3 4 5; do portolan apply -f - <<<"{apiVersion: v1, kind: Service, metadata: {name: written-$n}, spec: {ports: [{port: 80}]}}"; done
wait $restart
for n in 1 2 3 4 5; do portolan delete service "written-$n"; done
passed 100

say "Nothing was noticed"
summary
