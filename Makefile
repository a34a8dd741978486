# "make check" is what to run before a change is offered; .ci/run is all of it.

.PHONY: check test race fuzz bench soak demo ci

SHORT = 5s # of each fuzz target
LONG = 2m

check: ## gofmt, vet, staticcheck, who imports whom, race, a short fuzz
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }
	go vet ./...
	go tool staticcheck ./...
	go test -count=1 -run 'TestPackages|TestUsers' .
	.ci/scratch
	go test -race ./...
	.ci/fuzz $(SHORT)

test: ## what the README says
	go test ./...

race:
	go test -race ./...

fuzz: ## each target for LONG
	.ci/fuzz $(LONG)

bench: ## all benchmarks, ten times each, for benchstat
	go test -run '^$$' -bench . -benchmem -count=10 ./...

soak: ## the fleets for minutes, everything else again and again
	go test -count=1 -timeout 60m -run Fleet ./fencing/internal/fleet -fleet 2m
	cd fencing/blobfence/s3blob && go test -count=1 -timeout 60m -run Fleet . -fleet 2m
	go test -race -count=20 -timeout 120m . ./elect ./fencing ./internal/... ./kv ./lease ./lock ./watch

demo:
	go run ./cmd/pawl demo

ci:
	.ci/run
