#!/usr/bin/env bash
# The whole stack from a fresh clone to its end, with nothing pulled. CI runs this if there is a Docker engine. Under make nightly
# Compose builds the images, in containers; the demonstration waits as long as for people; and every container is restarted.
export OFFLINE=1 COMPOSE_PROJECT_NAME=portolan-test PORTOLAN_TAG=test PROMETHEUS_PORT=
. "$(dirname "$0")/lib.sh"

deploy/images/build.sh standins
nightly=${PORTOLAN_NIGHTLY:-}
if [ -n "$nightly" ]; then deploy/images/build.sh compiler; else export BRIEF=1; fi
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
# A copy of the files that git knows, without anything that was built here. The checkout may belong to another user.
git -c safe.directory='*' ls-files -z | tar -c --null -T - | tar -x -C "$clone"
cd "$clone"
# An engine on another machine does not see the files that the stack mounts.
if ! docker run --rm -v "$PWD:/here:ro" --entrypoint /bin/busybox portolan/standin-nats:dev test -f /here/docker-compose.yml; then
	echo "the Docker engine does not see this folder: the stack was not tested"
	exit 0
fi

labelled=$COMPOSE_PROJECT_NAME-labelled # a container outside of the stack

# forget removes the images of the last run, so that Compose builds them. Their layers stay, and are its cache.
forget() { docker image ls -q --filter "reference=portolan/*:$PORTOLAN_TAG" | xargs -r docker image rm -f --no-prune >/dev/null; }
ended() {
	local code=$?
	[ $code = 0 ] || compose logs --no-color --tail=40
	docker rm -f "$labelled" >/dev/null 2>&1 || true
	deploy/compose/down.sh >/dev/null 2>&1
	forget
	rm -rf "$clone"
	exit $code
}
trap ended EXIT
forget

began=$SECONDS
if [ -n "$nightly" ]; then
	say "A fresh clone, without make and Go: Compose builds what it starts"
else
	say "A fresh clone, with images by the Go of this machine"
	deploy/images/build.sh ours
fi
DOCKER_BUILDKIT=0 deploy/compose/up.sh
tell "up after $((SECONDS - began)) s"
deploy/compose/demo.sh

say "A container with labels is a backend, by the registrar of the profile docker"
quietly compose --profile docker up -d registrar1
quietly docker run -d --name "$labelled" --network "${COMPOSE_PROJECT_NAME}_portolan" --label portolan.service=greeter --label portolan.port.http=8080 \
	"portolan/portolan:${PORTOLAN_TAG:-dev}" hello --port 8080
status() { portolan registrar status --registrar registrar1:7408; }
registered() { status | grep -q "default/greeter .*[^t] ready$"; }
await "the container among the endpoints" registered
status | grep greeter
quietly docker rm -f "$labelled"
unregistered() { status | grep -q "answers" && ! status | grep -q greeter; }
await "its end" unregistered

say "Prometheus, of the profile monitoring, scrapes every daemon"
quietly compose --profile monitoring up -d prometheus
targets=$(($(grep -o '"[a-z0-9]*:75[0-9]*"' deploy/prometheus/prometheus.yml | wc -l) + 1)) # and registrar1, by its name
scraped() {
	compose exec -T prometheus wget -qO- "http://127.0.0.1:9090/api/v1/query?query=count(up==1)" | grep -q "\"$targets\"\]"
}
await "the scraping of $targets targets" scraped
tell "$targets targets are up"

deploy/compose/rolling-restart.sh
say "The stack was built, up, shown, scraped and restarted within $((SECONDS - began)) s"
