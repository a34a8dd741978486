# "make check" is what to run before a change is offered; .ci/run is all of it.

.PHONY: check test race fuzz bench proof soak compat mutants compare performance scale screenshots man demo ci

SHORT = 5s # of each fuzz target
LONG = 2m

check: ## gofmt, vet, staticcheck, who imports whom, race, a short fuzz
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go tool staticcheck ./...
	go test -count=1 -run 'TestPackages|TestUsers' .
	.ci/scratch
	go test -race -timeout 20m ./...
	.ci/fuzz $(SHORT)

test: ## what the README says
	go test ./...

race:
	go test -race -timeout 20m ./...

fuzz: ## each target for LONG
	.ci/fuzz $(LONG)

bench: ## all benchmarks, ten times each, for benchstat
	go test -run '^$$' -bench . -benchmem -count=10 ./...

proof: ## every cell of the matrix, a soak, random scenarios from a new seed: under 15 minutes
	go test -count=1 ./test/proof/model ./test/proof/history
	PAWL_SIMULATE=3000 PAWL_FIRST_SEED=$$(date +%s) go test -count=1 -timeout 15m -v ./test/proof/simulate
	PAWL_SOAK=90s go test -count=1 -timeout 15m -v -run TestSoak ./test/proof/matrix
	PAWL_MATRIX=all go test -count=1 -timeout 15m -parallel 12 -run TestMatrix ./test/proof/matrix

soak: ## an hour of faults and pauses; then the fleets, 20,000 random scenarios, all tests again and again
	PAWL_SOAK=1h PAWL_SOAK_PAGE=$(CURDIR)/docs/reliability.md go test -count=1 -timeout 90m -v -run TestSoak ./test/proof/matrix
	go test -count=1 -timeout 60m -run Fleet ./fencing/internal/fleet -fleet 2m
	cd fencing/blobfence/s3blob && go test -count=1 -timeout 60m -run Fleet . -fleet 2m
	PAWL_SIMULATE=20000 go test -count=1 -timeout 120m -v ./test/proof/simulate
	go test -race -count=20 -timeout 240m . ./elect ./fencing ./internal/... ./kv ./lease ./lock ./watch

compat: ## locks, elections and sessions against etcd 3.6, 3.5 and Debian's 3.4
	.ci/compat

mutants: ## plants faults in the code, and shows which test notices each
	go run ./test/proof/mutants -o docs/reliability.md

compare: ## pawl and etcd's own client in the same troubles; writes docs/comparison.md
	go run ./test/peers/compare -o docs/comparison.md

performance: ## pawl, etcd's own client and the bare stubs in turns, an hour; writes docs/performance.md and its plots
	go run ./test/peers/bench -o docs

scale: ## what clusters carry, from what performance measured; writes docs/scale.md
	go run ./test/peers/scale -o docs

screenshots: ## plays a scene in Chromium for a minute, and writes docs/ui/*.png
	cd test/browser && go test -count=1 -run Pictures . -shots ../../docs/ui

man: ## man pages of the command, into ./man
	go run ./cmd/pawl man man

demo:
	go run ./cmd/pawl demo

ci:
	.ci/run
