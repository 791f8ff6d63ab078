.PHONY: build test test-full bench witness witness-update ci

build:
	CGO_ENABLED=0 go build -trimpath -o fiador ./cmd/fiador
	CGO_ENABLED=0 go build -trimpath -o safe-run ./cmd/safe-run

test:
	go test ./...

# The full form: every round of every storm, a kill and a fault at every step, whole floods.
test-full:
	FIADOR_FULL=1 go test -timeout 20m ./...

bench:
	go run -C bench .

# How the code is divided: packages, their sizes, functions, comments.
.PHONY: house
house:
	go run -C bench ./house ..

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

# All files of a release, unsigned, in a new folder dist.
.PHONY: dist
dist:
	.ci/release "v$$(CGO_ENABLED=0 go run -trimpath ./cmd/fiador version | sed -n '1s/^fiador //p')" dist --trial
