package nads

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
)

// TestRefusal_IsInTheCondition: of each kind of object. Until the controller has looked at the NAD, the object does not say that
// the network was created.
func TestRefusal_IsInTheCondition(t *testing.T) {
	for _, x := range []struct {
		owner          contract.Owner
		object, reason string
	}{
		{netA, udn("red", "a", layer2), "SyncError"},
		{wide, cudn("wide", "{}", layer2), "NetworkAttachmentDefinitionSyncError"},
	} {
		c := newCluster(t, namespace("red", ""))
		nad := "red/" + x.owner.Name
		c.verdicts[nad] = Verdict{}
		c.put(x.object)
		c.settle()
		c.want("before a verdict", c.names(contract.KindNAD)+": "+c.says(x.owner, conditionCreated), nad+": ")
		c.verdicts[nad] = Verdict{IsKnown: true, Refused: errors.New("its subnets overlap 10.0.0.0/8, which is a range of services")}
		c.settle()
		c.want("refused", c.says(x.owner, conditionCreated), "False "+x.reason+": its subnets overlap 10.0.0.0/8, which is a range of services")
		c.want("refused", c.says(x.owner, conditionReachable), "")
		c.verdicts[nad] = Verdict{IsKnown: true}
		c.settle()
		c.wantPart("no longer refused", c.says(x.owner, conditionCreated), "True NetworkAttachmentDefinitionCreated")
		c.verdicts[nad] = Verdict{IsKnown: true, Unreachable: errors.New("node ports do not lead to it")}
		c.settle()
		c.wantPart("the others came later", c.says(x.owner, conditionCreated), "True NetworkAttachmentDefinitionCreated")
		c.want("the others came later", c.says(x.owner, conditionReachable), "False SubnetsOverlap: node ports do not lead to it")
		delete(c.verdicts, nad)
		c.settle()
		c.wantPart("the others have gone", c.says(x.owner, conditionReachable), "True SubnetsRouted")
	}
}

// TestPrimary_LabelIsTakenAway: without admission, the label of a namespace may go. Its network says so at once.
func TestPrimary_LabelIsTakenAway(t *testing.T) {
	c := newCluster(t, namespace("red", labelled), udn("red", "a", primary))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.nads.Run(ctx) }()
	defer func() {
		stop()
		<-ended
	}()
	for i, x := range []struct{ labels, want string }{
		{labelled, "True"}, {"", "False SyncError: namespace red does not have the label"}, {labelled, "True"},
	} {
		c.put(namespace("red", x.labels))
		for end := time.Now().Add(20 * time.Second); !strings.HasPrefix(c.says(netA, conditionCreated), x.want); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("step %d: %q, want %q", i, c.says(netA, conditionCreated), x.want)
			}
		}
	}
}

func TestTransport_IsNotAccepted(t *testing.T) {
	routed := "{topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.0.0.0/16}]}, transport: NoOverlay, noOverlay: {outboundSNAT: Enabled, routing: Managed}}"
	c := newCluster(t, namespace("red", labelled), cudn("wide", "{}", routed))
	c.settle()
	c.wantPart("transport", c.says(wide, conditionTransport), "False RouteAdvertisementsNotEnabled: transport NoOverlay needs")
	c.wantPart("created", c.says(wide, conditionCreated), "True")
}

func TestRefused_HasNoNAD(t *testing.T) {
	uplink := strings.TrimSuffix(primary, "}") + ", uplinks: [br1]}"
	c := newCluster(t, namespace("red", labelled), namespace("blue", labelled), cudn("wide", "{}", uplink))
	c.settle()
	c.want("NADs", c.names(contract.KindNAD), "")
	c.want("created", c.says(wide, conditionCreated), "False NetworkAttachmentDefinitionSyncError: uplinks is not supported")
}
