// Package quota counts what the pods of namespaces have, and lets those wait that are beyond the quota of their namespace.
package quota

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/reconcile"
)

// Quota is how many attachments to secondary networks the pods of a namespace may have together.
type Quota struct {
	Max int
	// Problem says why the namespace's annotation cannot be read, and Max is 0; mostly nil.
	Problem error
}

// Error is that of a pod whose attachments are beyond the quota of its namespace. It waits until others go.
type Error struct {
	Quota
	Namespace string
	Needs     int
}

func (e *Error) Error() string {
	if e.Problem != nil {
		return fmt.Sprintf("namespace %s gets no more attachments to networks: %v", e.Namespace, e.Problem)
	}
	return fmt.Sprintf("the pod needs %d attachments to networks, and fewer are left of the %d that namespace %s may have (annotation %s)",
		e.Needs, e.Max, e.Namespace, contract.MaxAttachmentsKey)
}

// Unwrap says that the pod is decided again when it may be right.
func (e *Error) Unwrap() error { return reconcile.ErrNotReady }

// Counts has what the pods of each namespace have, and which pods wait.
type Counts struct {
	attached map[string]int
	queues   map[string]queue
}

// New counts nothing.
func New() *Counts { return &Counts{map[string]int{}, map[string]queue{}} }

// Add counts n more attachments of a namespace's pods.
func (c *Counts) Add(namespace string, n int) {
	if c.attached[namespace] += n; c.attached[namespace] == 0 {
		delete(c.attached, namespace)
	}
}

// Judge is an error if a pod needs more attachments than the quota has left beside those of older pods that wait.
func (c *Counts) Judge(pod *corev1.Pod, quota Quota, needs int) *Error {
	is := queued{ownerOf(pod), pod.CreationTimestamp, needs, quota.Max}
	if slices.Contains(c.queues[pod.Namespace].with(is).fitting(c.attached[pod.Namespace]), is.owner) {
		return nil
	}
	return &Error{quota, pod.Namespace, needs}
}

// Follow puts a pod into its namespace's queue, or takes it out if there is no error. It returns the pods that waited behind it
// and now fit.
func (c *Counts) Follow(pod *corev1.Pod, beyond *Error) (retry []contract.Owner) {
	line := c.queues[pod.Namespace]
	rest := line.without(ownerOf(pod))
	if beyond != nil {
		rest = rest.with(queued{ownerOf(pod), pod.CreationTimestamp, beyond.Needs, beyond.Max})
	} else if len(rest) < len(line) {
		retry = rest.fitting(c.attached[pod.Namespace])
	}
	if c.queues[pod.Namespace] = rest; len(rest) == 0 {
		delete(c.queues, pod.Namespace)
	}
	return retry
}

// Fitting are the pods of a namespace that wait and fit now.
func (c *Counts) Fitting(namespace string) []contract.Owner {
	return c.queues[namespace].fitting(c.attached[namespace])
}

// queue are the pods of a namespace that its quota keeps waiting, oldest first.
type queue []queued

type queued struct {
	owner      contract.Owner
	created    metav1.Time
	needs, max int
}

func ownerOf(pod *corev1.Pod) contract.Owner { return contract.PodOwner(pod.Namespace, pod.Name) }

func (q queued) compare(other queued) int {
	return cmp.Or(q.created.Compare(other.created.Time), cmp.Compare(q.owner.Name, other.owner.Name))
}

// with is the queue with a pod, once.
func (q queue) with(is queued) queue {
	others := q.without(is.owner)
	at, _ := slices.BinarySearchFunc(others, is, queued.compare)
	return slices.Insert(others, at, is)
}

// without is a copy.
func (q queue) without(owner contract.Owner) queue {
	return slices.DeleteFunc(slices.Clone(q), func(waits queued) bool { return waits.owner == owner })
}

// fitting are the pods that the quota has room for beside what others have. One that needs more than all of it stops none.
func (q queue) fitting(attached int) (owners []contract.Owner) {
	for _, waits := range q {
		if waits.needs > waits.max {
			continue
		}
		if attached += waits.needs; attached > waits.max {
			break
		}
		owners = append(owners, waits.owner)
	}
	return owners
}
