package trace

import (
	"context"
	"os/exec"
	"testing"
	"time"

	"github.com/ovn-offload/ovn-offload/pkg/contract"
	"github.com/ovn-offload/ovn-offload/pkg/ovn/nb"
	"github.com/ovn-offload/ovn-offload/pkg/ovsdb/ovsdbtest"
)

// TestPrograms_AskAMemberThatDoesNotLead: of a real cluster, at the socket of one member alone. Without the option a program fails there,
// and at the leader it does not.
func TestPrograms_AskAMemberThatDoesNotLead(t *testing.T) {
	ovsdbtest.Need(t, "ovn-nbctl", "ovs-appctl")
	members := ovsdbtest.StartCluster(t, nb.Definition, 2)
	leader := ovsdbtest.Leader(members)
	follower := members[0]
	if follower == leader {
		follower = members[1]
	}
	ask := func(at *ovsdbtest.Server, command []string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		return exec.CommandContext(ctx, command[0], append(command[1:], "--db="+at.Endpoint(), "show")...).Run()
	}
	if err := ask(follower, contract.AtMember("ovn-nbctl")); err != nil {
		t.Errorf("at a member that does not lead: %v", err)
	}
	if err := ask(follower, []string{"ovn-nbctl"}); err == nil {
		t.Error("a member that does not lead answers without the option, too")
	}
	if err := ask(leader, []string{"ovn-nbctl"}); err != nil {
		t.Errorf("at the leader: %v", err)
	}
}
