package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// components are the measured processes. The word distinguishes processes of one program.
var components = []struct{ title, program, word string }{
	{"controller", "ovn-offload-controller", "--lease-namespace"},
	{"identity (certificates)", "ovn-offload-controller", "certs"},
	{"agent", "ovn-offload-agent", ""},
	{"ovn-controller", "ovn-controller", ""},
	{"ovs-vswitchd", "ovs-vswitchd", ""},
	{"ovsdb-server of the node", "ovsdb-server", "conf.db"},
	{"ovn-northd", "ovn-northd", ""},
	{"NB ovsdb-server", "ovsdb-server", "ovnnb_db"},
	{"SB ovsdb-server", "ovsdb-server", "ovnsb_db"},
	{"kube-apiserver", "kube-apiserver", ""},
	{"etcd", "etcd", ""},
	{"kubelet", "kubelet", ""},
	{"containerd", "containerd", "--config"},
}

// cost is what a process has used up to now.
type cost struct {
	resident, anonymous int // KiB
	cpu                 time.Duration
}

// costs are by component and node.
func (b *bench) costs() (map[[2]string]cost, error) {
	all := map[[2]string]cost{}
	for _, node := range b.nodes {
		machine, err := b.lab.Machine(node)
		if err != nil {
			return nil, err
		}
		processes, err := machine.Processes()
		if err != nil {
			return nil, err
		}
		for _, p := range processes {
			for _, c := range components {
				if filepath.Base(p.Args[0]) != c.program || !strings.Contains(strings.Join(p.Args[1:], " "), c.word) {
					continue
				}
				if all[[2]string{c.title, node}], err = readCost(p.PID); err != nil {
					return nil, fmt.Errorf("reading about %s on %s: %w", c.title, node, err)
				}
				break
			}
		}
	}
	return all, nil
}

// printCosts prints what each process has used since.
func (b *bench) printCosts(before map[[2]string]cost) error {
	after, err := b.costs()
	if err != nil {
		return err
	}
	fmt.Println()
	t := newTable("process", "node", "CPU seconds", "RSS MB afterwards")
	for _, c := range components {
		for _, node := range b.nodes {
			key := [2]string{c.title, node}
			if used, ok := after[key]; ok {
				t.add(c.title, node, (used.cpu - before[key].cpu).Seconds(), megabytes(used.resident))
			}
		}
	}
	t.print()
	return nil
}

// printCPU tells what a number of pods has cost each component, all nodes together.
func printCPU(before, after map[[2]string]cost, pods int) {
	used := map[string]time.Duration{}
	for key, cost := range after {
		used[key[0]] += cost.cpu - before[key].cpu
	}
	fmt.Print("CPU time a pod:")
	for _, c := range components {
		if used[c.title] > 0 {
			fmt.Printf(" %s %s;", c.title, milliseconds(used[c.title]/time.Duration(pods)))
		}
	}
	fmt.Println()
}

func readCost(pid int) (cost, error) {
	status, err := readStatus(pid)
	if err != nil {
		return cost{}, err
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return cost{}, err
	}
	// Fields from the third on; user and system time are the 14th and 15th, in ticks of 10 ms.
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			return cost{}, err
		}
		ticks += time.Duration(n)
	}
	return cost{status["VmRSS"], status["RssAnon"], ticks * 10 * time.Millisecond}, nil
}

// readStatus gives the lines of a process' status that are in kB.
func readStatus(pid int) (map[string]int, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil, err
	}
	values := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[2] == "kB" {
			if values[strings.TrimSuffix(fields[0], ":")], err = strconv.Atoi(fields[1]); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
}

// flows counts rows of the Southbound database and flows of a node's bridge.
type flows struct{ logical, openflow int }

func (b *bench) countFlows(ctx context.Context) (flows, error) {
	logical, err := b.lab.Exec(ctx, b.nodes[0], "ovn-sbctl", "--no-leader-only", "--bare", "--columns=_uuid", "list", "Logical_Flow")
	if err != nil {
		return flows{}, err
	}
	openflow, err := b.lab.Exec(ctx, b.worker(), "ovs-ofctl", "dump-flows", "br-int")
	if err != nil {
		return flows{}, err
	}
	// Each line begins with a space and its cookie; that of a learn action is not another flow.
	return flows{len(strings.Fields(logical)), strings.Count(openflow, " cookie=")}, nil
}
