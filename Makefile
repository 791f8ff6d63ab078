.PHONY: build test short bench ci

build:
	CGO_ENABLED=0 go build -trimpath -o fiador ./cmd/fiador
	CGO_ENABLED=0 go build -trimpath -o safe-run ./cmd/safe-run

test:
	go test ./...

# The same without what takes minutes: storms, kills at every step, whole toolchains, bombs.
short:
	go test -short ./...

bench:
	go run ./bench

ci:
	.ci/run

# The sandbox in a virtual machine, with cgroups v2 as systemd delegates them to users.
.PHONY: delegated
delegated:
	.ci/delegated

# The archives of a release and checksums.txt, in a new folder dist.
.PHONY: dist
dist:
	.ci/archive dist
