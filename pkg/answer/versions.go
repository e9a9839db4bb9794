package answer

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Versions are those of the plugin, of the controller that leads and of the agents, and whether they may run together.
type Versions struct {
	Header
	Plugin     string `json:"plugin"`
	Controller string `json:"controller,omitempty"`
	// Agents are versions by the number of nodes.
	Agents []Count `json:"agents,omitempty"`
	// Skew has a line for each two versions that docs/upgrade.md does not allow together.
	Skew []string `json:"skew,omitempty"`
}

// VersionResources are what NewVersions reads.
func VersionResources() []snapshot.Resource {
	return []snapshot.Resource{snapshot.NodeOffloads, snapshot.Leases}
}

// ClientVersion is the answer without a cluster.
func ClientVersion(s *snapshot.Snapshot, plugin string) *Versions {
	return &Versions{Header: header("Versions", s), Plugin: plugin}
}

// NewVersions compares the versions of a cluster with each other and with that of the plugin.
func NewVersions(s *snapshot.Snapshot, plugin string) (*Versions, error) {
	f, err := readFacts(s)
	if err != nil {
		return nil, err
	}
	v := ClientVersion(s, plugin)
	v.Agents = f.versions()["agent"]
	lease := f.leases[f.namespace+"/"+leaderLease]
	v.Controller = contract.LeaderVersion(lease.Annotations[contract.LeaderVersionKey], f.leader())
	if s.Missing[snapshot.Leases] == "" && v.Controller == "" {
		v.missed([]string{"version of the controller: none leads, or the one that leads does not say it"})
	}
	if s.Missing[snapshot.NodeOffloads] == "" && len(v.Agents) == 0 {
		v.missed([]string{"versions of agents: no NodeOffload has one"})
	}
	v.compare("the plugin", plugin, "the controller", v.Controller)
	for _, agents := range v.Agents {
		of := "agents of " + plural(agents.Count, "node")
		v.compare("the plugin", plugin, of, agents.Value)
		if v.compare("the controller", v.Controller, of, agents.Value) < 0 {
			v.Skew = append(v.Skew, fmt.Sprintf("%s, %s, are ahead of the controller, %s: only while an upgrade or a rollback runs", of, agents.Value, v.Controller))
		}
	}
	if v.Next = "kubectl offload status"; len(v.Skew) > 0 {
		v.Code, v.Next = max(v.Code, Degraded), "kubectl offload help upgrade"
	}
	return v, nil
}

// compare adds a line about two versions that are more than one minor version apart, and says which is the newer one where they are
// not: the first for 1. Those that are equal or absent need no number.
func (v *Versions) compare(what, is, with, other string) int {
	if is == other || is == "" || other == "" {
		return 0
	}
	a, errA := version.ParseSemantic(is)
	b, errB := version.ParseSemantic(other)
	if errA != nil || errB != nil {
		v.missed([]string{fmt.Sprintf("skew between %s, %s, and %s, %s: no versions of releases", what, is, with, other)})
		return 0
	}
	if a.Major() != b.Major() || a.Minor() > b.Minor()+1 || b.Minor() > a.Minor()+1 {
		v.Skew = append(v.Skew, fmt.Sprintf("%s, %s, and %s, %s: more than one minor version apart", what, is, with, other))
		return 0
	}
	if a.Minor() == b.Minor() {
		return 0
	}
	return map[bool]int{true: 1, false: -1}[a.Minor() > b.Minor()]
}

// Text implements Answer.
func (v *Versions) Text(p *Page) {
	rows := [][]string{{"plugin", v.Plugin}}
	if v.Controller != "" {
		rows = append(rows, []string{"controller", v.Controller})
	}
	if len(v.Agents) > 0 {
		rows = append(rows, []string{"agents", counts(v.Agents, "node")})
	}
	p.Table(rows)
	for _, line := range v.Skew {
		p.Line("not supported: %s", line)
	}
	if len(v.Skew) == 0 && len(v.Missing) == 0 && len(rows) > 1 {
		p.Line("these versions may run together")
	}
}
