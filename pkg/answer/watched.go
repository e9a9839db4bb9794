package answer

import (
	"fmt"
	"strings"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/streams"
)

// Watched are the streams of a cluster again and again. It gives those that are new since the last time, or are handled in another
// place, for another reason or by other objects.
type Watched struct {
	last map[string]bool
	page Page
}

// Changed gives the streams that are new or others than before.
func (w *Watched) Changed(a *Streams) []streams.Stream {
	var changed []streams.Stream
	now := map[string]bool{}
	for _, s := range a.Streams {
		key := fmt.Sprint(s.Node, s.Ends, s.Placed, s.Drops, s.Direction, s.DecidedBy)
		if !now[key] && !w.last[key] {
			changed = append(changed, s)
		}
		now[key] = true
	}
	w.last = now
	return changed
}

// Lines are rows for streams. The first time they have a heading. Columns stay as wide as their widest cell was.
func (w *Watched) Lines(of []streams.Stream, taken time.Time) string {
	rows := streamRows(of)
	for i, row := range rows {
		at := taken.Local().Format(time.TimeOnly)
		if i == 0 {
			at = "TIME"
		}
		rows[i] = append([]string{at}, row...)
	}
	if w.page.width != nil {
		rows = rows[1:]
	}
	w.page.text = strings.Builder{}
	w.page.aligned(rows)
	return w.page.text.String()
}
