# "make check" is what to run before a change is offered; .ci/run is what runs for each change.

.PHONY: help quick check test race fuzz bench proof soak soak-full restarts trial compat outside mutants rules hops compare targets performance growth scale screenshots tidy proto release-test release api man demo ci

SHORT = 5s # of each fuzz target
LONG = 2m
VERSION = v0.0.0-dev

help: ## lists the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

quick: ## quick checks while you work, under two minutes: formatting, vet, the library's tests, which need no server
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./... ./cmd/pawl/...
	go test ./...

# On one processor: on several, go's race detector crashes in a synctest bubble when a goroutine runs
# an expired timer of which it looks at the channel while another one's runs (see golang/go#78156).
RACE = -race -cpu 1

check: ## what to run before a change is offered: formatting, vet, staticcheck, imports, a user's program, the API, race, a short fuzz
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet work
	.ci/staticcheck
	go test -count=1 -run 'TestPackages|TestUsers' ./test/repo
	.ci/scratch
	.ci/api
	go test $(RACE) -timeout 20m work
	.ci/fuzz $(SHORT)

test: ## all tests of the workspace, as in the README
	go test work

race: ## all tests of the workspace under the race detector
	go test $(RACE) -timeout 20m work

fuzz: ## each fuzz target of the workspace for LONG
	.ci/fuzz $(LONG)

bench: ## the benchmarks of the workspace, ten times each, for benchstat
	go test -run '^$$' -bench . -benchmem -count=10 work

SEED = $(shell date +%s)

proof: ## every test whole: all of the model, every cell, 10,000 random scenarios from SEED on, a soak: about 45 minutes on two cores; then all planted faults, 40 more
	PAWL_PROOF=1 PAWL_FIRST_SEED=$(SEED) go test -count=1 -p 2 -timeout 45m $$(go list work | grep -v test/proof/matrix)
	PAWL_PROOF=1 go test -count=1 -timeout 15m -v -skip TestMatrix ./test/proof/matrix
	PAWL_PROOF=1 go test -count=1 -timeout 40m -parallel 10 -run TestMatrix ./test/proof/matrix
	go run ./test/proof/mutants

soak: ## an hour of faults and pauses; then the fleets, 20,000 random scenarios, the library's tests twenty times with the race detector
	PAWL_SOAK=1h PAWL_SOAK_PAGE=$(CURDIR)/docs/results/reliability.md go test -count=1 -timeout 90m -v -run TestSoak ./test/proof/matrix
	go test -count=1 -timeout 60m -run Fleet ./test/stores/fleet -fleet 2m
	cd fencing/blobfence/s3blob && GOWORK=off go test -count=1 -timeout 60m -run Fleet . -fleet 2m
	PAWL_SIMULATE=20000 go test -count=1 -timeout 120m -v ./test/proof/simulate
	go test $(RACE) -count=20 -timeout 240m . ./elect ./fencing ./internal/... ./kv ./lease ./lock ./observe ./shard ./watch ./test/real/...

FULL = 1h

soak-full: ## an hour of faults and pauses, or FULL, for hundreds of workers on hundreds of names; writes docs/results/reliability.md
	PAWL_FULL_RATE=$(FULL) PAWL_SOAK_PAGE=$(CURDIR)/docs/results/reliability.md go test -count=1 -timeout 90m -v -run TestFullRate ./test/proof/matrix

restarts: ## pawld is replaced, and killed, again and again under load
	cd cmd/pawld && PAWL_PROOF=1 go test -count=1 -timeout 30m -v -run 'TestAnUpgradeUnderLoad|TestAKilledPawldLosesNo' .

TRIAL = 10m

trial: ## workers in Python under pawld, while all of it is killed at random, for TRIAL; writes into docs/results/reliability.md
	cd cmd/pawld && PAWLD_TRIAL=$(TRIAL) PAWLD_TRIAL_PAGE=$(CURDIR)/docs/results/reliability.md go test -count=1 -timeout 60m -v -run TestOrdersAre .

compat: ## locks, elections and sessions against etcd 3.6, 3.5 and Debian's 3.4
	.ci/compat

outside: ## the quick lane, known vulnerabilities, all tests of the root at its lowest versions, and of the four modules outside the workspace; .ci/run has a part of the first, and two of the four
	GOWORK=off go vet ./...
	GOWORK=off go test ./...
	.ci/root-with v3.6.16
	.ci/root-with v3.7.0
	go test -count=1 -timeout 60m ./test/peers/modules -modules all
	.ci/vulnerabilities
	for module in fencing/blobfence/s3blob test/alerts test/peers/interop/etcdctl test/recipes; do \
		(cd $$module && GOWORK=off go vet ./... && GOWORK=off go test ./...) && .ci/staticcheck $$module || exit; \
	done

mutants: ## plants faults in the code, or only in FILES or in what CHANGED since a revision, and shows which test notices each
	go run ./test/proof/mutants -w $(if $(FILES),-files "$(FILES)") $(if $(CHANGED),-changed $(CHANGED))

rules: ## for each rule of docs/explanation/safety.md the functions that implement it, and its tests
	@go run ./test/proof/mutants -rules

hops: ## counts the functions and files that each part of a lock's life enters
	@go run ./test/proof/hops

compare: ## pawl and etcd's own client in the same faults; writes docs/results/comparison.md
	go run ./test/peers/compare -o docs/results/comparison.md

targets: ## whether pawl meets its targets beside etcd's own client: about 12 minutes
	go run ./test/peers/bench -targets

performance: ## pawl, etcd's own client and the bare stubs in turns, 47 minutes; writes docs/results/performance.md and its plots
	go run ./test/peers/bench -o docs/results

MOST = 10

growth: ## what grows with its size or with the past, at 1 to MOST (10, 100 or 1000) times the least size; about 10 minutes, at 100 an hour; writes docs/results/growth.md
	go run ./test/peers/bench -growth $(MOST) -o docs/results

scale: ## what clusters carry, from what performance and growth measured; writes docs/results/scale.md
	go run ./test/peers/scale -o docs/results

screenshots: ## plays a scene in Chromium for a minute, and writes docs/reference/ui/*.png
	cd cmd/pawl/internal/ui/browser && go test -count=1 -run Pictures . -shots $(CURDIR)/docs/reference/ui

tidy: ## go.mod and go.sum of every module
	.ci/tidy

proto: ## Go code of proto/, with the compiler and plugins that tools/go.mod names
	cd tools && GOWORK=off go run ./protogen

release-test: ## checks that a release contains what it should: takes minutes the first time
	PAWL_RELEASE=1 go test -count=1 -run TestARelease ./tools/release

release: ## binaries, their bills of materials, Debian packages, images and checksums of VERSION, into ./dist
	go run ./tools/release -version $(VERSION) -o dist

api: ## what the API has lost since the last tag
	.ci/api

man: ## man pages of the command, into ./man
	go run ./cmd/pawl man man

demo: ## the lock at work on an embedded etcd
	go run ./cmd/pawl demo

ci: ## what runs for each change: about 25 minutes on two cores, longer with empty caches
	.ci/run
