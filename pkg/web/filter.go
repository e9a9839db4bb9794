package web

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/ovn-offload/ovn-offload/pkg/answer"
	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// flowsView has the flows of the datapath of a pod or a node, or the streams of a namespace that a filter chooses.
func flowsView(ctx context.Context, f Facts, q url.Values) (*View, error) {
	if q.Get("namespace") != "" {
		return filteredView(ctx, f, q)
	}
	pod, node := q.Get("pod"), q.Get("node")
	command := "kubectl offload flows --node " + node
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		command = "kubectl offload flows --pod " + name + " -n " + namespace
	} else if node == "" {
		return nil, errRequest{errors.New("want pod=NAMESPACE/NAME, node=NAME or namespace=NAME")}
	}
	flows, err := f.Flows(ctx, pod, node)
	if err != nil {
		return nil, err
	}
	return &View{Taken: flows.Taken, Command: command, Flows: flows, Missing: flows.Missing}, nil
}

// Filtered are the streams that a filter chooses.
type Filtered struct {
	// Matched is how many there are; those with the most packets are given. All is how many the namespace has.
	Matched int              `json:"matched"`
	All     int              `json:"all"`
	Streams []streams.Stream `json:"streams"`
}

// maxStreams bounds the rows of a view.
const maxStreams = 200

// filteredView has the streams that kubectl offload flows lists with the same filter.
func filteredView(ctx context.Context, f Facts, q url.Values) (*View, error) {
	filter, command, err := filterOf(q)
	if err != nil {
		return nil, errRequest{err}
	}
	list, err := f.Streams(ctx, []string{filter.Namespace})
	if err != nil {
		return nil, err
	}
	a := Filtered{All: len(list.Streams), Streams: []streams.Stream{}}
	for _, s := range list.Streams {
		if filter.Chooses(s) {
			a.Matched++
			a.Streams = append(a.Streams, s)
		}
	}
	a.Streams = a.Streams[:min(len(a.Streams), maxStreams)]
	return &View{Taken: list.Taken, Command: command, Answer: a, Missing: list.Missing}, nil
}

// plain is a value that a shell takes as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// filterOf reads a filter, and gives the command with the same one. Names are those of objects in the namespace.
func filterOf(q url.Values) (answer.Filter, string, error) {
	var filter answer.Filter
	command := "kubectl offload flows"
	for _, field := range []struct {
		name, flag string
		value      *string
		named      bool
	}{
		{"namespace", "-n", &filter.Namespace, false},
		{"pod", "--pod", &filter.Pod, true},
		{"protocol", "--protocol", &filter.Protocol, false},
		{"port", "--port", &filter.Port, false},
		{"verdict", "--verdict", &filter.Verdict, false},
		{"place", "--place", &filter.Place, false},
		{"reason", "--reason", &filter.Reason, false},
		{"policy", "--policy", &filter.Policy, true},
	} {
		value := q.Get(field.name)
		switch {
		case value == "":
			continue
		case !plain.MatchString(value):
			return filter, "", fmt.Errorf("%s=%q: want a name of letters, digits, dots and hyphens", field.name, value)
		}
		command += " " + field.flag + " " + value
		if field.named {
			value = filter.Namespace + "/" + value
		}
		*field.value = value
	}
	return filter, command, filter.Validate()
}
