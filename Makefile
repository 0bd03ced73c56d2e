# Ringfence. `make` lists the targets; `make demo` and `make test` are all a newcomer needs.

GO            ?= go
TAGS          := grpcnotrace
BIN           := bin
TEST_FLAGS    ?= -timeout 10m -p 4
PACKAGES      ?= ./...
GOLANGCI_VERSION := v2.14.0
GOLANGCI      := $(BIN)/golangci-lint-$(GOLANGCI_VERSION)
GREMLINS      := github.com/go-gremlins/gremlins/cmd/gremlins@v0.6.0
SURVEY        ?= assign dispatch group/core subscription/core
LICENSES_VERSION := v1.6.0
LICENSES      := $(BIN)/go-licenses-$(LICENSES_VERSION)

# The folders that hold a go.mod: the main module, and the ones that keep heavy clients out of it.
MODULES := $(sort $(patsubst ./%,%,$(patsubst %/,%,$(dir $(shell find . -name go.mod -not -path '*/testdata/*' -not -path './$(BIN)/*')))))

# The packages that people work on most, with stores in memory.
CORE := ./assign ./commitlog ./commitlog/memlog ./consumer ./dispatch ./group/... ./registry ./registry/memregistry ./subscription/... ./topic

# The packages that are not run as a whole under the race detector: they search many histories or crashes
# in one goroutine (the detector takes 19 GB for those of page), or mostly start programs. `make race` runs
# a sample of some of them.
UNRACED := /(sim|crash|page|archtest|cli|doctest|nemesis|back|mutants)$$

# Pulsar's client has data races of its own where it connects again or the broker ends a topic:
# tests that make it do so can't run under the detector.
RACE_PULSAR  := TestConformance$$/^(Append|Read|Wait|Topics|Close|Trim)$$|TestAFeed|TestOffsets|TestAMessageID|TestATopicThat|TestASealedPartitionEnds|TestAnEndThat|TestADamagedHold|TestASender|TestWhatWaited|TestURLs|TestTheHosts|TestOnlyTheClusters|TestAHostThat|TestASlowHost|TestATokenFollows|TestABrokerThatIsNot|Fuzz
RACE_CRASHES := Killed|Stopped|RaceToRecover|TestPowerLossAtEveryOperation/seed=0
RACE_STORMS  := TestPromisesAreKeptThroughFaults/(file|postgres)$$

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

# each,COMMAND runs COMMAND in every module, and names the module first.
define each
for m in $(MODULES); do echo "== $$m"; ( cd $$m && $(1) ) || exit 1; done
endef

# served,COMMAND runs COMMAND with the URLs of the servers that run.
served = env=$$(scripts/services env); eval "$$env"; $(1)

# raced,FLAGS,PACKAGES runs tests under the race detector.
raced = CGO_ENABLED=1 $(GO) test -race -tags $(TAGS) $(TEST_FLAGS) $(1) $(2)

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: toolchain ## Two stories with real processes and a real kill -9: consumers, and deliveries; they check themselves
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags $(TAGS) -o $(BIN)/ringfence-embedded ./cmd/ringfence-embedded
	$(BIN)/ringfence-embedded demo $(DEMO_FLAGS)
	$(BIN)/ringfence-embedded demo --deliver

.PHONY: verify
verify: build ## Load and faults for a minute each, of a group and of a subscription, and the judgement (VERIFY_FLAGS="--for 10m")
	$(BIN)/ringfence verify $(VERIFY_FLAGS)
	$(BIN)/ringfence verify --subscriptions $(VERIFY_FLAGS)

.PHONY: build
build: toolchain ## Build bin/ringfence
	@mkdir -p $(BIN)
	$(GO) build -trimpath -tags $(TAGS) -o $(BIN)/ringfence ./cmd/ringfence

.PHONY: build-pulsar
build-pulsar: toolchain ## Build bin/ringfence-pulsar, which knows Apache Pulsar too
	@mkdir -p $(BIN)
	cd commitlog/pulsarlog && $(GO) build -trimpath -tags $(TAGS) -o ../../$(BIN)/ringfence-pulsar ./cmd/ringfence-pulsar

.PHONY: notice
notice: setup $(LICENSES) ## What goes with a release: the modules of each program with their licences, in bin/notice
	@rm -rf $(BIN)/notice; mkdir -p $(BIN)/notice; export GOFLAGS=-tags=$(TAGS); \
	for p in .:ringfence commitlog/pulsarlog:ringfence-pulsar; do ( cd $${p%:*}; p=$${p#*:}; \
		$(CURDIR)/$(LICENSES) report ./cmd/$$p --ignore github.com/ringfence >$(CURDIR)/$(BIN)/notice/$$p.csv; \
		$(CURDIR)/$(LICENSES) save ./cmd/$$p --ignore github.com/ringfence --save_path $(CURDIR)/$(BIN)/notice/$$p ); done

##@ Checking

.PHONY: t
t: toolchain ## After each edit: the core on stores in memory, and 300 simulated histories (15 s)
	@RINGFENCE_SIM=$${RINGFENCE_SIM:-300} $(GO) test -short -tags $(TAGS) $(TEST_FLAGS) $(CORE)

.PHONY: test
ifdef CI
test: race unraced
else
test: setup serving ## All tests of all modules, with the servers that are installed (make services-list); with CI=true the fast ones under the race detector
	@$(call served,$(call each,$(GO) test -tags $(TAGS) $(TEST_FLAGS) $(PACKAGES)))
endif

.PHONY: check
check: format lint race unraced sim mutants ## Everything a change must pass

.PHONY: format
format: ## Fail on files that gofmt would change
	@out=$$(gofmt -l $$(git ls-files -co --exclude-standard '*.go')); \
	if [ -n "$$out" ]; then echo "not formatted; run: gofmt -w" $$out >&2; exit 1; fi

.PHONY: vet
vet: setup ## go vet in every module
	@$(call each,$(GO) vet -tags $(TAGS) ./...)

.PHONY: lint
lint: setup $(GOLANGCI) ## golangci-lint, the pinned version, in every module: go vet, layers and what the core may import among it
	$(GO) mod verify
	@$(call each,$(CURDIR)/$(GOLANGCI) run --allow-serial-runners --build-tags $(TAGS) --config $(CURDIR)/.golangci.yml ./...)

.PHONY: race
race: race-fast race-sample ## The tests of the main module and of pulsarlog under the race detector; of the slow ones a sample

.PHONY: race-fast
race-fast: setup serving
	@$(call served,$(call raced,,$$($(GO) list -tags $(TAGS) ./... | grep -vE '$(UNRACED)')))

.PHONY: race-sample
race-sample: setup serving
	@$(call served,( cd commitlog/pulsarlog && $(call raced,-run '$(RACE_PULSAR)',./...) ); \
	$(call raced,-run '$(RACE_STORMS)',./test/nemesis); \
	$(call raced,-run '$(RACE_CRASHES)',./test/crash); \
	$(call raced,-skip TestEveryInterleaving,./commitlog/filelog/internal/page); \
	RINGFENCE_SIM=2000 $(call raced,,./group/sim ./subscription/sim))

.PHONY: unraced
unraced: setup serving ## The tests that `make race` and `make sim` leave out
	@$(call served,for m in $(filter-out .,$(MODULES)); do echo "== $$m"; ( cd $$m && $(GO) test -tags $(TAGS) $(TEST_FLAGS) $$([ $$m = commitlog/pulsarlog ] && printf %s '-skip=$(RACE_PULSAR)') ./... ); done; \
	$(GO) test -tags $(TAGS) $(TEST_FLAGS) -skip '$(RACE_STORMS)' $$($(GO) list -tags $(TAGS) ./... | grep -E '$(UNRACED)' | grep -v '/sim$$'))

.PHONY: busy
busy: setup serving ## make test beside forty processes that compute at idle priority
	@scripts/busy 40 -- $(MAKE) test TEST_FLAGS='$(TEST_FLAGS) -count=1'

.PHONY: mutants
mutants: setup ## Put known bugs into the code, and show that a named test catches each (test/mutants)
	$(GO) run ./test/mutants $(MUTANTS_FLAGS)

.PHONY: survey
survey: setup ## Mutate the pure packages with gremlins, and list what their tests don't notice (an hour)
	@for p in $(SURVEY); do echo "== $$p"; $(GO) run $(GREMLINS) unleash --tags $(TAGS) --workers 2 --timeout-coefficient 10 ./$$p; done

.PHONY: measures
measures: ## The size of the code, its tests and documents, and how long CI took
	@scripts/measures

##@ Deeper and slower

.PHONY: sim
sim: setup ## 100,000 simulated histories of the group protocol, and of subscriptions (RINGFENCE_SIM=n)
	GOGC=1600 RINGFENCE_SIM=$${RINGFENCE_SIM:-100000} $(GO) test -count=1 -timeout 30m ./group/sim ./subscription/sim

.PHONY: damage
damage: setup ## A segment cut at every byte of its header and frames, and every bit of them flipped; of the zeros behind them a sample
	RINGFENCE_SOAK=1 $(GO) test -count=1 -timeout 30m -run 'TestATruncatedSegment|TestAFlippedBitInASegment' ./test/crash

.PHONY: soak
soak: build ## The crash matrix, the simulation, each nemesis, the clusters and verify at full length (five hours)
	RINGFENCE_SOAK=1 RINGFENCE_SIM=$${RINGFENCE_SIM:-1000000} $(GO) test -count=1 -timeout 3h -p 1 ./commitlog/... ./registry/... ./group/...
	@$(MAKE) soak-nemesis soak-cluster soak-pulsar
	$(BIN)/ringfence verify --for 10m $(VERIFY_FLAGS)
	$(BIN)/ringfence verify --subscriptions --for 10m $(VERIFY_FLAGS)

# Two stores at a time; the last lines are the figures of each.
NEMESIS_FOR ?= 30m

.PHONY: soak-nemesis
soak-nemesis: setup ## The nemesis of each store and of Kafka's cluster (NEMESIS_FOR=30m for each)
	RINGFENCE_SOAK=1 RINGFENCE_NEMESIS_FOR=$(NEMESIS_FOR) $(GO) test -count=1 -v -timeout 24h -tags $(TAGS) -run TestPromisesAreKeptThroughFaults ./test/nemesis

.PHONY: soak-cluster
soak-cluster: setup ## The conformance suite of logs on Kafka's cluster of three brokers
	@scripts/services start kafka_cluster >/dev/null
	@env=$$(scripts/services env); eval "$$env"; set -x; \
	RINGFENCE_KAFKA_URL=$$RINGFENCE_KAFKA_CLUSTER_URL RINGFENCE_REQUIRE=kafka $(GO) test -count=1 -timeout 30m -tags $(TAGS) -run '^TestConformance$$' ./commitlog/kafkalog

# Six partitions, switched to twelve and on under load, while processes are killed and ended.
PULSAR_TURNS ?= 50

.PHONY: soak-pulsar
soak-pulsar: build-pulsar ## Fifty turns of switches under load on Pulsar, with members killed and ended (PULSAR_TURNS=50)
	@scripts/services start pulsar >/dev/null
	@env=$$(scripts/services env); eval "$$env"; \
	( cd commitlog/pulsarlog && RINGFENCE_SOAK=1 $(GO) test -count=1 -timeout 2h -tags $(TAGS) -run 'ABroker|SealedUnderLoad' . ); \
	for n in $$(seq $(PULSAR_TURNS)); do \
		echo "== turn $$n of $(PULSAR_TURNS)"; \
		$(BIN)/ringfence-pulsar verify --log "$$RINGFENCE_PULSAR_URL" --partitions 6 --consumers 4 --rate 1500 --faults kill,term,grow --for 20s --seed $$n; \
	done

.PHONY: fuzz
fuzz: setup ## Every fuzz target for FUZZTIME each (default 30s)
	@scripts/fuzz "$${FUZZTIME:-30s}"

.PHONY: bench
bench: bench-own bench-peers ## Every promised figure, with what is required (forty minutes; see docs/guide/benchmarks.md)

.PHONY: bench-own
bench-own: build ## Ringfence by itself and against the raw disk, in one table (BENCH_OWN_FLAGS="--strict")
	$(BIN)/ringfence bench all $(BENCH_OWN_FLAGS)

.PHONY: bench-peers
bench-peers: setup ## Ringfence and its peers side by side (BENCH_FLAGS="-run produce -peers nats")
	cd bench && $(GO) build -tags $(TAGS) -o ../$(BIN)/peers ./cmd/peers
	$(BIN)/peers $(BENCH_FLAGS)

##@ Machinery

.PHONY: toolchain
toolchain: ## Check the Go toolchain
	@scripts/toolchain $(GO)

.PHONY: setup
setup: toolchain ## Check the Go toolchain and download the modules of all checks
	@for m in $(MODULES); do ( cd $$m && $(GO) mod download ) || exit 1; done

$(LICENSES):
	@mkdir -p $(BIN)
	GOBIN=$(CURDIR)/$(BIN) $(GO) install github.com/google/go-licenses@$(LICENSES_VERSION)
	@mv $(BIN)/go-licenses $@

$(GOLANGCI):
	@mkdir -p $(BIN)
	GOBIN=$(CURDIR)/$(BIN) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_VERSION)
	@mv $(BIN)/golangci-lint $@

.PHONY: serving
serving:
	@scripts/services start >/dev/null

.PHONY: services
services: ## Start the servers that are installed, on ports of their own; prints their URLs
	@scripts/services start

.PHONY: services-install
services-install: ## Install all servers: Debian packages (as root), Kafka and Pulsar from Maven
	@scripts/services install

.PHONY: services-list
services-list: ## Which servers are installed, and which run
	@scripts/services list

.PHONY: services-stop
services-stop: ## Stop what `make services` and `make test` started, and remove its data
	@scripts/services stop

.PHONY: clean
clean: services-stop ## Remove what was built
	rm -rf $(BIN) coverage.out
