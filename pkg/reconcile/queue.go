package reconcile

// rank is the queue that a dirty key waits in.
type rank int

const (
	rankUrgent rank = iota
	rankEvent
	rankPass
	ranks
	nowhere = ranks // of a running key that was not marked again
)

// maxPassedOver is how many batches in a row go past a queue that is not empty.
const maxPassedOver = 10

// queues are the dirty keys of a loop.
type queues[K comparable] struct {
	rank map[K]rank
	// order has each queue's keys, oldest first. A key that has moved to another
	// queue since, or that was taken, is skipped.
	order  [ranks][]K
	count  [ranks]int
	passed [ranks]int
}

func (q *queues[K]) len() int { return len(q.rank) }

func (q *queues[K]) has(r rank) bool { return q.count[r] > 0 }

// add says whether that changed anything: a dirty key moves forward only.
func (q *queues[K]) add(key K, r rank) bool {
	if have, dirty := q.rank[key]; dirty {
		if have <= r {
			return false
		}
		q.count[have]--
	}
	q.rank[key] = r
	q.order[r] = append(q.order[r], key)
	q.count[r]++
	return true
}

// take removes up to n keys of one queue.
func (q *queues[K]) take(n int) (keys []K) {
	r := q.next()
	if r == ranks {
		return nil
	}
	at := 0
	for ; at < len(q.order[r]) && len(keys) < n; at++ {
		key := q.order[r][at]
		if have, dirty := q.rank[key]; dirty && have == r {
			delete(q.rank, key)
			keys = append(keys, key)
		}
	}
	q.order[r] = q.order[r][at:]
	if q.count[r] -= len(keys); q.count[r] == 0 {
		q.order[r] = nil
	}
	return keys
}

// next is the first queue that is not empty, or one that was passed over too often.
func (q *queues[K]) next() rank {
	first := ranks
	for r := ranks - 1; r >= rankUrgent; r-- {
		if q.count[r] == 0 {
			continue
		}
		first = r
		if q.passed[r] >= maxPassedOver {
			break
		}
	}
	for r := rankUrgent; r < ranks; r++ {
		if r == first || q.count[r] == 0 {
			q.passed[r] = 0
		} else {
			q.passed[r]++
		}
	}
	return first
}
