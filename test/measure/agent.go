package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/hack/lab/cluster"
)

// addStageNames are those of pkg/cni, in their order.
var addStageNames = []string{"pod", "annotation", "attach", "flows"}

// total is sum and count of a histogram.
type total struct {
	sum   float64
	count int
}

func (t total) since(before total) total { return total{t.sum - before.sum, t.count - before.count} }

func (t total) mean() time.Duration {
	if t.count == 0 {
		return 0
	}
	return time.Duration(t.sum / float64(t.count) * float64(time.Second))
}

// addStages adds up the agents' histograms of the stages of ADD. The difference
// around a single pod is that pod's time, without any bucket in between.
func (b *bench) addStages(ctx context.Context) (map[string]total, error) {
	stages := map[string]total{}
	if b.network != cluster.CNIOffload {
		return stages, nil
	}
	const metric = "ovn_offload_cni_add_stage_duration_seconds_"
	for _, node := range b.nodes {
		text, err := b.lab.Exec(ctx, node, "curl", "-sS", "http://127.0.0.1:9410/metrics")
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(text) {
			rest, ok := strings.CutPrefix(line, metric)
			if !ok {
				continue
			}
			name, value, _ := strings.Cut(strings.TrimSpace(rest), " ")
			kind, label, _ := strings.Cut(name, `{stage="`)
			number, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return nil, fmt.Errorf("metrics of the agent on %s: %w", node, err)
			}
			stage := strings.TrimSuffix(label, `"}`)
			t := stages[stage]
			switch kind {
			case "sum":
				t.sum += number
			case "count":
				t.count += int(number)
			}
			stages[stage] = t
		}
	}
	return stages, nil
}

// podCommands is what the agents' logs say of one pod's CNI commands.
type podCommands struct {
	received, returned time.Time // of ADD
	add                time.Duration
	del                []time.Duration
}

// logged is a line of the agent's log.
type logged struct {
	Time                         time.Time
	Msg, Command, Owner, Sandbox string
	Took                         duration
	Error                        string
}

// duration is text in logs, such as "17.6ms".
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// commands reads the agents' logs. The runtime repeats a DEL; the first counts,
// which is the one that has work to do. None at all is an error with ovn-offload.
func (b *bench) commands(namespace string) (map[string]podCommands, error) {
	pods := map[string]podCommands{}
	files, err := filepath.Glob(filepath.Join(b.logs, "*/log/pods/ovn-kubernetes_ovnkube-node-*/ovn-offload-agent/*.log"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if err := readCommands(file, "Pod/"+namespace+"/", pods); err != nil {
			return nil, err
		}
	}
	if len(pods) == 0 && b.network == cluster.CNIOffload {
		return nil, fmt.Errorf("the agents' logs have no CNI command of namespace %s", namespace)
	}
	return pods, nil
}

func readCommands(file, prefix string, pods map[string]podCommands) error {
	log, err := os.Open(file)
	if err != nil {
		return err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		_, text, ok := strings.Cut(lines.Text(), " F ")
		if !ok || !strings.Contains(text, `"msg":"CNI command"`) {
			continue
		}
		var l logged
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			return fmt.Errorf("line %s: %w", text, err)
		}
		name, ours := strings.CutPrefix(l.Owner, prefix)
		if !ours {
			continue
		}
		if l.Error != "" {
			progress("CNI %s of %s failed: %s", l.Command, name, l.Error)
			continue
		}
		pod := pods[name]
		switch l.Command {
		case "ADD":
			pod.add = time.Duration(l.Took)
			pod.received, pod.returned = l.Time.Add(-pod.add), l.Time
		case "DEL":
			if pod.del == nil {
				pod.del = []time.Duration{time.Duration(l.Took)}
			}
		}
		pods[name] = pod
	}
	return lines.Err()
}
