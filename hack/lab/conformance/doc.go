// Package conformance runs Kubernetes' own end to end tests of the network in a
// lab that is up, and says what became of each.
//
// The tests are those of the lab's version of Kubernetes ([sig-network]),
// unchanged and without a second attempt. build.Cache makes them and the images
// of their pods; ginkgo runs several at once and writes a report, which is
// read here. What the lab cannot run is in skip.yaml, with a reason for each
// line. A line that is about no test is an error.
package conformance
