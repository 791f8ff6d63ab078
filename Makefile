.PHONY: build test short bench witness witness-update ci

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

# What a user can see, compared with cmd/fiador/testdata/witness.txt: TestWitness says how
# to read and to accept a difference. The second target records what is seen now.
witness:
	go test -count=1 ./cmd/fiador -run '^TestWitness$$' -witness

witness-update:
	go test -count=1 ./cmd/fiador -run '^TestWitness$$' -update-witness

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
