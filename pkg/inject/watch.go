package inject

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Sighting is where packets were seen on a node.
type Sighting struct {
	Node string `json:"node"`
	// Pod is namespace/name of the pod whose interface it is; empty: one of the node.
	Pod       string `json:"pod,omitempty"`
	Interface string `json:"interface"`
	// Direction is in or out, as the interface's owner sees it.
	Direction string `json:"direction"`
	Packets   int    `json:"packets"`
}

// point is where tcpdump looks: all interfaces of a node, or of the pod with an address.
type point struct{ node, pod, address string }

// watchScript ends by itself, also when its reader is gone. The namespace of a pod is the one that has its address.
const watchScript = `filter=$1 address=$2 in=
if [ -n "$address" ]; then
	for ns in /run/netns/*; do
		if nsenter --net="$ns" ip -o address show to "$address" 2>/dev/null | grep -q .; then in="nsenter --net=$ns"; break; fi
	done
	if [ -z "$in" ]; then echo "no interface has the address $address"; exit 1; fi
fi
echo "pid $$"
exec timeout -s INT 60 $in tcpdump -Z root -i any -n -l -q -t -c 100 -- "$filter" 2>&1`

func (p point) command(filter string) []string {
	return []string{"sh", "-uc", watchScript, "watch", filter, p.address}
}

// watch takes the lines of the script at a point.
type watch struct {
	point
	mu   sync.Mutex
	rest []byte
	// said is what it printed before it was ready, and pid that of its process.
	said, pid string
	// ready is closed when tcpdump listens, and ended gets why the script has ended.
	ready chan struct{}
	ended chan error
	seen  []Sighting
}

func newWatch(p point) *watch {
	return &watch{point: p, ready: make(chan struct{}), ended: make(chan error, 1)}
}

// Write implements io.Writer.
func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = append(w.rest, p...)
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		w.rest = rest
		w.line(strings.TrimSpace(string(line)))
	}
}

func (w *watch) line(text string) {
	if pid, ok := strings.CutPrefix(text, "pid "); ok && w.pid == "" {
		w.pid = pid
		return
	}
	fields := strings.Fields(text)
	switch {
	case strings.HasPrefix(text, "listening on "):
		close(w.ready)
	case len(fields) > 3 && (fields[2] == "IP" || fields[2] == "IP6"):
		w.see(Sighting{Node: w.node, Pod: w.pod, Interface: fields[0], Direction: strings.ToLower(fields[1])})
	default:
		w.said = text
	}
}

// see counts packets that go out of an interface of the node or come into one, and those that come to the pod.
func (w *watch) see(s Sighting) {
	if s.Direction != "in" && (s.Direction != "out" || s.Pod != "") {
		return
	}
	at := slices.IndexFunc(w.seen, func(o Sighting) bool { o.Packets = 0; return o == s })
	if at < 0 {
		at, w.seen = len(w.seen), append(w.seen, s)
	}
	w.seen[at].Packets++
}

func (w *watch) problem() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said
}

func (w *watch) result() []Sighting {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}
