#!/usr/bin/env bash
# Kills and restarts a Kafka broker of its own under load: soak.sh [TIME], 1m without one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
RINGFENCE_SERVICES=$(mktemp -d)
export RINGFENCE_SERVICES
trap 'scripts/services stop kafka; rmdir "$RINGFENCE_SERVICES" 2>/dev/null || true' EXIT
eval "$(scripts/services start kafka)"
RINGFENCE_KAFKA_SOAK_URL=$RINGFENCE_KAFKA_URL RINGFENCE_KAFKA_SOAK_TIME=${1:-1m} \
	go test -count=1 -timeout 1h -run TestSoak -v ./commitlog/kafkalog
