#!/usr/bin/env bash
# Stops the stack and deletes its data.
. "$(dirname "$0")/lib.sh"

compose --profile monitoring --profile docker down -v --remove-orphans -t 2
