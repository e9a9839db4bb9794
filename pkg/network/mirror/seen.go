package mirror

import (
	"crypto/sha256"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// isSeen says that the informers have just what the API had when the copies of a service were right. Most events, such as those
// of other pods of its namespace, change nothing of a service.
func (m *Mirrors) isSeen(service contract.Owner) bool {
	before, ok := m.seen.Load(service)
	network := m.deps.Network(service.Namespace)
	headless, err := m.headless.GetIndexer().IndexKeys(byService, service.String())
	if !ok || network == "" || m.deps.Sources == nil || err != nil || len(headless) > 0 {
		return false
	}
	found, err := m.copies.GetIndexer().ByIndex(byService, service.String())
	if err != nil {
		return false
	}
	var copies, wanted []*discoveryv1.EndpointSlice
	for _, object := range found {
		if slice, is := object.(*discoveryv1.EndpointSlice); is {
			copies = append(copies, slice)
		}
	}
	for _, source := range m.deps.OnNetwork(service.Namespace, mirrored(m.deps.Sources(service))) {
		wanted = append(wanted, copyOf(source, network))
	}
	return stateOf(network, wanted, copies) == before
}

// stateOf is a checksum that differs when copies may have to be written: the versions of the sources with the addresses on the
// network, and the versions of the copies.
func stateOf(network string, wanted, copies []*discoveryv1.EndpointSlice) [sha256.Size]byte {
	var lines []string
	for _, slice := range wanted {
		line := []string{"of", slice.Annotations[sourceKey], slice.Annotations[sourceVersionKey]}
		for _, endpoint := range slice.Endpoints {
			line = append(line, endpoint.Addresses...)
		}
		lines = append(lines, strings.Join(line, " "))
	}
	for _, slice := range copies {
		lines = append(lines, "is "+slice.Name+" "+slice.ResourceVersion)
	}
	slices.Sort(lines)
	return sha256.Sum256([]byte(network + "\n" + strings.Join(lines, "\n")))
}
