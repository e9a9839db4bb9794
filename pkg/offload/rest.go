package offload

import "time"

// longDump is what a dump counts for at most. A longer one has mostly waited, for a processor or for other work of
// ovs-vswitchd, as beside a restart, and says little about what the next one takes.
const longDump = 3 * time.Second

// Rest is the time without a dump after one that kept the main thread of ovs-vswitchd busy, as so many times that.
func Rest(busy time.Duration, times int) time.Duration {
	return time.Duration(times) * min(busy, longDump)
}

// MeasureDump begins to measure a dump, and gives what ends it. The result is the processor time of the main thread of
// ovs-vswitchd: on a busy node a dump takes longer without more work. Where the process cannot be read, or is another
// one than at the beginning, the result is the time that passed.
func MeasureDump(sw Switch) (busy func() time.Duration) {
	began := time.Now()
	before, err := sw.ProcessorTime()
	return func() time.Duration {
		passed := time.Since(began)
		after, errAfter := sw.ProcessorTime()
		if err != nil || errAfter != nil || after < before {
			return passed
		}
		return after - before
	}
}
