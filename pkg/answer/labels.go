package answer

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/ovn-offload/ovn-offload/pkg/snapshot"
)

// Labels choose streams by selectors of pods, in any namespace.
type Labels struct {
	FromLabel, ToLabel string
	from, to           podSet
}

// podSet are pods as streams name them; nil: all ends, of whatever kind.
type podSet map[string]bool

func (set podSet) has(ends ...string) bool {
	return set == nil || slices.ContainsFunc(ends, func(end string) bool { return set[end] })
}

// Pods select the pods whose labels are to be known.
func (l Labels) Pods() []snapshot.Selected {
	var out []snapshot.Selected
	for _, selector := range []string{l.FromLabel, l.ToLabel} {
		if selector != "" {
			out = append(out, snapshot.Selected{Labels: selector})
		}
	}
	return out
}

// selectors are nil where a flag is not given.
func (l Labels) selectors() (from, to labels.Selector, err error) {
	for _, f := range []struct {
		flag, text string
		to         *labels.Selector
	}{{"from-label", l.FromLabel, &from}, {"to-label", l.ToLabel, &to}} {
		if f.text == "" {
			continue
		}
		if *f.to, err = labels.Parse(f.text); err != nil {
			return nil, nil, fmt.Errorf("--%s %q: %w", f.flag, f.text, err)
		}
	}
	return from, to, nil
}

// find finds the pods that the selectors select. Pods with the node's network are none: streams name the node.
func (l *Labels) find(s *snapshot.Snapshot) error {
	from, to, err := l.selectors()
	if err != nil || from == nil && to == nil {
		return err
	}
	pods, err := snapshot.Objects[corev1.Pod](s, snapshot.Pods)
	if err != nil {
		return err
	}
	selected := func(by labels.Selector) podSet {
		if by == nil {
			return nil
		}
		set := podSet{}
		for i := range pods {
			if by.Matches(labels.Set(pods[i].Labels)) {
				set["pod/"+pods[i].Namespace+"/"+pods[i].Name] = true
			}
		}
		return set
	}
	l.from, l.to = selected(from), selected(to)
	return nil
}
