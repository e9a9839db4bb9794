# The two commands that matter are `make lab` and `make test`; `make help` lists the rest.
export GOTOOLCHAIN = local
export CGO_ENABLED ?= 0
# One kind of build for tests, image and lab: each further kind compiles Kubernetes' client once more.
export GOFLAGS := $(GOFLAGS) -trimpath -buildvcs=false -gcflags=all=-dwarf=false

OUT      := _output
BIN      := $(OUT)/bin
VERSION  ?= $(shell git describe --always --dirty 2>/dev/null || echo dev)
IMAGE    := $(OUT)/image/ovn-offload.tar
# grpcnotrace: without gRPC's trace pages the linker can leave out unused methods, a third of the agent
RELEASE  := -trimpath -tags grpcnotrace -ldflags '-s -w -X main.version=$(VERSION)'
LINT     := $(BIN)/golangci-lint
TESTSUM  := $(BIN)/gotestsum
GATE     := $(BIN)/gate
LAB      := $(BIN)/lab
LABFLAGS ?=
# Packages whose concurrency the gate looks at with the race detector: they import no Kubernetes client,
# which would be compiled once more for it. The full tier has all.
RACE     := ./pkg/reconcile/... ./pkg/ovsdb/... ./pkg/netdev/...
# --full has tests run what only `make test-full` runs
TIER     :=
# what failed comes once more at the end, after half an hour of output
E2E      := $(TESTSUM) --format standard-verbose --hide-summary skipped -- -tags e2e -vet=off -count=1
BENCHVM  := $(BIN)/benchvm

.PHONY: help lab lab-down test area figures test-full unit race apiserver e2e e2e-kind e2e-masters e2e-multus e2e-smartnic e2e-upgrade reboots bench-arm64 bench-boot bench-vm check lint generate generated bench build image release clean root packages FORCE

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

lab: root $(LAB) ## a real cluster on this machine with ovn-offload in it (root, Debian 12 or 13)
	$(LAB) up $(LABFLAGS)

lab-down: root $(LAB) ## remove the lab and everything that it made
	$(LAB) down $(LABFLAGS)

test: root packages $(LAB) $(BENCHVM) $(GATE) ## the gate: unit tests, the core, changed areas, linters (root; ALL=1: all areas)
	$(GATE) test --race='$(RACE)' $(if $(ALL),--all-areas)

area: root packages $(LAB) $(BENCHVM) $(GATE) ## the tests of areas of test/areas.txt: make area A=services (root)
	$(GATE) area $(A)

figures: $(GATE) ## put the tables of the last run of the gate into docs/testing.md
	$(GATE) figures

test-full: STEPS = generated unit race apiserver bench-vm bench-boot bench-arm64 e2e e2e-smartnic e2e-masters e2e-multus e2e-upgrade reboots TIER=--full

# What takes minutes to compile, once, is begun beside the tests, on processor time that they leave. Then come
# the linters there: the end to end tests wait most of their time.
test-full: root $(LAB) ## everything that there is to test; hours (root)
	@hack/idle sh -c '$(LAB) fill-cache && $(MAKE) lint' & beside=$$!; trap "kill -- -$$beside 2>/dev/null" EXIT; \
	$(MAKE) $(STEPS) && wait $$beside

check: lint generated ## unit tests without root, linters, generated code is current
	go build ./...
	go test ./...

# no go vet in these: the linters do it, and from an empty cache each kind of build would begin it anew
unit: root packages ## unit tests as root: real namespaces and a real ovsdb-server
	go test -vet=off ./...
	CGO_ENABLED=1 go test -race -vet=off $(RACE)

race: root packages ## all unit tests with the race detector
	CGO_ENABLED=1 go test -race -vet=off ./...
	CGO_ENABLED=1 go test -race -vet=off ./pkg/controller ./pkg/ovn ./pkg/ovsdb -args -full # other seeds

apiserver: root packages ## tests of the controller and of rights with an API server, without nodes (root)
	go test -tags apiserver -vet=off -count=1 ./test/apiserver

e2e: root packages $(LAB) $(GATE) ## the end to end tests of all areas, in a lab of their own (root)
	$(GATE) area $(TIER) access docs networks node policies primary services tools

e2e-kind: $(TESTSUM) ## end to end tests in the cluster of deploy/kind/up and deploy/kind/tools
	$(E2E) -parallel 3 -timeout 50m ./test/e2e -args -cluster=kind -families=ipv4

e2e-smartnic: root $(LAB) $(TESTSUM) ## a node with a simulated SmartNIC in a cluster: real kubelet, pods on VFs (root)
	$(E2E) -timeout 60m -run TestSmartNIC_KubeletGivesVFsToPods ./test/e2e -args -smartnic

e2e-masters: root $(LAB) $(TESTSUM) ## three control-plane nodes: from one server to three, and the loss of each process, of a majority, of power and of a disk (root)
	$(E2E) -timeout 60m -run TestMasters ./test/e2e -args -lab=masters -families=ipv4 "-up=--control-planes=3 --nodes=6 --set=databases.members=1"

e2e-multus: root $(LAB) $(TESTSUM) ## further networks of pods, with Multus, in a lab of its own (root)
	$(E2E) -timeout 30m -run '^Test(Networks|UserDefinedNetwork|ClusterUserDefined|PrimaryNetwork|MultiNetworkPolicy|IPAMClaim|SecondaryNetwork|Quota|VirtualMachine_[AM])' ./test/e2e -args -lab=multus -families=ipv4 -up=--multus

# begins with the first version that had a chart
e2e-upgrade: root $(LAB) $(TESTSUM) ## from an earlier version to this one and back by Helm, in a lab of its own (root)
	git worktree remove --force $(OUT)/former 2>/dev/null || rm -rf $(OUT)/former
	git worktree prune && git worktree add --detach $(OUT)/former $$(git log --diff-filter=A --format=%H -- deploy/chart/Chart.yaml | tail -1)
	$(E2E) -timeout 60m -run TestUpgrade ./test/e2e -args -lab=upgrade -families=ipv4 -upgrade-from=$(CURDIR)/$(OUT)/former
	git worktree remove --force $(OUT)/former

# goes on where it was interrupted; a boot takes four minutes
reboots: root $(LAB) ## a node that is a virtual machine with systemd boots 30 times, each with a fault (root)
	test/reboots -n 3 $(OUT)/reboots.tsv
	$(LAB) down --name=reboots

bench-vm: root $(LAB) $(BENCHVM) $(GATE) ## the tests on simulated SmartNICs, in virtual machines (root)
	$(GATE) area $(TIER) bench nic

# seven boots of one host, each with a test of its own
bench-boot: root $(BENCHVM) ## a host with systemd and NetworkManager boots: the unit of an OffloadPolicy, a node without an agent (root)
	go test -c -tags bench -o $(BIN)/boot.test ./test/bench/boot
	rm -rf $(OUT)/disk && mkdir -p $(OUT)/disk
	for boot in 1 2 3 4 5 6 7; do ( cd test/bench/boot && $(CURDIR)/$(BENCHVM) --systemd --disk=$(CURDIR)/$(OUT)/disk --nics=1 --vfs=0 --switchdev=false \
		--timeout=20m $(CURDIR)/$(BIN)/boot.test -test.v -test.run=TestBoot$${boot}_ ) || exit 1; done

# The machines boot once before: what they need is built there, and the test has no network.
bench-arm64: root packages $(BENCHVM) ## a host with a DPU is an arm64 machine with the arm64 image, with pages of 4 and of 64 KiB (root)
	hack/packages mmdebstrap && hack/binfmt arm64
	rm -rf $(OUT)/arm64 && mkdir -p $(OUT)/arm64
	go run ./hack/image -arch arm64 -out $(OUT)/arm64/image.tar -root $(OUT)/arm64/root
	GOARCH=arm64 go test -c -tags bench -vet=off -o $(OUT)/arm64/arm64.test ./test/bench/arm64
	for pages in 4 64; do $(BENCHVM) --arch=arm64 --pages=$$pages --root=$(OUT)/arm64/root --nics=1 --vfs=2 -- true || exit 1; done
	go test -tags apiserver -vet=off -count=1 -v -timeout=70m -run=TestARM64 ./test/apiserver -args -arm64=$(CURDIR)/$(OUT)/arm64

bench: root packages $(LAB) ## measure: engine, CNI, pod start in the lab
	go test -run '^$$' -bench . -benchmem ./pkg/... ./test/measure/
	go run ./test/measure -lab=$(LAB)

# a cache of its own: shared with another checkout it reports that one's files
lint: $(LINT)
	GOLANGCI_LINT_CACHE=$(CURDIR)/$(OUT)/lint $(LINT) run --allow-parallel-runners --build-tags e2e,bench,apiserver ./...

generate: ## write generated code again
	go generate ./...

generated:
	go run ./hack/modelgen -check
	go run -C hack/crds . -check
	go test -C hack/crds -vet=off .

build: ## the binaries of the product, into _output/bin
	go build $(RELEASE) -o $(BIN)/ovn-offload-controller ./cmd/controller
	go build $(RELEASE) -o $(BIN)/ovn-offload-agent ./cmd/agent
	go build $(RELEASE) -o $(BIN)/ovn-k8s-cni-overlay ./cmd/cni
	go build $(RELEASE) -o $(BIN)/ovn-offload-relay ./cmd/relay
	go build $(RELEASE) -o $(BIN)/kubectl-offload ./cmd/kubectl-offload

image: root ## the container image, as an OCI archive (ARCH=arm64, DEBIAN=sid)
	$(if $(ARCH),hack/binfmt $(ARCH))
	go run ./hack/image -out $(IMAGE) $(if $(ARCH),-arch $(ARCH)) $(if $(DEBIAN),-suite $(DEBIAN))

release: root ## all files of a release, in _output/release (VERSION=v0.1.0)
	hack/packages mmdebstrap
	hack/binfmt amd64 && hack/binfmt arm64
	go run ./hack/release -version '$(VERSION)' -out $(OUT)/release

clean: ## remove what was built here (not the caches)
	rm -rf $(OUT)

root:
	@test "$$(id -u)" = 0 || { echo "this target needs root: it makes namespaces, links and mounts of its own" >&2; exit 1; }

packages: root
	@hack/packages openvswitch-switch ovn-central iproute2 nftables gcc libc6-dev prometheus chromium-headless-shell fonts-dejavu-core

$(LINT): hack/tools/go.mod
	@echo "building golangci-lint (once; some minutes)"
	@mkdir -p $(BIN)
	cd hack/tools && go build -o ../../$(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(TESTSUM): hack/tools/go.mod
	@mkdir -p $(BIN)
	cd hack/tools && go build -o ../../$(TESTSUM) gotest.tools/gotestsum

$(LAB): FORCE
	@mkdir -p $(BIN)
	@go build -o $(LAB) ./hack/lab

$(GATE): FORCE
	@mkdir -p $(BIN)
	@go build -o $(GATE) ./hack/gate

$(BENCHVM): FORCE
	@mkdir -p $(BIN)
	@go build -o $(BENCHVM) ./test/bench/benchvm

FORCE:
