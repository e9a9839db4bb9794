package main

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/lab/machine"
	"github.com/ovn-offload/ovn-offload/test/tier"
)

const (
	labStep  = "e2e"
	labName  = "e2e"
	labDir   = "test/e2e"
	labTests = "_output/bin/e2e.test"
	labTime  = "60m"
	// labAtOnce is how many tests of the lab run at once: more than two cores have room for lose packets.
	labAtOnce = 3
)

// prepareLab brings the lab up and links the tests.
func (g *gate) prepareLab(ctx context.Context) error {
	if err := g.program(ctx, "go", "test", "-c", "-tags", "e2e", "-vet=off", "-o", labTests, "./"+labDir); err != nil {
		return err
	}
	return g.program(ctx, g.cfg.lab, "up", "--name="+labName, "--workdir="+filepath.Join(g.cfg.root, "_output", labName), "--families=dual", "--set=networks.native=true")
}

// labDown removes the lab, also when the run was interrupted.
func (g *gate) labDown() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := g.program(ctx, g.cfg.lab, "down", "--name="+labName, "--workdir="+filepath.Join(g.cfg.root, "_output", labName)); err != nil {
		g.record.print("removing the lab: %v\n", err)
	}
}

// testLab runs the tests of the areas in the lab that is up. Nothing of low priority runs beside those that run one by one.
func (g *gate) testLab(ctx context.Context, areas []string) error {
	g.beside.freeze()
	g.record.whenParallel(g.beside.thaw)
	defer g.beside.thaw()
	return g.binary(ctx, labStep, labStep, labDir, g.labCommand("-areas="+strings.Join(areas, ","), fmt.Sprint("-test.parallel=", labAtOnce))...)
}

func (g *gate) labCommand(args ...string) []string {
	return append([]string{filepath.Join(g.cfg.root, labTests), "-test.v=test2json", "-test.timeout=" + labTime, "-lab=" + labName, "-keep"}, args...)
}

// labCPU is the processor time of the lab so far.
func labCPU() time.Duration {
	used, err := machine.ProcessorTime(labName)
	if err != nil {
		return 0
	}
	return used
}

// againInLab runs one test three times.
func (g *gate) againInLab(ctx context.Context, r result) error {
	return g.binary(ctx, againStep(r), r.Package, labDir, g.labCommand("-areas="+tier.All, "-test.run=^"+r.Test+"$", fmt.Sprint("-test.count=", timesAlone))...)
}

// nodePrograms are those without which a node of the lab is silent.
var nodePrograms = regexp.MustCompile(`\b(kubelet|ovn-offload-agent|ovs-vswitchd)\b`)

// printStuck prints the processes of the lab's machines that do not run on, and how long those of a node have run, so that
// a red run shows why a node was silent.
func (g *gate) printStuck(ctx context.Context) {
	machines, err := machine.All(labName)
	if err != nil {
		g.record.print("processes of the lab: %v\n", err)
	}
	for _, m := range machines {
		ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
		out, err := m.Command(ctx, "ps", "axo", "stat,pid,etime,wchan:24,args").CombinedOutput()
		cancel()
		if err != nil {
			g.record.print("processes of %s: %v: %s\n", m.Name, err, out)
		}
		for _, line := range stuck(string(out)) {
			g.record.print("%s: %.150s\n", m.Name, line)
		}
	}
}

// stuck are the lines of ps, which begin with the state, of a node's programs, and of processes that are stopped, wait in
// the kernel, as frozen ones do, or have ended and are not reaped.
func stuck(ps string) []string {
	var lines []string
	for line := range strings.Lines(ps) {
		if strings.ContainsAny(line[:1], "DTtZ") || nodePrograms.MatchString(line) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}
