package answer

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/ovn-offload/ovn-offload/pkg/flowapi"
	"github.com/ovn-offload/ovn-offload/pkg/offload"
	"github.com/ovn-offload/ovn-offload/pkg/selected"
	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Deciding are the streams that an object decides about or is an end of: a service, or a policy of any kind.
type Deciding struct {
	Header
	Object string `json:"object"`
	// Pods are those at the ends of the streams. Selected is how many pods a policy selects, or are behind a headless service;
	// absent: it is not known.
	Pods         []string `json:"pods"`
	Selected     *int     `json:"selected,omitempty"`
	SelectedPods []string `json:"selectedPods,omitempty"`
	// Facts are sentences about the object: what its decisions cost in hardware, what is wrong with it.
	Facts []string `json:"facts,omitempty"`

	Share   offload.Share    `json:"share"`
	Streams []streams.Stream `json:"streams"`
}

// ExplainPolicy explains a policy "namespace/name", or "name" of a kind for the whole cluster, by the streams that it decides about.
func ExplainPolicy(s *snapshot.Snapshot, kind selected.Kind, name string, flows []flowapi.Flow, missing []string) (*Deciding, error) {
	d := newDeciding(s, kind.Short+"/"+name, missing)
	policy, err := selected.Read(s, kind, name)
	if err != nil {
		return nil, err
	}
	if policy != nil {
		d.facts(policy)
	}
	return d, d.add(s, flows, func(stream streams.Stream) bool {
		return Filter{Policy: kind.Short + "/" + name}.isDecided(stream.DecidedBy)
	})
}

func (d *Deciding) facts(policy *selected.Policy) {
	if policy.Pods != nil {
		n := len(policy.Pods)
		d.Selected, d.SelectedPods = &n, policy.Pods
	}
	if policy.Problem != "" {
		d.Facts = append(d.Facts, "not in force as written: "+policy.Problem)
		d.Code = max(d.Code, Degraded)
	}
	if len(policy.Networks) > 0 {
		d.Facts = append(d.Facts, "on the networks of NetworkAttachmentDefinitions "+strings.Join(policy.Networks, ", "))
	}
	d.Facts = append(d.Facts, policy.Costs...)
}

// ExplainService explains a service "namespace/name" by the streams to it. Those of a headless one are to its pods.
func ExplainService(s *snapshot.Snapshot, name string, flows []flowapi.Flow, missing []string) (*Deciding, error) {
	d := newDeciding(s, "svc/"+name, missing)
	isOf := func(stream streams.Stream) bool {
		return stream.To == d.Object || slices.Contains(stream.DecidedBy, "Service/"+name)
	}
	if s.Missing[snapshot.Services] == "" {
		services, err := snapshot.Objects[corev1.Service](s, snapshot.Services)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(services, func(svc corev1.Service) bool { return svc.Namespace+"/"+svc.Name == name })
		if i < 0 {
			return nil, ErrNotFound{"service " + name}
		}
		if services[i].Spec.ClusterIP == corev1.ClusterIPNone {
			if isOf, err = d.headless(s, &services[i]); err != nil {
				return nil, err
			}
		}
	}
	return d, d.add(s, flows, isOf)
}

func newDeciding(s *snapshot.Snapshot, object string, missing []string) *Deciding {
	d := &Deciding{Header: header("Deciding", s), Object: object, Pods: []string{}, Streams: []streams.Stream{}}
	d.missed(missing)
	return d
}

// add adds streams of the object.
func (d *Deciding) add(s *snapshot.Snapshot, flows []flowapi.Flow, isOf func(streams.Stream) bool) error {
	names, err := Whose(s)
	if err != nil {
		return err
	}
	for _, stream := range streams.Join(flows, names) {
		if !isOf(stream) {
			continue
		}
		d.Streams = append(d.Streams, stream)
		for _, end := range []string{stream.From, stream.To, stream.Via} {
			if strings.HasPrefix(end, "pod/") && !slices.Contains(d.Pods, end) {
				d.Pods = append(d.Pods, end)
			}
		}
	}
	slices.Sort(d.Pods)
	if pods := slices.Concat(d.Pods, d.SelectedPods); len(pods) > 0 {
		d.Next = "kubectl offload explain " + pods[0]
	} else if parts := strings.Split(d.Object, "/"); len(parts) == 3 {
		d.Next = "kubectl offload flows -n " + parts[1]
	} else {
		d.Next = "kubectl offload flows"
	}
	d.Share = streams.Share(d.Streams)
	return nil
}

// shownSelected bounds the names of pods in a line of text.
const shownSelected = 5

// Text implements Answer.
func (d *Deciding) Text(p *Page) {
	line := ""
	if d.Selected != nil {
		line = ", selects " + plural(*d.Selected, "pod")
	}
	p.Line("%s  %s of the packets in hardware, streams of %s%s", d.Object, percent(d.Share), plural(len(d.Pods), "pod"), line)
	if n := len(d.SelectedPods); n > 0 {
		more := ""
		if n > shownSelected {
			more = fmt.Sprintf(" and %d more", n-shownSelected)
		}
		p.Line("its pods: %s%s", strings.Join(d.SelectedPods[:min(n, shownSelected)], ", "), more)
	}
	for _, fact := range d.Facts {
		p.Line("%s", fact)
	}
	p.Line("")
	printStreams(p, d.Streams)
}
