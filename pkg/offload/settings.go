package offload

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Keys of other_config in the Open_vSwitch table.
const (
	HWOffloadKey      = "hw-offload"
	TCPolicyKey       = "tc-policy"
	MaxIdleKey        = "max-idle"        // milliseconds
	MaxRevalidatorKey = "max-revalidator" // milliseconds
	FlowLimitKey      = "flow-limit"
	StatsDelayKey     = "offloaded-stats-delay" // milliseconds
	RebalanceKey      = "offload-rebalance"
)

// Policies of TCPolicyKey. SkipSW puts a flow that the NIC refuses into OVS,
// SkipHW keeps all flows out of the NIC.
const (
	PolicyNone   = "none"
	PolicySkipSW = "skip_sw"
	PolicySkipHW = "skip_hw"
)

// Settings is what Classify must know of the running ovs-vswitchd.
type Settings struct {
	HWOffload bool `json:"hwOffload"`
	// RestartDue says that HWOffload was set after the process had started.
	RestartDue bool   `json:"restartDue,omitempty"`
	Policy     string `json:"policy"`
	// NoRecirculation says that the kernel's TC cannot go on where the datapath left off, and the other way.
	NoRecirculation bool `json:"noRecirculation,omitempty"`
}

// Observed is a node's configuration and what its switch made of it.
type Observed struct {
	OtherConfig map[string]string
	// Running is OtherConfig as it was when ovs-vswitchd started; nil for not
	// known, which is taken as being the same.
	Running map[string]string
	// NoRecirculation is that of Settings.
	NoRecirculation bool
}

// Settings gives those that are in force.
func (o Observed) Settings() Settings {
	s := Settings{Policy: value(o.running(), TCPolicyKey), NoRecirculation: o.NoRecirculation}
	wanted, runs := isOn(o.OtherConfig), isOn(o.running())
	s.HWOffload, s.RestartDue = wanted || runs, wanted && !runs
	return s
}

// Wanted says whether the configuration asks for offload.
func (o Observed) Wanted() bool { return isOn(o.OtherConfig) }

func (o Observed) running() map[string]string {
	if o.Running != nil {
		return o.Running
	}
	return o.OtherConfig
}

// SettingsPlan is a change of other_config that is safe to repeat.
type SettingsPlan struct {
	// Set has the keys to merge; "" deletes one.
	Set map[string]string
	// Undo has the former values of the keys in Set, to be saved before.
	Undo map[string]string
	// Restart has the keys for whose sake ovs-vswitchd must start again, sorted.
	// A restart that is due since an earlier change is in it too.
	Restart []string
}

// PlanSettings compares managed keys only; a want of "" is OVS's default.
//
// hw-offload and tc-policy are read once in a process' life. Newer releases
// notice hw-offload going on, but leave the flows that exist where they are.
func PlanSettings(have Observed, want map[string]string) (SettingsPlan, error) {
	plan := SettingsPlan{Set: map[string]string{}, Undo: map[string]string{}}
	after := maps.Clone(have.OtherConfig)
	if after == nil {
		after = map[string]string{}
	}
	for key, wanted := range want {
		if err := validate(key, wanted); err != nil {
			return SettingsPlan{}, err
		}
		if had := have.OtherConfig[key]; had != wanted {
			plan.Set[key], plan.Undo[key] = wanted, had
			after[key] = wanted
		}
	}
	if isOn(after) && after[RebalanceKey] == "true" && value(after, TCPolicyKey) != PolicySkipSW {
		return SettingsPlan{}, fmt.Errorf("%s needs %s=%s", RebalanceKey, TCPolicyKey, PolicySkipSW)
	}
	for key := range want {
		if restarts(key, after, have.running()) {
			plan.Restart = append(plan.Restart, key)
		}
	}
	slices.Sort(plan.Restart)
	return plan, nil
}

// restarts says whether key differs from what runs and counts only at a start.
// Without offload before and after, the others do not matter.
func restarts(key string, after, running map[string]string) bool {
	if !once(key) || value(after, key) == value(running, key) {
		return false
	}
	return key == HWOffloadKey || isOn(after) || !offloadKey(key)
}

func offloadKey(key string) bool {
	return key == TCPolicyKey || key == RebalanceKey || key == "n-offload-threads" || key == "hw-offload-priority"
}

// once lists what ovs-vswitchd reads at its start only.
func once(key string) bool {
	switch key {
	case HWOffloadKey, "dpdk-init", "doca-init", "dpdk-max-memzones", "dpdk-socket-mem", "dpdk-hugepage-dir", "dpdk-extra":
		return true
	}
	return offloadKey(key)
}

// value gives a setting as OVS reads it, so that an absent key equals its default.
func value(config map[string]string, key string) string {
	text := config[key]
	switch key {
	case HWOffloadKey, RebalanceKey, "dpdk-init", "doca-init":
		return strconv.FormatBool(text == "true")
	case TCPolicyKey:
		if text != PolicySkipSW && text != PolicySkipHW {
			return PolicyNone
		}
	case "n-offload-threads":
		if text == "" {
			return "1"
		}
	}
	return text
}

func isOn(config map[string]string) bool { return config[HWOffloadKey] == "true" }

// validate knows the keys whose wrong values OVS takes in silence.
func validate(key, text string) error {
	if text == "" {
		return nil
	}
	ok := true
	switch key {
	case HWOffloadKey, RebalanceKey:
		ok = text == "true" || text == "false"
	case TCPolicyKey:
		ok = text == PolicyNone || text == PolicySkipSW || text == PolicySkipHW
	case MaxIdleKey, MaxRevalidatorKey, FlowLimitKey, StatsDelayKey:
		n, err := strconv.ParseUint(text, 10, 31)
		ok = err == nil && n > 0
	}
	if !ok {
		return fmt.Errorf("other_config:%s: %q is not a value of it", key, text)
	}
	return nil
}
