package contract

// AtMember is the command line of ovn-nbctl, ovn-sbctl or ovn-trace beside a member of a database. Without the option they
// ask the leader of a cluster alone, and fail at the socket of a member that does not lead.
func AtMember(program string, args ...string) []string {
	return append([]string{program, "--no-leader-only"}, args...)
}
