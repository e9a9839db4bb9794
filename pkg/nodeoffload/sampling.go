package nodeoffload

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/vswitch"
	"github.com/ovn-offload/ovn-offload/pkg/vf"
)

// Reasons of Events on pods.
const (
	reasonOutside = "OutsideHardware"
	reasonInside  = "TrafficOffloaded"
)

// Events puts Events on objects; *kube.Reporter does.
type Events interface {
	Warn(owner contract.Owner, reason, note string)
	Note(owner contract.Owner, reason, note string)
}

// Database is the node's Open_vSwitch database; *ovsdb.DB is one.
type Database interface {
	Table(name string) []any
}

// SamplingDeps is what a Sampling works with.
type SamplingDeps struct {
	Switch    offload.Switch
	DB        Database
	Inventory func() *vf.Inventory
	Running   *offload.Running
	// Recirculation asks the kernel, as netdev.RecirculationShared does; nil: not known.
	Recirculation func() (shared, known bool)
	Events        Events
	// Sampled is called after each sample.
	Sampled func()
	// Detail says whose traffic has series of its own; "": that of namespaces.
	Detail     offload.Detail
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// Sampling measures where the node's traffic is handled, while the node has a
// NIC in switchdev mode.
type Sampling struct {
	deps    SamplingDeps
	metrics *offload.Metrics
	alerts  offload.Alerts
	// counted and failing are of Run's goroutine only.
	counted *offload.Counted
	failing bool

	mu     sync.Mutex
	report *offload.Report
	taken  time.Time
}

// NewSampling registers the metrics. Sampling starts with Run.
func NewSampling(deps SamplingDeps) *Sampling {
	detail := cmp.Or(deps.Detail, offload.DetailNamespace)
	s := &Sampling{deps: deps, metrics: offload.NewMetrics(detail), alerts: offload.Alerts{Again: time.Hour}}
	deps.Registerer.MustRegister(s.metrics, newSettings(s), offload.NewTables(deps.Switch, "/proc/sys/net/netfilter"))
	return s
}

// Run takes samples until ctx ends.
func (s *Sampling) Run(ctx context.Context) error {
	sampler := offload.Sampler{Switch: s.deps.Switch, State: s.State, Interval: offload.DefaultLimits().Apart, Idle: s.idle}
	sampler.Run(ctx, s.took, s.failed)
	return ctx.Err()
}

// Read takes one sample now, and publishes nothing.
func (s *Sampling) Read(ctx context.Context) (offload.Report, error) {
	return offload.Read(ctx, s.deps.Switch, s.State())
}

// Report is that of the newest sample; nil before the first.
func (s *Sampling) Report() *offload.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report
}

// Newest is the report of the newest sample with its time; not ok before the first.
func (s *Sampling) Newest() (_ offload.Report, taken time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.report == nil {
		return offload.Report{}, time.Time{}, false
	}
	return *s.report, s.taken, true
}

// Settings are the settings in force, nil while OVS is disconnected.
func (s *Sampling) Settings() *offload.Settings {
	observed, ok := s.Observed()
	if !ok {
		return nil
	}
	settings := observed.Settings()
	return &settings
}

// Observed is the configuration of OVS and of the running ovs-vswitchd; not ok while OVS is disconnected.
func (s *Sampling) Observed() (_ offload.Observed, ok bool) {
	for _, row := range s.deps.DB.Table(vswitch.OpenvSwitchTable) {
		global, isGlobal := row.(*vswitch.OpenvSwitch)
		instance, err := s.deps.Switch.Instance()
		if !isGlobal || err != nil {
			continue
		}
		observed, err := s.deps.Running.Observe(instance, maps.Clone(global.OtherConfig))
		if err != nil {
			s.deps.Logger.Warn("observing the settings of OVS", "error", err)
		}
		if s.deps.Recirculation != nil {
			shared, known := s.deps.Recirculation()
			observed.NoRecirculation = known && !shared
		}
		return observed, true
	}
	return offload.Observed{}, false
}

func (s *Sampling) idle() bool {
	inv := s.deps.Inventory()
	if inv == nil {
		return true
	}
	return !slices.ContainsFunc(inv.PFs, func(pf vf.PF) bool { return pf.Switchdev() })
}

// State is what is known of ports and settings now.
func (s *Sampling) State() offload.State {
	var rows []*vswitch.Interface
	for _, row := range s.deps.DB.Table(vswitch.InterfaceTable) {
		if iface, ok := row.(*vswitch.Interface); ok {
			rows = append(rows, iface)
		}
	}
	state := offload.State{Ports: offload.Ports(rows, switchPorts(s.deps.Inventory()))}
	if settings := s.Settings(); settings != nil {
		state.Settings = *settings
	}
	return state
}

func (s *Sampling) took(sample offload.Sample, delta *offload.Delta) {
	if s.failing {
		s.failing = false
		s.deps.Logger.Info("the flows of OVS are read again")
	}
	s.metrics.Update(sample, delta)
	s.counted = s.counted.Add(sample, delta)
	report := sample.Report
	report.Ends, report.Counted = nil, s.counted // the ends are large, and only the sampler's
	s.mu.Lock()
	s.report, s.taken = &report, sample.At
	s.mu.Unlock()
	if delta != nil {
		s.writeEvents(sample.At, *delta)
	}
	s.deps.Sampled()
}

func (s *Sampling) writeEvents(now time.Time, delta offload.Delta) {
	raised, cleared := s.alerts.Update(now, offload.Findings(delta, offload.DefaultLimits()))
	for _, f := range raised {
		s.deps.Events.Warn(f.Pod, reasonOutside, f.Message())
	}
	for _, pod := range cleared {
		s.deps.Events.Note(pod, reasonInside, "the traffic that stayed out of hardware is in hardware now, or has ended")
	}
}

// failed is called for each failed attempt, and logs the first of a series.
func (s *Sampling) failed(err error) {
	if !s.failing {
		s.deps.Logger.Warn("the flows of OVS cannot be read", "error", err)
	}
	s.failing = true
}

// switchPorts are the links that may offload, by name.
func switchPorts(inv *vf.Inventory) map[string]offload.Device {
	out := map[string]offload.Device{}
	if inv == nil {
		return out
	}
	for i := range inv.PFs {
		pf := &inv.PFs[i]
		if !pf.Switchdev() {
			continue
		}
		put := func(n vf.Netdev, function bool) {
			out[n.Name] = offload.Device{
				Representor: true, Function: function, HWTC: n.HWTC != nil && *n.HWTC, Limit: pf.Class.Limit,
			}
		}
		for _, port := range pf.Ports {
			put(port, false)
		}
		for _, r := range representors(pf) {
			put(r.Netdev, true)
		}
	}
	for _, b := range inv.Bonds {
		if b.LAG {
			out[b.Name] = offload.Device{Representor: true, HWTC: out[b.Ports[0]].HWTC, Limit: out[b.Ports[0]].Limit}
		}
	}
	return out
}

func representors(pf *vf.PF) []*vf.Representor {
	var out []*vf.Representor
	for i := range pf.VFs {
		out = append(out, pf.VFs[i].Representor)
	}
	for i := range pf.SFs {
		out = append(out, pf.SFs[i].Representor)
	}
	for i := range pf.Representors {
		out = append(out, &pf.Representors[i])
	}
	var known []*vf.Representor
	for _, r := range out {
		if r != nil {
			known = append(known, r)
		}
	}
	return known
}
